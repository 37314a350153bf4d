"""How a product's sum is divided. Bits hang on it, so it follows from the op alone: eager and graphs divide the same product alike.

The documented division of k stands unless the clock, which sees the op's shape alone with all its tensors in memory, says otherwise:
another one is faster than all with this k by more than the clock may err; or a whole k is no slower, and what could then stay in the scratchpads, the first
operand and the result, would cost more through memory than the clock may err.
"""

from __future__ import annotations

from openspyre.clock.prediction import KernelClass
from openspyre.compiler.planner.space import Splits
from openspyre.compiler.timed.priced_op import PricedOp


def with_timed_sum(priced: PricedOp) -> Splits:
    """The division to start from: the documented one, or the fastest with another division of k."""
    given = priced.given
    if not priced.is_matmul:
        return given
    now = priced.price_of_shape(given)
    if now.kernel_class is KernelClass.SMALL:
        return given
    error = now.band.p90 * now.time_us
    found = sorted(priced.divisions(sums=True), key=lambda splits: (priced.price_of_shape(splits).time_us, splits))
    if not found:
        return given
    best = found[0]
    same = min(priced.price_of_shape(splits).time_us for splits in found if _sums(priced, splits) == priced.reduced)
    if same - priced.price_of_shape(best).time_us > error:
        return best
    if max(priced.reduced) > 1:
        whole = next((splits for splits in found if max(_sums(priced, splits)) == 1), None)
        if whole is not None:
            gain = now.time_us - priced.price_of_shape(whole).time_us
            if gain >= 0 and gain + _round_trip_us(priced) > error:
                return whole
    return given


def _sums(priced: PricedOp, splits: Splits) -> Splits:
    return tuple(split for split, dim in zip(splits, priced.op.dims, strict=True) if dim.reduced)


def _round_trip_us(priced: PricedOp) -> float:
    """The first operand and the result, written and read."""
    rates = priced.bounds.machine.rates.memory
    return 2 * priced.product_bytes() / (rates.gb_per_s * 1e3)
