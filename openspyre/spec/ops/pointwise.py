"""Pointwise rows: the vector unit's arithmetic, comparisons and selections; the activations are next door."""

from __future__ import annotations

import math

from openspyre.spec.ops import widened
from openspyre.spec.ops.activations import ACTIVATIONS
from openspyre.spec.ops.expression import Lane, Value, call, constant, select, to_bool, to_float, to_int
from openspyre.spec.ops.gradients import GRADIENTS
from openspyre.spec.ops.pointwise_rows import (
    NONZERO,
    POSITIVE,
    TRUTH_AND,
    TRUTH_NOT,
    TRUTH_OR,
    TRUTH_XOR,
    UNIT,
    both,
    clamp,
    either,
    function,
    maximum,
    minimum,
    plus_product,
    pointwise,
)
from openspyre.spec.ops.row import Precision, Promotion, Row, Samples


def _sign(x: Value) -> Value:
    return select(x > 0, 1, select(x < 0, -1, 0))


def _remainder(a: Value, b: Value) -> Value:
    """Python's: the result has the divisor's sign."""
    if a.lane is not Lane.FLOAT and b.lane is not Lane.FLOAT:
        return call("mod_i", to_int(a), to_int(b))
    a, b = to_float(a), to_float(b)
    rest = call("fmod", a, b)
    crossing = both(rest.differs(0), (rest < 0).differs(b < 0))
    return select(crossing, rest + b, rest)


def _floor_divide(a: Value, b: Value) -> Value:
    if a.lane is not Lane.FLOAT and b.lane is not Lane.FLOAT:
        return call("div_i", to_int(a), to_int(b))
    a, b = to_float(a), to_float(b)
    rest = call("fmod", a, b)
    quotient = (a - rest) / b
    crossing = both(rest.differs(0), (rest < 0).differs(b < 0))
    whole = select(crossing, quotient - 1, quotient)
    floored = call("floor", whole)
    near = select(whole - floored > 0.5, floored + 1, floored)
    return select(b.equals(0), a / b, near)


def _trunc_divide(a: Value, b: Value) -> Value:
    if a.lane is not Lane.FLOAT and b.lane is not Lane.FLOAT:
        return call("tdiv_i", to_int(a), to_int(b))
    return call("trunc", to_float(a) / to_float(b))


def _pow(a: Value, b: Value) -> Value:
    if a.lane is not Lane.FLOAT and b.lane is not Lane.FLOAT:
        return _integer_pow(to_int(a), to_int(b))
    return call("pow", to_float(a), to_float(b))


def _integer_pow(base: Value, exponent: Value) -> Value:
    """Modulo 2^32, by squaring; a negative power of anything but 1 and -1 is 0."""
    one = constant(base, 1, Lane.INT)
    power, square, left = one, base, exponent
    for _ in range(31):
        power = select(call("and", left, one), power * square, power)
        square, left = square * square, call("shr", left, one)
    root = select(base.equals(one), one, select(base.equals(-1), one - 2 * call("and", exponent, one), 0))
    return select(exponent < 0, root, power)


def _shift(opcode: str, beyond: str) -> object:
    """A shift by 32 or more, or by less than 0, leaves what a shift by infinity would."""

    def shifted(a: Value, b: Value) -> Value:
        a, b = to_int(a), to_int(b)
        outside = either(b < 0, b > 31)
        filled = constant(a, 0, Lane.INT) if beyond == "zero" else select(a < 0, -1, 0)
        return select(outside, filled, call(opcode, a, select(outside, 0, b)))

    return shifted


def _lerp(a: Value, b: Value, weight: Value) -> Value:
    """From the nearer end, as torch does, so that weight 1 gives b itself."""
    near = call("abs", weight) < 0.5
    return select(near, a + weight * (b - a), b - (b - a) * (1 - weight))


def _copysign(a: Value, b: Value) -> Value:
    size = call("abs", to_float(a))
    return select(call("sign_bit", to_float(b)), -size, size)


def _unless_nan(combine: str, combine_i: str) -> object:
    """The other operand where one is NaN."""

    def combined(a: Value, b: Value) -> Value:
        chosen = a._both(b, combine, combine_i)
        if chosen.lane is not Lane.FLOAT:
            return chosen
        a, b = to_float(a), to_float(b)
        return select(call("is_nan", a), b, select(call("is_nan", b), a, chosen))

    return combined


def _xlogy(a: Value, b: Value) -> Value:
    a, b = to_float(a), to_float(b)
    zero = both(a.equals(0), to_bool(1 - to_int(call("is_nan", b))))
    return select(zero, 0.0, a * call("log", b))


def _logaddexp(a: Value, b: Value) -> Value:
    """Equal infinities are their own sum."""
    a, b = to_float(a), to_float(b)
    larger = maximum(a, b)
    same = both(a.equals(b), call("is_inf", a))
    return select(same, a, larger + call("log1p", call("exp", -call("abs", a - b))))


def _logaddexp2(a: Value, b: Value) -> Value:
    a, b = to_float(a), to_float(b)
    larger = maximum(a, b)
    same = both(a.equals(b), call("is_inf", a))
    return select(same, a, larger + call("log1p", call("exp2", -call("abs", a - b))) * (1 / math.log(2)))


def _hypot(a: Value, b: Value) -> Value:
    """By the larger: only the ratio is squared. An infinity wins, over a NaN too."""
    a, b = to_float(a), to_float(b)
    long, short = maximum(call("abs", a), call("abs", b)), minimum(call("abs", a), call("abs", b))
    ratio = short / select(long.equals(0.0), 1.0, long)
    infinite = either(call("is_inf", a), call("is_inf", b))
    return select(infinite, float("inf"), long * call("sqrt", 1 + ratio * ratio))


def _asinh(x: Value) -> Value:
    """By log1p near 0; where the square would overflow, log(2x)."""
    size = call("abs", to_float(x))
    square = size * size
    inside = call("log1p", size + square / (1 + call("sqrt", 1 + square)))
    return _copysign(select(size > 1e9, call("log", size) + 0.6931471805599453, inside), x)


def _acosh(x: Value) -> Value:
    x = to_float(x)
    above = x - 1
    inside = call("log1p", above + call("sqrt", above) * call("sqrt", above + 2))
    return select(x > 1e9, call("log", x) + 0.6931471805599453, inside)


def _atanh(x: Value) -> Value:
    size = call("abs", to_float(x))
    return _copysign(0.5 * call("log1p", 2 * size / (1 - size)), x)


def _logical_not(x: Value) -> Value:
    return to_bool(1 - to_int(x)) if x.lane is Lane.BOOL else x.equals(0)


def _logical(combine: str) -> object:
    return lambda a, b: to_bool(call(combine, to_int(to_bool(a)), to_int(to_bool(b))))


def _bitwise(opcode: str) -> object:
    return lambda a, b: call(opcode, to_int(a), to_int(b))


def _integer_only(whole: object, real: str) -> object:
    """floor, ceil, ...: whole numbers stay as they are."""
    return lambda x: call(real, x) if x.lane is Lane.FLOAT else x


# Powers that are other functions; those of -infinity are C's.
_POWERS = (
    ("cube", 3, lambda x: x * x * x, Samples()),
    ("fourth_power", 4, lambda x: (x * x) * (x * x), Samples()),
    ("reciprocal_as_power", -1, lambda x: call("reciprocal", to_float(x)), NONZERO),
)
_BOUND = {"checked": ("Scalar min", "Scalar max"), "orders": True}

ARITHMETIC = (
    pointwise("add", "a + b", lambda a, b: a + b, operands=2, documented=True, fixed=(("alpha", 1),), on_truths=TRUTH_OR),
    pointwise("sub", "a - b", lambda a, b: a - b, operands=2, documented=True, fixed=(("alpha", 1),)),
    pointwise("add_scaled", "a + alpha * b", lambda a, b, alpha: plus_product(a, alpha, b), operands=2, scalars=("alpha",), aten=("add",), composite=Precision.OWN),
    pointwise("sub_scaled", "a - alpha * b", lambda a, b, alpha: plus_product(a, -alpha, b), operands=2, scalars=("alpha",), aten=("sub",), composite=Precision.OWN),
    pointwise("rsub", "b - a", lambda a, b: b - a, operands=2, artifact="sub", documented=True, order=(1, 0),
              fixed=(("alpha", 1),)),
    pointwise("rsub_scaled", "b - alpha * a", lambda a, b, alpha: plus_product(b, -alpha, a), operands=2, scalars=("alpha",), aten=("rsub",), composite=Precision.OWN),
    pointwise("addcmul", "a + value * b * c", lambda a, b, c, value: plus_product(a, value * b, c), operands=3, scalars=("value",), composite=Precision.FP32),
    pointwise("addcdiv", "a + value * b / c", lambda a, b, c, value: a + value * b / c, operands=3, scalars=("value",),
              integers=False, samples=NONZERO, composite=Precision.FP32),
    pointwise("lerp", "from a to b by a weight", _lerp, operands=3, integers=False, composite=Precision.FP32),
    pointwise("mul", "a * b", lambda a, b: a * b, operands=2, documented=True),
    pointwise("div", "a / b", lambda a, b: to_float(a) / to_float(b), operands=2, artifact="realdiv", documented=True,
         promotion=Promotion.INT_TO_FLOAT, samples=NONZERO, fixed=(("rounding_mode", None),)),
    pointwise("fma", "a * b + c, rounded once", lambda a, b, c: call("fma", to_float(a), to_float(b), to_float(c)), operands=3, aten=()),
    pointwise("cast", "x in another format", lambda x: x, artifact="identity", as_given=True, aten=()),
    pointwise("neg", "-x", lambda x: -x, documented=True),
    pointwise("abs", "|x|", lambda x: call("abs", x) if x.lane is Lane.FLOAT else call("abs_i", to_int(x)), documented=True),
    pointwise("sign", "-1, 0 or 1", _sign, aten=("sign", "sgn"), composite=Precision.OWN),
    pointwise("minimum", "the smaller, NaN if either is", minimum, operands=2, documented=True, orders=True),
    pointwise("maximum", "the larger, NaN if either is", maximum, operands=2, documented=True, orders=True),
    pointwise("clamp_min", "at least a bound", maximum, operands=2, artifact="maximum", documented=True, aten=("clamp_min", "clamp"), fixed=(("max", None),), **_BOUND),
    pointwise("clamp_max", "at most a bound", minimum, operands=2, artifact="minimum", documented=True, aten=("clamp_max", "clamp"), fixed=(("min", None),), **_BOUND),
    pointwise("clamp", "between two bounds", clamp, operands=3, artifact="clip", documented=True, constants=("clipMin", "clipMax"), **_BOUND, composite=Precision.OWN),
    pointwise("fmin", "the smaller, a number if either is", _unless_nan("min", "min_i"), operands=2, orders=True, composite=Precision.OWN),
    pointwise("fmax", "the larger, a number if either is", _unless_nan("max", "max_i"), operands=2, orders=True, composite=Precision.OWN),
    pointwise("copysign", "|a| with b's sign", _copysign, operands=2, promotion=Promotion.INT_TO_FLOAT),
    pointwise("heaviside", "0 below 0, 1 above, b at 0", lambda a, b: select(a.equals(0), b, select(a > 0, 1, 0)), operands=2, composite=Precision.OWN),
    pointwise("remainder", "the rest of a division, with the divisor's sign", _remainder, operands=2, divides=True, samples=NONZERO),
    pointwise("fmod", "the rest of a division, with the dividend's sign",
         lambda a, b: a._both(b, "fmod", "tmod_i"), operands=2, divides=True, samples=NONZERO),
    pointwise("floor_divide", "the whole quotient, rounded down", _floor_divide, operands=2, divides=True, samples=NONZERO),
    pointwise("div_floor", "a / b, rounded down", _floor_divide, operands=2, divides=True, samples=NONZERO, aten=("div",),
         fixed=(("rounding_mode", "floor"),)),
    pointwise("div_trunc", "a / b, rounded towards zero", _trunc_divide, operands=2, divides=True, samples=NONZERO, aten=("div",), fixed=(("rounding_mode", "trunc"),)),
    pointwise("square", "x * x", lambda x: x * x, artifact="mul", documented=True, order=(0, 0),
              aten=("pow.Tensor_Scalar", "pow_.Scalar"), fixed=(("exponent", 2),)),
    *(pointwise(name, f"x to the power of {exponent}", body, aten=("pow.Tensor_Scalar", "pow_.Scalar"),
                composite=Precision.OWN, fixed=(("exponent", exponent),), ulps=2, samples=samples)
      for name, exponent, body, samples in _POWERS),
    pointwise("pow", "a to the power of b", _pow, operands=2,
         aten=("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow_.Scalar", "pow.Scalar"),
         sign_matters=("exponent",), checked=("Scalar exponent",), samples=POSITIVE, ulps=2, widened=widened.power),
)  # fmt: skip

ROUNDING = tuple(
    pointwise(name, summary, _integer_only(None, name), documented=name == "floor",
              composite=Precision.OWN if name != "floor" else None)
    for name, summary in (("floor", "rounded down"), ("ceil", "rounded up"), ("round", "to the nearest, halves to even"),
                          ("trunc", "rounded towards zero"))
)  # fmt: skip

FUNCTIONS = (
    pointwise("frac", "what follows the point", lambda x: x - call("trunc", x), integers=False, composite=Precision.OWN),
    pointwise("asinh", "inverse of sinh", _asinh, promotion=Promotion.INT_TO_FLOAT, ulps=2),
    pointwise("acosh", "inverse of cosh", _acosh, promotion=Promotion.INT_TO_FLOAT, samples=Samples(low=1.0, high=9.0), ulps=2),
    pointwise("atanh", "inverse of tanh", _atanh, promotion=Promotion.INT_TO_FLOAT, samples=Samples(low=-0.99, high=0.99), ulps=2),
    pointwise("logit", "log(x / (1 - x))", lambda x: call("log", to_float(x) / (1 - to_float(x))), promotion=Promotion.INT_TO_FLOAT,
              samples=Samples(low=0.01, high=0.99), fixed=(("eps", None),), ulps=2, widened=widened.logit),
    pointwise("xlogy", "a * log(b), 0 where a is 0", _xlogy, operands=2, promotion=Promotion.INT_TO_FLOAT, samples=POSITIVE,
              widened=widened.xlogy, ulps=2),
    pointwise("logaddexp", "log(exp(a) + exp(b))", _logaddexp, operands=2, integers=False, ulps=2, widened=widened.logaddexp),
    pointwise("logaddexp2", "log2(2^a + 2^b)", _logaddexp2, operands=2, integers=False, ulps=2),
    pointwise("hypot", "sqrt(a^2 + b^2), without squares that are too large", _hypot, operands=2, integers=False, ulps=2, composite=Precision.FP32),
    function("sqrt", "square root", POSITIVE, documented=True),
    function("rsqrt", "1 / square root", POSITIVE, documented=True),
    function("reciprocal", "1 / x", NONZERO, documented=True),
    function("exp", "e to the x", documented=True),
    function("exp2", "2 to the x", widened=lambda x: call("exp", x * math.log(2)), ulps=2),
    function("expm1", "e to the x, less 1, exact near 0", widened=widened.expm1, ulps=2),
    function("log", "natural logarithm", POSITIVE, documented=True),
    function("log2", "logarithm to base 2", POSITIVE, widened=lambda x: widened.log(x) * (1 / math.log(2)), ulps=2),
    function("log10", "logarithm to base 10", POSITIVE, widened=lambda x: widened.log(x) * (1 / math.log(10)), ulps=2),
    function("log1p", "log(1 + x), exact near 0", Samples(low=-0.9, high=8.0), widened=widened.log1p, ulps=2),
    *(function(name, f"{name} of x") for name in ("sin", "cos", "tan", "sinh", "cosh", "atan")),
    function("erf", "erf of x", widened=widened.erf, ulps=2),
    function("erfc", "erfc of x", widened=widened.erfc, ulps=2),
    *(function(name, f"{name} of x", UNIT) for name in ("asin", "acos")),
    function("tanh", "hyperbolic tangent", documented=True),
    function("sigmoid", "1 / (1 + exp(-x))", documented=True),
    pointwise("atan2", "angle of (b, a)", lambda a, b: call("atan2", to_float(a), to_float(b)), operands=2,
         promotion=Promotion.INT_TO_FLOAT),
)  # fmt: skip

COMPARISONS = tuple(
    pointwise(
        name,
        f"a {sign} b",
        body,
        operands=2,
        artifact=artifact,
        documented=True,
        promotion=Promotion.COMPARE,
        orders=True,
    )
    for name, sign, artifact, body in (
        ("eq", "==", "equal", lambda a, b: a.equals(b)),
        ("ne", "!=", "notequal", lambda a, b: a.differs(b)),
        ("lt", "<", "lesserthan", lambda a, b: a < b),
        ("le", "<=", "lesserequal", lambda a, b: a <= b),
        ("gt", ">", "greaterthan", lambda a, b: a > b),
        ("ge", ">=", "greaterequal", lambda a, b: a >= b),
    )
)

LOGIC = (
    pointwise("logical_not", "not x", _logical_not, promotion=Promotion.BOOL, composite=Precision.OWN),
    pointwise("logical_and", "a and b", _logical("and"), operands=2, promotion=Promotion.BOOL, composite=Precision.OWN),
    pointwise("logical_or", "a or b", _logical("or"), operands=2, promotion=Promotion.BOOL, composite=Precision.OWN),
    pointwise("logical_xor", "either, not both", _logical("xor"), operands=2, promotion=Promotion.BOOL, composite=Precision.OWN),
    pointwise("isnan", "is not a number", lambda x: call("is_nan", to_float(x)), promotion=Promotion.BOOL, composite=Precision.OWN),
    pointwise("isinf", "is infinite", lambda x: call("is_inf", to_float(x)), promotion=Promotion.BOOL, composite=Precision.OWN),
    pointwise("bitwise_not", "every bit flipped", lambda x: to_bool(1 - to_int(x)) if x.lane is Lane.BOOL else call("not", x), floats=False,
              on_truths=TRUTH_NOT),
    pointwise("bitwise_and", "bits: a and b", _bitwise("and"), operands=2, floats=False, aten=("bitwise_and.Tensor",), on_truths=TRUTH_AND),
    pointwise("bitwise_or", "bits: a or b", _bitwise("or"), operands=2, floats=False, aten=("bitwise_or.Tensor",), on_truths=TRUTH_OR),
    pointwise("bitwise_xor", "bits: a xor b", _bitwise("xor"), operands=2, floats=False, aten=("bitwise_xor.Tensor",), on_truths=TRUTH_XOR),
    pointwise("signbit", "whether the sign is minus", lambda x: call("sign_bit", x) if x.lane is Lane.FLOAT else x < 0,
              promotion=Promotion.BOOL),
    pointwise("bitwise_left_shift", "bits moved up", _shift("shl", "zero"), operands=2, floats=False,
              aten=("bitwise_left_shift", "__lshift__")),
    pointwise("bitwise_right_shift", "bits moved down", _shift("shr", "sign"), operands=2, floats=False,
              aten=("bitwise_right_shift", "__rshift__")),
    pointwise("masked_fill", "c where b holds, else a", lambda a, b, c: select(b, c, a), operands=3, artifact="where3",
              documented=True, order=(1, 2, 0), checked=("Scalar value", "Tensor value"), orders=True),
    pointwise("where", "b where a holds, else c", lambda a, b, c: select(a, b, c), operands=3, artifact="where3", documented=True,
         aten=("where.self",), orders=True),
)  # fmt: skip

POINTWISE: tuple[Row, ...] = (*ARITHMETIC, *ROUNDING, *FUNCTIONS, *ACTIVATIONS, *GRADIENTS, *COMPARISONS, *LOGIC)
