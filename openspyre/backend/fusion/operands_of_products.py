"""Rules for what a product reads: through a copy to where it was copied from, and through a map by its code.

A contraction of the card reads its second operand along n, as the hardware does, or along k, where a restickify stood before.
"""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion.codes import INPUT, Piece, Source, link_between, weave
from openspyre.backend.fusion.maps import code_of, is_cheap, moves_bits, repeats
from openspyre.backend.fusion.memory import itemsize
from openspyre.backend.fusion.nests import Fit, Reference, fit, has_tail, lane_of
from openspyre.program.model import MAX_LOOPS, Contraction, LaneBlock, Loop, Operand, OperandKind, Step, StepKind
from openspyre.spec.formats import STICK_BYTES
from openspyre.spec.ops.expression import Code, Lane


def fed_by(product: Step, place: int, maker: Step) -> Step | None:
    """The product with an input that reads what the maker read; None if it must read what the maker stored."""
    if product.kind is not StepKind.CONTRACT or maker.kind is not StepKind.MAP or len(maker.inputs) != 1:
        return None
    if lane_of(maker).store_padding or len(maker.outputs) != 1:
        return None
    walk = _walk(product, place)
    found = None if walk is None else fit(walk, Reference(False, 0), maker, Reference(True, 0))
    if walk is None or found is None or found.one_lane or len(found.frame.loops) != len(walk.loops):
        return None
    source = found.carried(found.guest.inputs[0])
    if moves_bits(maker):
        return _read_at(product, place, source)
    return _through_code(product, place, source, found) if is_cheap(maker) else None


def read_through(reader: Step, place: int, maker: Step) -> Step | None:
    """A map, reduction or rows step that reads where a copy had its elements from, perhaps across their sticks."""
    if not moves_bits(maker) or lane_of(maker).store_padding:
        return None
    found = fit(reader, Reference(False, place), maker, Reference(True, 0))
    if found is None or repeats(found):
        return None
    read, source = found.frame.inputs[place], found.carried(found.guest.inputs[0])
    if itemsize(read.data_format) != itemsize(source.data_format):
        return None
    if source.kind is OperandKind.STRIDED and has_tail(found.frame) and found.frame.kind is not StepKind.MAP:
        return None
    moved = replace(source, dtype=read.dtype, data_format=read.data_format)
    inputs = tuple(moved if operand == read else operand for operand in found.frame.inputs)
    return replace(found.frame, inputs=inputs)


def _along_k(contraction: Contraction, place: int) -> bool:
    return place == 0 or contraction.b_along_k


def _k_loop(product: Step) -> int | None:
    reduced = [number for number, loop in enumerate(product.loops) if loop.reduced]
    return reduced[0] if len(reduced) == 1 else None


def _walk(product: Step, place: int) -> Step | None:
    """A map that reads an operand's elements as the product does; the rows of the second one are a last loop."""
    contraction, lane, k_loop = product.contraction, lane_of(product), _k_loop(product)
    if contraction is None or k_loop is None or lane.block_loop < 0:
        return None
    along_k = _along_k(contraction, place)
    loops = tuple(Loop(loop.extent) for loop in product.loops)
    operand = product.inputs[place]
    k_lane = LaneBlock(contraction.k_lanes, contraction.k_extent, k_loop)
    own = k_lane if along_k else replace(lane, store_padding=False)
    other = lane if along_k else k_lane
    if place == 1:
        if len(loops) == MAX_LOOPS:
            return None
        rows = other.lanes
        if other.extent % other.lanes:
            # Blocks of rows that go on from each other are walked as one row of rows.
            if along_k or operand.strides[k_loop] != other.lanes * contraction.b_row_stride:
                return None
            rows = other.extent
            loops = tuple(Loop(1) if number == k_loop else loop for number, loop in enumerate(loops))
        loops = (*loops, Loop(rows))
        operand = replace(operand, strides=(*operand.strides, contraction.b_row_stride))
    strides = tuple(0 if loop.extent == 1 else s for loop, s in zip(loops, operand.strides, strict=True))
    operand = replace(operand, strides=strides)
    result = replace(operand, symbol=operand.symbol + 1)
    code = Code((Lane.FLOAT,), (), (), (0,), (Lane.FLOAT,))
    return Step(product.name, StepKind.MAP, loops, own, (operand,), (result,), code)


def _read_at(product: Step, place: int, source: Operand) -> Step | None:
    """The operand where the copy had it from; across its sticks, the product reads it along the other dim."""
    read, contraction = product.inputs[place], product.contraction
    if contraction is None or itemsize(read.data_format) != itemsize(source.data_format):
        return None
    moved = replace(source, kind=OperandKind.VECTOR, dtype=read.dtype, data_format=read.data_format)
    if source.kind is OperandKind.VECTOR:
        return _with_input(product, place, moved, contraction)
    if source.kind is not OperandKind.STRIDED or place != 1 or contraction.b_along_k:
        return None
    # Along k a block is one stick of its elements; rows are n, as far apart as the copy's lanes were.
    if contraction.k_lanes != STICK_BYTES // itemsize(read.data_format) or moved.strides[-1] != 1:
        return None
    turned = replace(moved, strides=(*moved.strides[:-1], source.tile_stride), tile_stride=0)
    return _with_input(product, place, turned, replace(contraction, b_along_k=True))


def _with_input(product: Step, place: int, operand: Operand, contraction: Contraction) -> Step:
    """`operand` over the loops of the walk: the last stride of the second one is its rows'."""
    if place == 1:
        *strides, row = operand.strides
        k_loop = _k_loop(product)
        if k_loop is not None and not contraction.b_along_k and contraction.k_extent % contraction.k_lanes:
            strides[k_loop] = contraction.k_lanes * row
        contraction = replace(contraction, b_row_stride=row)
        operand = replace(operand, strides=tuple(strides))
    inputs = tuple(operand if number == place else other for number, other in enumerate(product.inputs))
    return replace(product, inputs=inputs, contraction=contraction)


def _through_code(product: Step, place: int, source: Operand, found: Fit) -> Step | None:
    """The maker's code, with what storing its result did to it, on the way to the products."""
    contraction, read = product.contraction, product.inputs[place]
    if contraction is None or source.kind is not OperandKind.VECTOR or source.data_format != read.data_format:
        return None
    link = link_between(found.guest.outputs[0], found.frame.inputs[0])
    code = code_of(found.guest)
    if link is None or code.inputs != (Lane.FLOAT,) or code.result_lanes != (Lane.FLOAT,):
        return None
    own = contraction.b_code if place else contraction.a_code
    pieces = [Piece(code, (Source(INPUT, 0),))]
    if own is not None:
        pieces.append(Piece(own, (Source(0, 0, link),)))
    last = Source(len(pieces) - 1, 0, link) if own is None else Source(1, 0)
    woven = weave((Lane.FLOAT,), (source.data_format == "SEN169_FP16",), tuple(pieces), (last,))
    if woven is None:
        return None
    moved = _with_input(product, place, replace(source, dtype=read.dtype), contraction)
    assert moved.contraction is not None
    coded = replace(moved.contraction, b_code=woven) if place else replace(moved.contraction, a_code=woven)
    return replace(moved, contraction=coded)
