"""A gather reads the rows of its table where a copy had them from."""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion.maps import moves_bits
from openspyre.backend.fusion.nests import Reference, fit
from openspyre.program.model import MAX_DIMS, Dim, Gather, Map, OperandKind
from openspyre.program.reach import itemsize
from openspyre.spec.ops.expression import Code, Lane


def chosen_through(gather: Gather, place: int, maker: Map) -> Gather | None:
    """None if the table must be read where the maker stored it: only a copy that leaves rows in their sticks can be read through."""
    table, index = gather.inputs
    if place != 0 or index.kind is OperandKind.VECTOR or table.kind is not OperandKind.VECTOR or index == table:
        return None
    if not moves_bits(maker) or maker.lane.store_padding or len(gather.dims) == MAX_DIMS:
        return None
    still = [dim.extent == 1 or not stride for dim, stride in zip(gather.dims, table.strides, strict=True)]
    dims = (*(Dim(1 if s else dim.extent) for s, dim in zip(still, gather.dims, strict=True)), Dim(gather.index_bound))
    strides = (*(0 if s else stride for s, stride in zip(still, table.strides, strict=True)), gather.index_stride)
    read = replace(table, strides=strides)
    lane = replace(gather.lane, store_padding=False)
    code = Code((Lane.FLOAT,), (), (), (0,), (Lane.FLOAT,))
    walk = Map(gather.name, dims, lane, (read,), (replace(read, symbol=read.symbol + 1),), code)
    found = fit(walk, Reference(False, 0), maker, Reference(True, 0))
    if found is None or found.one_lane or (found.frame.dims, found.frame.lane) != (walk.dims, walk.lane):
        return None
    source = found.carried(found.guest.inputs[0])
    if source.kind is not OperandKind.VECTOR or itemsize(source.data_format) != itemsize(table.data_format):
        return None
    *moved, along = source.strides
    rows = replace(source, strides=tuple(moved), dtype=table.dtype, data_format=table.data_format)
    return replace(gather, inputs=(rows, index), index_stride=along)
