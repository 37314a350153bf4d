"""Rules for finishes: what is computed from a reduction's totals alone is computed before they are stored."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from openspyre.backend.fusion.codes import INPUT, Link, Piece, Source, link_between, sees_signs_of_nan, weave
from openspyre.backend.fusion.maps import moving
from openspyre.backend.fusion.memory import in_memory
from openspyre.backend.fusion.nests import Fit, Reference, fit, has_tail
from openspyre.program.model import MAX_OPERANDS, LoopNest, Map, OperandKind, Reduce, Relayout
from openspyre.spec.ops.expression import Lane


def finished_by(maker: Reduce, reader: Map, place: int) -> Reduce | None:
    """The reader's code in the maker's finish, where it maps all totals, each by itself."""
    reader = moving(reader, maker.outputs[0])
    found = fit(maker, Reference(True, 0), reader, Reference(False, place))
    if found is None or len(reader.outputs) != 1 or reader.lane.store_padding:
        return None
    frame, guest = found.frame, found.guest
    if not maps_totals(found):
        return None
    link = link_between(frame.outputs[0], guest.inputs[place])
    if link is None or link is Link.TRUTH:
        return None
    return _finished(replace(frame, outputs=(found.carried(guest.outputs[0]),)), link, guest, place)


def maps_totals(found: Fit[LoopNest, Map]) -> bool:
    """Whether the guest takes all totals of the frame's rows, each once."""
    frame, guest = found.frame, found.guest
    totals = prod(dim.extent for dim in frame.dims if not dim.reduced)
    if totals != prod(dim.extent for dim in guest.dims) or found.one_lane != frame.lane.reduced:
        return False
    return found.one_lane or not (has_tail(frame) or has_tail(guest)) or _end_alike(found)


def _end_alike(found: Fit[LoopNest, Map]) -> bool:
    lane, other = found.frame.lane, found.guest.lane
    if lane.extent != other.extent or (lane.block_dim < 0) != (other.block_dim < 0):
        return False
    return lane.block_dim < 0 or found.steps[lane.block_dim] == (other.block_dim, 1)


def finished_across(maker: Reduce, there: Relayout, reader: Map, back: Relayout) -> Reduce | None:
    """The reader's code in the maker's finish, where two relayouts mirror each other and it maps place by place."""
    if (there.source, there.target) != (back.target, back.source):
        return None
    if len(reader.outputs) != 1 or not there.target.size:
        return None
    dense = there.outputs[0].symbol
    place = next((k for k, o in enumerate(reader.inputs) if in_memory(o) and o.symbol == dense), None)
    if place is None:
        return None
    read, stored, lane = reader.inputs[place], reader.outputs[0], reader.lane
    shifts = (read.offset - there.outputs[0].offset, stored.offset - back.inputs[0].offset)
    others = prod(dim.extent for k, dim in enumerate(reader.dims) if k != lane.block_dim)
    whole = others * lane.extent == prod(there.target.size) == prod(there.target.buffer_size)
    if not whole or shifts != (0, 0) or (read.strides, read.tile_stride) != (stored.strides, stored.tile_stride):
        return None
    total = maker.outputs[0]
    link, again = link_between(total, total), link_between(read, read)
    if link is None or link is not again or link is Link.TRUTH or read.data_format != stored.data_format:
        return None
    shift = back.outputs[0].offset - there.inputs[0].offset
    output = replace(total, symbol=back.outputs[0].symbol, offset=total.offset + shift, dtype=stored.dtype)
    return _finished(replace(maker, outputs=(output,)), link, reader, place)


def _finished(maker: Reduce, link: Link, reader: Map, place: int) -> Reduce | None:
    """A reduction whose total goes through the reader's code before it is stored; the operands stay the maker's."""
    finish, code = maker.finish, reader.code
    others = [operand for k, operand in enumerate(reader.inputs) if k != place]
    if len(maker.outputs) != 1 or any(o.kind is not OperandKind.SCALAR for o in others):
        return None
    if link is Link.NONE and sees_signs_of_nan(code):
        return None
    still = (0,) * len(maker.dims)
    inputs = list(maker.inputs)
    lanes: list[Lane] = [*maker.code.inputs]
    for operand, lane in zip(reader.inputs, code.inputs, strict=True):
        if operand.kind is OperandKind.SCALAR and replace(operand, strides=still) not in inputs:
            inputs.append(replace(operand, strides=still))
            lanes.append(lane)
    scalars = [(o, lane) for o, lane in zip(inputs, lanes, strict=True) if o.kind is OperandKind.SCALAR]
    order = [operand for operand, _ in scalars]
    registers = (*finish.inputs[:2], *(lane for _, lane in scalars))
    known = [operand for operand in maker.inputs if operand.kind is OperandKind.SCALAR]
    first = Piece(finish, tuple(Source(INPUT, k) for k in (0, 1, *(2 + order.index(o) for o in known))))
    given = tuple(
        Source(0, 0, link) if k == place else Source(INPUT, 2 + order.index(replace(o, strides=still)))
        for k, o in enumerate(reader.inputs)
    )
    woven = weave(registers, (False,) * len(registers), (first, Piece(code, given)), (Source(1, 0),))
    body = maker.code
    piece = Piece(body, tuple(Source(INPUT, k) for k in range(len(body.inputs))))
    grown = weave(tuple(lanes), (False,) * len(lanes), (piece,), (Source(0, 0),))
    if woven is None or grown is None or len(inputs) > MAX_OPERANDS:
        return None
    return replace(maker, name=reader.name, inputs=tuple(inputs), code=grown, finish=woven)
