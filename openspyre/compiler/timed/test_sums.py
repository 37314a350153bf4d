"""How sums of products are divided: by the op alone, and otherwise than documented only where the clock is sure."""

from __future__ import annotations

from math import prod

import pytest

from openspyre.clock.prediction import KernelClass
from openspyre.compiler.ir import Op
from openspyre.compiler.passes.divide_work import DivideWork
from openspyre.compiler.timed.priced_op import Bounds, PricedOp
from openspyre.compiler.timed.programs_of_tests import product
from openspyre.compiler.timed.sums import with_timed_sum
from openspyre.spec.machine import SPYRE


def priced(m: int, k: int, n: int) -> PricedOp:
    program = DivideWork().run(product(m, k, n))
    (op,) = program.body
    assert isinstance(op, Op)
    return PricedOp.of(op, {buffer.name: buffer for buffer in program.buffers}, Bounds(SPYRE))


@pytest.mark.parametrize(
    ("shape", "documented", "timed"),
    [
        ((1, 4096, 12800), (1, 25, 1), (1, 8, 4)),  # 200 sticks have no divisor near 32: seven cores would be idle
        ((128, 4096, 1024), (8, 2, 2), (4, 8, 1)),  # whole, it is no slower, and the result can stay
        ((1, 4096, 1024), (1, 16, 2), (1, 16, 2)),  # 16 sticks alone leave half of the cores idle
        ((512, 4096, 12800), (4, 8, 1), (4, 8, 1)),
    ],
)
def test_divisions(shape: tuple[int, int, int], documented: tuple[int, ...], timed: tuple[int, ...]) -> None:
    op = priced(*shape)
    assert op.given == documented
    assert with_timed_sum(op) == timed


@pytest.mark.parametrize("shape", [(64, 256, 256), (64, 256, 128), (8, 512, 256)])
def test_what_nobody_has_measured_stays_as_documented(shape: tuple[int, int, int]) -> None:
    op = priced(*shape)
    assert op.price(op.given).kernel_class is KernelClass.SMALL
    assert with_timed_sum(op) == op.given


@pytest.mark.parametrize("m", [1, 3, 16, 128, 777])
@pytest.mark.parametrize("k", [64, 1000, 4096])
@pytest.mark.parametrize("n", [64, 1000, 4096])
def test_another_division_of_a_sum_is_legal_and_no_slower(m: int, k: int, n: int) -> None:
    op = priced(m, k, n)
    splits = with_timed_sum(op)
    assert prod(splits) <= SPYRE.cores
    assert op.price(splits).time_us <= op.price(op.given).time_us
    for dim, split, sticks in zip(op.op.dims, splits, (m, -(-n // 64), -(-k // 64)), strict=True):
        assert sticks % split == 0
        assert not dim.reduced or dim.size % 64 == 0 or splits == op.given  # a padded sum is nobody's to divide again
