"""Programs of the IR as trees: ops, and counted loops around them. Walks, rewrites, and what a loop does to the accesses in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from openspyre.compiler.ir import Access, Loop, Node, Op, Program


def listed(body: Iterable[Node], counts: tuple[int, ...] = ()) -> Iterator[tuple[Op, tuple[int, ...]]]:
    """Every op once, as the text has them, with the counts of the loops around it, outermost first."""
    for node in body:
        match node:
            case Op():
                yield node, counts
            case Loop(count, inner):
                yield from listed(inner, (*counts, count))


def expanded(body: Iterable[Node], change: Callable[[Op], Iterable[Op]]) -> tuple[Node, ...]:
    """The same tree with others in the place of each op."""
    found: list[Node] = []
    for node in body:
        match node:
            case Op():
                found += change(node)
            case Loop(count, inner):
                found.append(Loop(count, expanded(inner, change)))
    return tuple(found)


def unrolled(program: Program) -> Program:
    """The same program without loops: every iteration has ops of its own, named by it."""
    return replace(program, body=tuple(_unrolled(program.body, ())))


def _unrolled(body: Iterable[Node], iterations: tuple[int, ...]) -> Iterator[Op]:
    for node in body:
        match node:
            case Op():
                name = ".".join([node.name, *map(str, iterations)])
                yield replace(in_iteration(node, iterations), name=name)
            case Loop(count, inner):
                for index in range(count):
                    yield from _unrolled(inner, (*iterations, index))


def in_iteration(op: Op, iterations: Sequence[int]) -> Op:
    """An op as it is in one iteration of the loops around it."""
    inputs = tuple(moved(operand, iterations) if isinstance(operand, Access) else operand for operand in op.inputs)
    return replace(op, inputs=inputs, outputs=tuple(moved(access, iterations) for access in op.outputs))


def moved(access: Access, iterations: Sequence[int]) -> Access:
    if not access.advance:
        return access
    by = sum(step * index for step, index in zip(access.advance, iterations, strict=False))
    return replace(access, offset=access.offset + by, advance=())


def ends(counts: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Iterations that tell all others of what moves evenly: the first, the second of each loop, its last, and the last of all."""
    first, last = (0,) * len(counts), tuple(count - 1 for count in counts)
    along = [
        (*first[:k], index, *first[k + 1 :])
        for k, count in enumerate(counts)
        for index in (min(1, count - 1), count - 1)
    ]
    return list(dict.fromkeys([first, *along, last]))


def lifetimes(program: Program) -> dict[str, tuple[int, int]]:
    """First and last op that touches each buffer, ops counted as the text has them. In a loop it lives as long as the loop runs."""
    found: dict[str, tuple[int, int]] = {}
    when = 0
    for node in program.body:
        ops = [op for op, _ in listed((node,))]
        for number, op in enumerate(ops, when):
            first, last = (number, number) if isinstance(node, Op) else (when, when + len(ops) - 1)
            for access in op.accesses:
                found[access.buffer] = (min(found.get(access.buffer, (first, last))[0], first), last)
        when += len(ops)
    return found
