"""Says where the lanes of every sum run, before layouts are chosen: along the sticks it is added in another order than across them.

Contract N6 has both orders, and eager and compiled must take the same. What decides is how eager's tensors would lie (D6), which a
whole program can tell as well; copies that are left out and layouts that are chosen later change no bit then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from openspyre.compiler.ir import Access, Buffer, Op, Program
from openspyre.compiler.passes.choose_layouts import default_layout
from openspyre.compiler.sticks import StickAccess, stick_access
from openspyre.spec.formats import require_supported
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Fold, Kind

_IN_ORDER = (Fold.SUM, Fold.PROD)


@dataclass(frozen=True, slots=True)
class OrderSums:
    """No options."""

    def run(self, program: Program) -> Program:
        if not any(map(_has_an_order, program.ops)):
            return program
        lying = {buffer.name: buffer for buffer in program.buffers}
        body = []
        for op in program.ops:
            for access in op.inputs:
                if isinstance(access, Access) and lying[access.buffer].layout is None:  # nobody wrote it
                    lying[access.buffer] = _lies_as(lying[access.buffer], (), lying)
            for output in op.outputs:
                if lying[output.buffer].layout is None:
                    reads = tuple(each for each in op.inputs if isinstance(each, Access))
                    lying[output.buffer] = _lies_as(lying[output.buffer], reads, lying)
            body.append(_ordered(op, lying) if _has_an_order(op) else op)
        return replace(program, body=tuple(body))


def _has_an_order(op: Op) -> bool:
    """Whether another order of its terms may give other bits; integers wrap, and are the same in any order."""
    row, source = TABLE[op.row], op.inputs[0] if op.inputs else None
    floats = isinstance(source, Access) and "float" in source.dtype
    return row.kind is Kind.REDUCTION and row.fold in _IN_ORDER and floats


def _lies_as(buffer: Buffer, reads: tuple[Access, ...], lying: Mapping[str, Buffer]) -> Buffer:
    """As eager's result would lie: like the first dense operand of its shape and stick size, else by the documented rule (D6)."""
    wanted = require_supported(buffer.dtype).device
    for access in reads:
        other = lying[access.buffer]
        layout = other.layout
        if layout is None or access.offset or (other.size, other.stride) != (buffer.size, buffer.stride):
            continue
        if layout.stride_map[-1] > 0 and layout.elems_per_stick() == wanted.elems_per_stick():
            if layout.device_dtype is not wanted:
                layout = SpyreTensorLayout(layout.device_size, layout.stride_map, wanted, layout.element_arrangement)
            return replace(buffer, layout=layout)
    return replace(buffer, layout=default_layout(buffer))


def _ordered(op: Op, lying: Mapping[str, Buffer]) -> Op:
    lanes = _lanes(op, lying)
    return replace(op, dims=tuple(replace(dim, lanes=d in lanes) for d, dim in enumerate(op.dims)))


def _lanes(op: Op, lying: Mapping[str, Buffer]) -> set[int]:
    """The dims that lanes may run along: one that is reduced, or any that is not."""
    source = op.accesses[0]
    found = stick_access(source, op.dims, lying[source.buffer])
    moving = [d for d, dim in enumerate(op.dims) if dim.size > 1 and source.strides[d]]
    # What has to be moved anyway is moved the shorter way: its neighbours stay neighbours.
    beside = next((d for d in moving if abs(source.strides[d]) == 1), None)
    lane = found.lane_dim if isinstance(found, StickAccess) else beside
    if lane is not None and op.dims[lane].reduced:
        return {lane}
    kept = {d for d in moving if not op.dims[d].reduced}
    return kept or set(moving[-1:])
