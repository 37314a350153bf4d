"""Functions of 16-bit operands as sequences of the hardware's float32 ops: exact to some 20 bits, rounded once.

float32 itself has no digits to spare for them: there these functions are extensions, computed to the last place.
"""

from __future__ import annotations

import math

from openspyre.spec.ops.expression import Value, call, select, to_float
from openspyre.spec.ops.pointwise_rows import both, either, maximum, minimum
from openspyre.spec.ops.row_expression import narrow, row, widen

_INFINITE = float("inf")
# Complementary error function, by Chebyshev fitting; its relative error is below 1.2e-7 everywhere.
_ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223,
)  # fmt: skip


def log(x: Value) -> Value:
    """The 16-bit logarithm, and what is left of x beside it: log(x) = y + log(x * exp(-y))."""
    near = widen(row("log", narrow(x)))
    rest = x * call("exp", -near) - 1.0
    return select(call("abs", near) < 1e3, near + rest * (1.0 - 0.5 * rest), near)


def log1p(x: Value) -> Value:
    series = x * (1.0 - x * (0.5 - x * (1 / 3)))
    return select(call("abs", x) < 0.01, series, log(1.0 + x))


def expm1(x: Value) -> Value:
    series = x * (1.0 + x * (0.5 + x * (1 / 6 + x * (1 / 24))))
    return select(call("abs", x) < 0.1, series, call("exp", x) - 1.0)


def elu(x: Value, alpha: Value, scale: Value, input_scale: Value) -> Value:
    return select(x <= 0.0, expm1(x * input_scale) * alpha * scale, x * scale)


def xlogy(a: Value, b: Value) -> Value:
    return select(both(a.equals(0.0), b.equals(b)), 0.0, a * log(b))


def logit(x: Value) -> Value:
    return log(x / (1.0 - x))


def logaddexp(a: Value, b: Value) -> Value:
    """Equal infinities are their own sum."""
    a, b = to_float(a), to_float(b)
    larger = maximum(a, b)
    same = both(a.equals(b), call("is_inf", a))
    return select(same, a, larger + log1p(call("exp", -call("abs", a - b))))


def erfc(x: Value) -> Value:
    size = call("abs", x)
    t = 1.0 / (1.0 + 0.5 * size)
    exponent = t * _ERFC[0] + _ERFC[1]
    for factor in _ERFC[2:]:
        exponent = t * exponent + factor
    above = t * call("exp", exponent - size * size)
    return select(x < 0.0, 2.0 - above, above)


def erf(x: Value) -> Value:
    square = x * x
    series = (2 / math.sqrt(math.pi)) * x * (1.0 - square * (1 / 3 - square * (0.1 - square * (1 / 42))))
    return select(call("abs", x) < 0.1, series, 1.0 - erfc(x))


def gelu_gradient(g: Value, x: Value) -> Value:
    below = 0.5 * erfc(x * -math.sqrt(0.5))
    density = call("exp", x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
    return g * (below + x * density)


def mish_gradient(g: Value, x: Value) -> Value:
    """tanh(softplus(x)) is n / (n + 2) for n = e^x (e^x + 2), which is 1 to the last digit where e^x would be too large."""
    e = call("exp", minimum(x, 20.0 + 0.0 * x))
    n = e * (e + 2.0)
    t = n / (n + 2.0)
    return g * (t + x * call("sigmoid", x) * (1.0 + t) * (2.0 / (n + 2.0)))


def power(a: Value, b: Value) -> Value:
    """C's pow: of a negative number, whole powers alone; to the power of 0, and of 1, everything is 1."""
    below = either(a < 0.0, 1.0 / a < 0.0)  # -0 has a sign as well
    size = call("abs", a)
    whole = b.equals(call("floor", b))
    halved = b * 0.5
    odd = both(whole, halved.differs(call("floor", halved)))
    positive = call("exp", b * log(size))
    ends = either(b.equals(0.0), both(size.equals(1.0), either(a > 0.0, call("is_inf", b))))
    signed = select(both(below, odd), -positive, positive)
    root = both(both(a < 0.0, size < _INFINITE), b.differs(call("floor", b)))
    return select(ends, 1.0, select(root, float("nan"), signed))
