"""What a product reads in place of a copy: the same elements, and each of them once where heads share them."""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion.operands_of_products import fed_by
from openspyre.program.model import Contract, Dim, LaneBlock, Map, Operand, OperandKind
from openspyre.spec.ops.expression import Code, Lane

KEPT, COPY, QUERY, SCORES = range(4)


def at(symbol: int, *strides: int) -> Operand:
    return Operand(OperandKind.VECTOR, symbol, 0, strides)


def repeated(heads: int, groups: int, tokens: int) -> Map:
    """Every head of a cache of (heads, tokens, 64), `groups` times."""
    head = tokens * 64
    dims = (Dim(heads), Dim(groups), Dim(tokens), Dim(1))
    code = Code((Lane.FLOAT,), (), (), (0,), (Lane.FLOAT,))
    source, target = at(KEPT, head, 0, 64, heads * head), at(COPY, groups * head, head, 64, heads * groups * head)
    return Map("repeat", dims, LaneBlock(64, 64, 3), (source,), (target,), code)


def scores(heads: int, tokens: int) -> Contract:
    """One query of every head, times its keys; the keys' sticks run along k."""
    dims, head = (Dim(heads, heads), Dim(tokens // 64, 2), Dim(1, 1, True)), tokens * 64
    query, keys, result = at(QUERY, 64, 0, 0), at(COPY, head, 4096, 0), at(SCORES, tokens, 64, 0)
    return Contract("scores", dims, LaneBlock(64, tokens, 1), (query, keys), (result,), 64, 64, 64, True)


def test_heads_that_share_keys_read_them_where_they_are_kept() -> None:
    product = fed_by(scores(9, 256), 1, repeated(3, 3, 256))
    assert product is not None
    assert product.dims == (Dim(3, 3), Dim(3, 3), Dim(4, 2), Dim(1, 1, True)) and product.lane.block_dim == 2
    query, keys = product.inputs
    assert query.strides == (3 * 64, 64, 0, 0) and product.outputs[0].strides == (3 * 256, 256, 64, 0)
    assert (keys.symbol, keys.strides, product.b_row_stride) == (KEPT, (256 * 64, 0, 4096, 0), 64)


def test_heads_that_do_not_divide_into_groups_read_the_copy() -> None:
    assert fed_by(scores(8, 256), 1, repeated(3, 3, 256)) is None


def test_a_product_with_every_dim_it_may_have_reads_the_copy() -> None:
    product = scores(9, 256)
    more = (0,) * 6

    def wider(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(replace(operand, strides=(*more, *operand.strides)) for operand in operands)

    wide = replace(
        product,
        dims=(Dim(1),) * 6 + product.dims,
        lane=LaneBlock(64, 256, 7),
        inputs=wider(product.inputs),
        outputs=wider(product.outputs),
    )
    assert fed_by(wide, 1, repeated(3, 3, 256)) is None
