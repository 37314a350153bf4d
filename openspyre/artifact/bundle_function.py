"""`bundle.mlir` as frozen data: what runs in which order, at which addresses. A tree of executions and counted loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the bundle's function: the address of an argument, or the size of a symbolic dim with its bounds."""

    name: str
    granularity: int | None = None
    max_value: int | None = None

    @property
    def short_name(self) -> str:
        """What its value is called: `arg_0_base_addr` is extracted to `arg_0`."""
        return self.name.removesuffix("_addr").removesuffix("_base")

    @property
    def is_pool(self) -> bool:
        return self.name == "pool_base_addr"

    @property
    def is_size(self) -> bool:
        return self.max_value is not None or self.granularity is not None


@dataclass(frozen=True, slots=True)
class Address:
    """parameter + byte + sum of (bytes per iteration) over the enclosing loops, outermost first. No parameter: a plain number."""

    parameter: int | None
    byte: int = 0
    advance: tuple[int, ...] = ()

    def __add__(self, byte: int) -> Address:
        return Address(self.parameter, self.byte + byte, self.advance)

    def at(self, iterations: tuple[int, ...]) -> Address:
        """The address in one iteration of the loops around it."""
        moved = sum(step * index for step, index in zip(self.advance, iterations, strict=False))
        return Address(self.parameter, self.byte + moved)


@dataclass(frozen=True, slots=True)
class Execute:
    """One `sdsc_execute`: the file it names, and the value of each symbol the file uses."""

    file: str
    symbols: tuple[tuple[int, Address], ...]
    line: int


@dataclass(frozen=True, slots=True)
class Loop:
    """`scf.for` from 0 to `count` in steps of 1."""

    count: int
    body: tuple[Node, ...]


Node = Execute | Loop


@dataclass(frozen=True, slots=True)
class Function:
    """`@sdsc_bundle`. Parameter i is argument i of a launch."""

    parameters: tuple[Parameter, ...]
    body: tuple[Node, ...]

    def executions(self) -> Iterator[tuple[Execute, tuple[int, ...]]]:
        """Every execution in order, with the iterations of the loops around it."""
        yield from _unrolled(self.body, ())

    def listed(self) -> Iterator[Execute]:
        """Every execution once, in the order of the text."""
        yield from _listed(self.body)

    def files(self) -> tuple[str, ...]:
        """The files it names, each once, in order."""
        return tuple(dict.fromkeys(execute.file for execute in self.listed()))

    def count(self) -> int:
        """How many executions there are."""
        return _count(self.body)


def _unrolled(body: tuple[Node, ...], iterations: tuple[int, ...]) -> Iterator[tuple[Execute, tuple[int, ...]]]:
    for node in body:
        match node:
            case Execute():
                yield node, iterations
            case Loop(count, inner):
                for index in range(count):
                    yield from _unrolled(inner, (*iterations, index))


def _listed(body: tuple[Node, ...]) -> Iterator[Execute]:
    for node in body:
        match node:
            case Execute():
                yield node
            case Loop(_, inner):
                yield from _listed(inner)


def _count(body: tuple[Node, ...]) -> int:
    return sum(1 if isinstance(node, Execute) else node.count * _count(node.body) for node in body)
