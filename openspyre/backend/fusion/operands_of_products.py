"""Rules for what a product reads: through a copy to where it was copied from, and through a map by its code.

A contraction of the card reads its second operand along n, as the hardware does, or along k, where a restickify stood before.
"""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion.codes import INPUT, Piece, Source, link_between, weave
from openspyre.backend.fusion.maps import is_cheap, moves_bits, repeats
from openspyre.backend.fusion.nests import Fit, Reference, fit, has_tail, refined
from openspyre.program.model import (
    MAX_DIMS,
    Contract,
    Dim,
    LaneBlock,
    Map,
    Operand,
    OperandKind,
    Reduce,
    Relayout,
    Rows,
)
from openspyre.program.reach import itemsize
from openspyre.program.relayout_nest import nest_of
from openspyre.spec.formats import STICK_BYTES
from openspyre.spec.ops.expression import Code, Lane


def fed_by(product: Contract, place: int, maker: Map) -> Contract | None:
    """The product with an input that reads what the maker read; None if it must read what the maker stored."""
    if len(maker.inputs) != 1 or len(maker.outputs) != 1 or maker.lane.store_padding:
        return None
    aligned = _aligned(product, place, maker)
    if aligned is None or aligned[1].one_lane:
        return None
    product, found = aligned
    source = found.carried(found.guest.inputs[0])
    if moves_bits(maker):
        return _read_at(product, place, source)
    return _through_code(product, place, source, found) if is_cheap(_unrounded(maker)) else None


def _unrounded(maker: Map) -> Map:
    """Without what a store in between did: products round as cheaply as it."""
    code = maker.code
    kept = tuple(step for step in code.instructions if step.opcode != "round_sen169")
    return replace(maker, code=replace(code, instructions=kept))


def fed_by_relayout(product: Contract, place: int, maker: Relayout) -> Contract | None:
    """The product with an input that reads what a relayout moved where it was, perhaps from the middle of sticks on."""
    nest = nest_of(maker)
    return None if nest is None else fed_by(product, place, nest)


def _aligned(product: Contract, place: int, maker: Map) -> tuple[Contract, Fit[Map, Map]] | None:
    """The product with its dims cut where an operand runs over several of the maker's, as heads that share keys do."""
    while (walk := _walk(product, place)) is not None:
        found = fit(walk, Reference(False, 0), maker, Reference(True, 0))
        if found is None or len(found.frame.dims) == len(walk.dims):
            return None if found is None else (product, found)
        pairs = enumerate(zip(walk.dims, found.frame.dims, strict=False))
        cut = next(number for number, (dim, fitted) in pairs if dim.extent != fitted.extent)
        finer = refined(product, cut, found.frame.dims[cut + 1].extent) if cut < len(product.dims) else None
        if finer is None:
            return None
        product = finer
    return None


def read_through(reader: Map | Reduce | Rows, place: int, maker: Map) -> Map | Reduce | Rows | None:
    """A map, reduction or rows step that reads where a copy had its elements from, perhaps across their sticks."""
    if not moves_bits(maker) or maker.lane.store_padding:
        return None
    found = fit(reader, Reference(False, place), maker, Reference(True, 0))
    if found is None or repeats(found):
        return None
    read, source = found.frame.inputs[place], found.carried(found.guest.inputs[0])
    if itemsize(read.data_format) != itemsize(source.data_format):
        return None
    if source.kind is OperandKind.STRIDED and has_tail(found.frame) and not isinstance(found.frame, Map):
        return None
    moved = replace(source, dtype=read.dtype, data_format=read.data_format)
    inputs = tuple(moved if operand == read else operand for operand in found.frame.inputs)
    return replace(found.frame, inputs=inputs)


def _k_dim(product: Contract) -> int | None:
    reduced = [number for number, dim in enumerate(product.dims) if dim.reduced]
    return reduced[0] if len(reduced) == 1 else None


def _walk(product: Contract, place: int) -> Map | None:
    """A map that reads an operand's elements as the product does; the rows of the second one are a last dim."""
    lane, k_dim = product.lane, _k_dim(product)
    if k_dim is None or lane.block_dim < 0:
        return None
    along_k = place == 0 or product.b_along_k
    dims = tuple(Dim(dim.extent) for dim in product.dims)
    operand = product.inputs[place]
    k_lane = LaneBlock(product.k_lanes, product.k_extent, k_dim)
    own = k_lane if along_k else replace(lane, store_padding=False)
    other = lane if along_k else k_lane
    if place == 1:
        if len(dims) == MAX_DIMS:
            return None
        rows = other.lanes
        if other.extent % other.lanes:
            # Blocks of rows that go on from each other are walked as one row of rows.
            if along_k or operand.strides[k_dim] != other.lanes * product.b_row_stride:
                return None
            rows = other.extent
            dims = tuple(Dim(1) if number == k_dim else dim for number, dim in enumerate(dims))
        dims = (*dims, Dim(rows))
        operand = replace(operand, strides=(*operand.strides, product.b_row_stride))
    strides = tuple(0 if dim.extent == 1 else s for dim, s in zip(dims, operand.strides, strict=True))
    operand = replace(operand, strides=strides)
    result = replace(operand, symbol=operand.symbol + 1)
    code = Code((Lane.FLOAT,), (), (), (0,), (Lane.FLOAT,))
    return Map(product.name, dims, own, (operand,), (result,), code)


def _read_at(product: Contract, place: int, source: Operand) -> Contract | None:
    """The operand where the copy had it from; across its sticks, the product reads it along the other dim."""
    read = product.inputs[place]
    if itemsize(read.data_format) != itemsize(source.data_format):
        return None
    moved = replace(source, kind=OperandKind.VECTOR, dtype=read.dtype, data_format=read.data_format)
    if source.kind is OperandKind.VECTOR:
        return _with_input(product, place, moved)
    if source.kind is not OperandKind.STRIDED or place != 1 or product.b_along_k:
        return None
    # Along k a block is one stick of its elements; rows are n, as far apart as the copy's lanes were.
    if product.k_lanes != STICK_BYTES // itemsize(read.data_format) or moved.strides[-1] != 1:
        return None
    turned = replace(moved, strides=(*moved.strides[:-1], source.tile_stride), tile_stride=0)
    return _with_input(replace(product, b_along_k=True), place, turned)


def _with_input(product: Contract, place: int, operand: Operand) -> Contract:
    """`operand` over the dims of the walk: the last stride of the second one is its rows'."""
    if place == 0:
        return replace(product, inputs=(operand, *product.inputs[1:]))
    *strides, row = operand.strides
    k_dim = _k_dim(product)
    if k_dim is not None and not product.b_along_k and product.k_extent % product.k_lanes:
        strides[k_dim] = product.k_lanes * row
    second = replace(operand, strides=tuple(strides))
    return replace(product, inputs=(product.inputs[0], second), b_row_stride=row)


def _through_code(product: Contract, place: int, source: Operand, found: Fit[Map, Map]) -> Contract | None:
    """The maker's code, with what storing its result did to it, on the way to the products."""
    read = product.inputs[place]
    if source.kind is not OperandKind.VECTOR or source.data_format != read.data_format:
        return None
    link = link_between(found.guest.outputs[0], found.frame.inputs[0])
    code = found.guest.code
    if link is None or code.inputs != (Lane.FLOAT,) or code.result_lanes != (Lane.FLOAT,):
        return None
    own = product.b_code if place else product.a_code
    pieces = [Piece(code, (Source(INPUT, 0),))]
    if own is not None:
        pieces.append(Piece(own, (Source(0, 0, link),)))
    last = Source(len(pieces) - 1, 0, link) if own is None else Source(1, 0)
    woven = weave((Lane.FLOAT,), (source.data_format == "SEN169_FP16",), tuple(pieces), (last,))
    if woven is None:
        return None
    moved = _with_input(product, place, replace(source, dtype=read.dtype))
    return replace(moved, b_code=woven) if place else replace(moved, a_code=woven)
