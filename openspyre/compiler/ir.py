"""The compiler's IR: a program is buffers and a tree of loops and ops; an op is one row of the op table over a named iteration space.

Accesses are exact: an affine host offset per operand. Layouts, relayouts, core splits and places are filled in by passes.
Everything is frozen; a pass returns a new program.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from openspyre.spec.encodings import float_bits, float_of, rounded
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.origin import NOWHERE, Origin


class Role(StrEnum):
    """What a buffer is to the program's caller."""

    INPUT = "input"
    OUTPUT = "output"
    UPDATE = "update"  # an input that is written as well
    CONSTANT = "constant"  # its values are known already: whoever loads the program brings them
    TEMP = "temp"


@dataclass(frozen=True, slots=True)
class InPool:
    """From this byte of the program's pool on."""

    byte: int


@dataclass(frozen=True, slots=True)
class InScratchpad:
    """From this byte of every core's scratchpad on: each core has the slice of the tensor that it works on."""

    byte: int


Place = InPool | InScratchpad


@dataclass(frozen=True, slots=True)
class NamedDim:
    """A dim of a buffer that the user has named: its host offsets are `stride` apart."""

    name: str
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor on the card, as the host sees it; `layout` None until one is chosen, `place` (temps) where it lies.

    An `unset` one begins as whatever lies there, as torch.empty does: others are written before they are read.
    A constant has `values`: the bytes that the host would store, in the order of host offsets.
    Of one with `spare_rows`, an op that writes whole sticks may write over rows behind its own: nobody has written them yet.
    `named`: the dims that the user has named, for hints; they need not be the dims of `size`.
    """

    name: str
    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    role: Role
    layout: SpyreTensorLayout | None = None
    place: Place | None = None
    unset: bool = False
    values: bytes | None = None
    spare_rows: bool = False
    named: tuple[NamedDim, ...] = ()


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension of an op's iteration space; `split` is the number of core slices.

    Where dims of an op have `lanes`, its sticks run along one of those and no other: the order of a sum depends on it.
    `named`: the user's names of what it walks through, the outermost first; several where it walks through several dims at once.
    """

    name: str
    size: int
    reduced: bool = False
    split: int = 1
    lanes: bool = False
    named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """A buffer at host offset `offset + sum(strides[d] * index[d])`; `dtype` differs from the buffer's only where bits agree (D5).

    `advance`: elements that each loop around the op moves it by with every iteration, outermost first.
    """

    buffer: str
    offset: int
    strides: tuple[int, ...]
    dtype: str
    advance: tuple[int, ...] = ()

    def on(self, buffer: str) -> Access:
        """The same elements of another buffer."""
        return Access(buffer, self.offset, self.strides, self.dtype, self.advance)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number the launch supplies, already rounded to the op's format; `dtype` tells how. `word`: its 32 bits, where known now."""

    name: str
    dtype: str
    word: int | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """A number known now, rounded to the op's format (contract N7): its 32 bits in a register. `dtype` tells the format."""

    bits: int
    dtype: str

    @classmethod
    def of(cls, value: float, dtype: str) -> Constant:
        return cls(float_bits(rounded(value, dtype)), dtype)

    @property
    def value(self) -> float:
        return float_of(self.bits)


@dataclass(frozen=True, slots=True)
class Iota:
    """The integer `offset + sum(strides[d] * index[d])` itself."""

    offset: int
    strides: tuple[int, ...]


Operand = Access | Scalar | Constant | Iota
Attribute = int | float | bool | str | tuple[int, ...]
UNIT_BATCH = "unit_batch"  # attribute of a product of one batch, whose dim of size 1 its SuperDSC has all the same
AT_ONCE = "at_once"  # attribute of a relayout that stays one step, whatever moves the hardware has for it
CARRIED = "carried"  # attribute of an op whose result is a loop's state: it stays in memory


@dataclass(frozen=True, slots=True)
class Hint:
    """A `spyre_hint` scope around an op: a number of its own, larger than those of the scopes around it, and what it asks for.

    `work_div`: cores per named dim, in the user's order. `tiles`: the named dim that a loop cuts, and into how many tiles.
    The `expected` ones are checked: the names of all dims of the scope's ops, and of those that are reduced.
    `whole`: all ops of the scope are in this program.
    """

    number: int
    work_div: tuple[tuple[str, int], ...] = ()
    tiles: tuple[str, int] | None = None
    expected_named_dims: tuple[str, ...] | None = None
    expected_reduction_dims: tuple[str, ...] | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Op:
    """One row of the op table at work. `attributes` are the row's static parameters, `origin`: where it came from.

    `hints`: the scopes it stands in, the outermost first.
    """

    name: str
    row: str
    dims: tuple[Dim, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Access, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()
    origin: Origin = NOWHERE
    hints: tuple[Hint, ...] = ()

    def attribute(self, name: str) -> Attribute:
        return dict(self.attributes)[name]

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Every access, inputs first."""
        return (*[operand for operand in self.inputs if isinstance(operand, Access)], *self.outputs)


@dataclass(frozen=True, slots=True)
class Loop:
    """A counted loop: its body runs `count` times, each time with the accesses moved by their `advance`."""

    count: int
    body: tuple[Node, ...]


Node = Op | Loop


@dataclass(frozen=True, slots=True)
class Program:
    """A whole graph. `scalars` are the launch's numbers in order, `pool_bytes` the memory its temps share."""

    name: str
    buffers: tuple[Buffer, ...]
    body: tuple[Node, ...]
    scalars: tuple[Scalar, ...] = ()
    pool_bytes: int = 0

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops of a program without loops, for those who know none; `loops.listed` has all of any program."""
        found = tuple([node for node in self.body if isinstance(node, Op)])
        if len(found) != len(self.body):
            raise InvalidArgument(
                f"program {self.name!r} has loops where ops alone are asked for; run this pass before them"
            )
        return found

    def buffer(self, name: str) -> Buffer:
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise KeyError(f"program {self.name!r} has no buffer {name!r}")
