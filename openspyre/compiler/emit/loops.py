"""Loops of a program as loops of a bundle: what an op is in single iterations tells how its bases move.

A body that is not the same in all iterations but for its bases is unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from openspyre.artifact import emitted
from openspyre.artifact.emitted import Execution, Shared
from openspyre.artifact.superdsc import Indirection
from openspyre.compiler import ir
from openspyre.spec.formats import STICK_BYTES

Emit = Callable[[ir.Op, tuple[int, ...]], Execution]  # in loops of so many iterations
Iterations = tuple[int, ...]


class Irregular(Exception):
    """An op that is another one from iteration to iteration."""


def nodes(body: tuple[ir.Node, ...], emit: Emit) -> tuple[emitted.Node, ...]:
    """The body of the bundle."""
    return tuple(_nodes(body, (), emit))


# Of each loop around: how often it runs, or (unrolled) the iteration that it is in.
_Around = tuple[tuple[int, int | None], ...]


def _nodes(body: tuple[ir.Node, ...], around: _Around, emit: Emit) -> Iterator[emitted.Node]:
    for node in body:
        match node:
            case ir.Op():
                if all(dim.size or dim.reduced for dim in node.dims):  # otherwise there is nothing to compute
                    yield _execution(node, around, emit)
            case ir.Loop(count, inner):
                yield from _loop(count, inner, around, emit)


def _loop(count: int, body: tuple[ir.Node, ...], around: _Around, emit: Emit) -> tuple[emitted.Node, ...]:
    try:
        found = tuple(_nodes(body, (*around, (count, None)), emit))
        return (emitted.Loop(count, found),) if found else ()
    except Irregular:
        return tuple(node for index in range(count) for node in _nodes(body, (*around, (count, index)), emit))


def _execution(op: ir.Op, around: _Around, emit: Emit) -> Execution:
    """The op with what unrolled loops have moved it by, in the loops that are left."""
    if not around:
        return emit(op, ())

    def bound(access: ir.Access) -> ir.Access:
        steps = list(zip(access.advance, around, strict=False))
        moved = sum(step * at for step, (_, at) in steps if at is not None)
        advance = tuple(step for step, (_, at) in steps if at is None)
        return ir.Access(access.buffer, access.offset + moved, access.strides, access.dtype, advance)

    inputs = tuple(bound(operand) if isinstance(operand, ir.Access) else operand for operand in op.inputs)
    counts = tuple(count for count, at in around if at is None)
    here = ir.Op(op.name, op.row, op.dims, inputs, tuple(map(bound, op.outputs)), op.attributes, op.origin, op.hints)
    return emit(here, counts)


def moving_bases(found: Mapping[Iterations, Shared], counts: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    """Bytes that loops move bases by, of those that move. `found`: what is executed in the iterations that tell all others."""
    first = found[(0,) * len(counts)]
    if any(other.op != first.op or len(other.offsets) != len(first.offsets) for other in found.values()):
        raise Irregular
    seconds = [tuple(min(1, n - 1) if k == loop else 0 for k, n in enumerate(counts)) for loop in range(len(counts))]
    moves: dict[int, tuple[int, ...]] = {}
    for place, (base, byte) in enumerate(first.offsets):
        advance = tuple(found[second].offsets[place][1] - byte for second in seconds)
        if moves.setdefault(base, advance) != advance or any(step % STICK_BYTES for step in advance):
            raise Irregular
        for where, other in found.items():
            if other.offsets[place] != (base, byte + sum(i * step for i, step in zip(where, advance, strict=True))):
                raise Irregular
    moves = {base: advance for base, advance in moves.items() if any(advance)}
    # How many rows a table has is told by the bytes behind its base: there are others in every iteration.
    tables = [tensor for tensor in first.op.tensors if tensor.indirection is Indirection.VALUE]
    if any(first.offsets[-1 - start][0] in moves for tensor in tables for start in tensor.starts):
        raise Irregular
    return moves
