"""Cuts ops in parts where no division over the cores keeps every core within its span of a tensor.

Parts run one after the other, along dims that are not reduced: no bit changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from openspyre.compiler.ir import Access, Buffer, Dim, Iota, Op, Operand, Program
from openspyre.compiler.loops import expanded
from openspyre.compiler.passes.divide_work import DivideWork
from openspyre.compiler.planner.constraints import Undividable
from openspyre.compiler.spans import positions, span, widest
from openspyre.spec.machine import SPYRE
from openspyre.spec.ops import TABLE, Kind


@dataclass(frozen=True, slots=True)
class LimitSpans:
    """`cores` there are, `limit` in bytes per core and tensor."""

    cores: int = SPYRE.cores
    limit: int = SPYRE.max_span_bytes_per_core_and_tensor

    def run(self, program: Program) -> Program:
        buffers = {buffer.name: buffer for buffer in program.buffers}
        if all(buffer.layout is None or buffer.layout.device_bytes <= self.limit for buffer in program.buffers):
            return program
        return replace(program, body=expanded(program.body, lambda op: self._parts(op, buffers)))

    def _parts(self, op: Op, buffers: dict[str, Buffer]) -> Iterator[Op]:
        splits = self._splits(op, buffers)
        reach, steps = widest(op, buffers, splits)
        cut = reach > self.limit and not _meets_itself(op)
        dim = self._dim_to_cut(op, buffers, steps, splits) if cut else None
        if dim is None:
            yield op
            return
        if TABLE[op.row].kind is Kind.MOVEMENT and positions(op, buffers)[dim] < 2:
            op = replace(op, row="relayout")  # within a stick, only views can be cut
        first, second = _halves(op, dim, _places(op, buffers)[dim])
        yield from self._parts(first, buffers)
        yield from self._parts(second, buffers)

    def _splits(self, op: Op, buffers: dict[str, Buffer]) -> list[int]:
        try:
            return DivideWork(self.cores, self.limit).splits(op, buffers)
        except Undividable:  # parts of it may be
            return [1] * len(op.dims)

    def _dim_to_cut(self, op: Op, buffers: dict[str, Buffer], steps: list[int], splits: list[int]) -> int | None:
        """The dim that takes a core furthest; None if no cut can help: the card then says so."""
        counted = TABLE[op.row].kind is Kind.INDEXED
        free = [d for d, dim in enumerate(op.dims) if not dim.reduced and not (counted and d == len(op.dims) - 1)]
        counts = _places(op, buffers)
        able = [d for d in free if counts[d] > 1 and steps[d] // splits[d] > 0]
        if span([0 if d in able else step for d, step in enumerate(steps)], splits) > self.limit:
            return None
        return max(able, key=lambda d: steps[d] // splits[d], default=None)


def _places(op: Op, buffers: dict[str, Buffer]) -> list[int]:
    """Per dim, how many places there are to cut at. What goes by views can be cut inside a stick too, if it must."""
    counts = positions(op, buffers)
    if not TABLE[op.row].by_view:
        return counts
    return [count if count > 1 else dim.size for count, dim in zip(counts, op.dims, strict=True)]


def _meets_itself(op: Op) -> bool:
    """Whether a copy stays in one buffer: its second half could read what the first has written."""
    inside = {access.buffer for access in op.accesses}
    return TABLE[op.row].kind is Kind.MOVEMENT and len(inside) == 1


def _halves(op: Op, dim: int, count: int) -> tuple[Op, Op]:
    """Whole blocks of lanes on both sides."""
    size = op.dims[dim].size
    block = -(-size // count)
    lanes = next(n for n in (1, 32, 64, 128, size) if n >= block)
    cut = min(-(-count // 2) * lanes, size - 1)

    def part(name: str, start: int, extent: int) -> Op:
        dims = tuple(
            Dim(d.name, extent, d.reduced, lanes=d.lanes, named=d.named) if i == dim else d
            for i, d in enumerate(op.dims)
        )
        inputs = tuple(_moved(operand, dim, start) for operand in op.inputs)
        outputs = tuple(replace(o, offset=o.offset + start * o.strides[dim]) for o in op.outputs)
        return replace(op, name=name, dims=dims, inputs=inputs, outputs=outputs)

    return part(f"{op.name}.a", 0, cut), part(f"{op.name}.b", cut, size - cut)


def _moved(operand: Operand, dim: int, start: int) -> Operand:
    if isinstance(operand, Access | Iota):
        return replace(operand, offset=operand.offset + start * operand.strides[dim])
    return operand
