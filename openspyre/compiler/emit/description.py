"""One op as the record of an extension, and where its tensors begin. Dims of size 1 are left out: nothing moves along them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openspyre.artifact.extensions.description import (
    Constant,
    Description,
    Dim,
    HostView,
    Iota,
    Lanes,
    Operand,
    Tensor,
)
from openspyre.compiler import ir
from openspyre.compiler.legality import contraction_lanes
from openspyre.compiler.sticks import Misfit, StickAccess, stick_access
from openspyre.spec.errors import InternalError
from openspyre.spec.formats import DataFormats, require_supported
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Kind
from openspyre.spec.ops.movement import movement_row

_NAMED_DIMS = {Kind.CONTRACTION: 3, Kind.INDEXED: 1, Kind.SCAN: 2, Kind.SORT: 3}


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a tensor of an op begins: a byte of a buffer."""

    buffer: str
    byte: int


def describe(op: ir.Op, buffers: Mapping[str, ir.Buffer]) -> tuple[Description, tuple[Begin | ir.Scalar, ...]]:
    """The record, and of each of its tensors where it begins, or the number of the launch that it is."""
    kind = TABLE[op.row].kind
    kept = _kept_dims(op, kind)
    lanes = dict(enumerate(contraction_lanes(op, buffers))) if kind is Kind.CONTRACTION else {}
    inputs: list[Operand] = []
    tensors: list[Tensor] = []
    begins: list[Begin | ir.Scalar] = []
    for number, operand in enumerate((*op.inputs, *op.outputs)):
        match operand:
            case ir.Scalar(dtype=dtype):
                inputs.append(_number(dtype, len(kept)))
                begins.append(operand)
            case ir.Constant(bits=bits, dtype=dtype):
                inputs.append(Constant(bits, dtype))
            case ir.Iota(offset=offset, strides=strides):
                inputs.append(Iota(offset, tuple(strides[d] for d in kept)))
            case ir.Access():
                buffer = buffers[operand.buffer]
                tensor, begin = _tensor(op, kind, operand, buffer, kept, lanes.get(number))
                begins.append(begin)
                (inputs if number < len(op.inputs) else tensors).append(tensor)
    dims = tuple(Dim(op.dims[d].name, op.dims[d].size, op.dims[d].split, op.dims[d].reduced) for d in kept)
    row = _movement(inputs[0], tensors[0]) if TABLE[op.row].undecided else op.row
    return Description(row, dims, tuple(inputs), tuple(tensors), op.attributes), tuple(begins)


def _number(dtype: str, dims: int) -> Tensor:
    form = require_supported(dtype).device
    layout = SpyreTensorLayout([1, form.elems_per_stick()], [-1, -1], form)
    return Tensor(dtype, layout, Lanes.SPLAT, None, (0,) * dims)


def _movement(source: Operand, target: Tensor) -> str:
    if not isinstance(source, Tensor):
        raise InternalError("a movement has a tensor to move")
    along_sticks = Lanes.VIEW not in (source.lanes, target.lanes)
    same_format = (source.dtype, source.format) == (target.dtype, target.format)
    return movement_row((source.lane_dim, target.lane_dim), along_sticks=along_sticks, same_format=same_format).name


def _kept_dims(op: ir.Op, kind: Kind) -> list[int]:
    """All that move; a contraction keeps its m, n and k whatever their size, an indexed op the dim of the index."""
    named = range(len(op.dims) - _NAMED_DIMS.get(kind, 0), len(op.dims))
    return [index for index, dim in enumerate(op.dims) if dim.size != 1 or index in named]


def _tensor(
    op: ir.Op, kind: Kind, access: ir.Access, buffer: ir.Buffer, kept: list[int], lane: int | None
) -> tuple[Tensor, Begin]:
    if buffer.layout is None:
        raise InternalError(f"{op.name}: buffer {buffer.name!r} has no layout")
    found = stick_access(access, op.dims, buffer)
    movement = TABLE[op.row].by_view
    view = _view(access, buffer, kept) if movement else None
    if isinstance(found, Misfit):
        if not movement:
            raise InternalError(f"{op.name}: {buffer.name!r} needs a relayout first: {found.reason}")
        nowhere = (0,) * len(kept)
        tensor = Tensor(access.dtype, buffer.layout, Lanes.VIEW, None, nowhere, view, _bits_as(access, buffer))
        return tensor, Begin(buffer.name, 0)
    lane_dim = _lane_dim(op, found, lane)
    tensor = Tensor(
        dtype=access.dtype,
        layout=buffer.layout,
        lanes=Lanes.SPLAT if lane_dim is None else Lanes.VECTOR,
        lane_dim=None if lane_dim is None else kept.index(lane_dim),
        strides=tuple(found.strides[d] for d in kept),
        view=view,
        bits_as=_bits_as(access, buffer),
    )
    return tensor, Begin(buffer.name, found.offset * tensor.bytes_per_element)


def _lane_dim(op: ir.Op, found: StickAccess, wanted: int | None) -> int | None:
    """Along a dim of size 1 a single value counts as a vector of one, where the op asks for a vector."""
    if wanted is None or found.lane_dim == wanted:
        return found.lane_dim
    if found.lane_dim is None and op.dims[wanted].size == 1:
        return wanted
    raise InternalError(f"{op.name}: an operand runs along dim {found.lane_dim}, but must along dim {wanted}")


def _bits_as(access: ir.Access, buffer: ir.Buffer) -> DataFormats | None:
    return None if access.dtype == buffer.dtype else require_supported(access.dtype).device


def _view(access: ir.Access, buffer: ir.Buffer, kept: list[int]) -> HostView:
    strides = tuple(access.strides[d] for d in kept)
    return HostView(buffer.dtype, buffer.size, buffer.stride, access.offset, strides)
