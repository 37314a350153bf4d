"""Pointwise rows: the vector unit's arithmetic, comparisons, selections and activations."""

from __future__ import annotations

import math

from openspyre.spec.ops.expression import Lane, Value, call, constant, select, to_bool, to_float, to_int
from openspyre.spec.ops.row import Kind, Promotion, Row, Samples

_POSITIVE = Samples(low=0.01, high=8.0)
_NONZERO = Samples(nonzero=True)
_UNIT = Samples(low=-1.0, high=1.0)


def _row(name: str, summary: str, body, **fields) -> Row:  # type: ignore[no-untyped-def]
    fields.setdefault("artifact", name)
    fields.setdefault("aten", (name,))
    fields.setdefault("inductor", (name,))
    return Row(name=name, kind=Kind.POINTWISE, summary=summary, body=body, **fields)


def _function(name: str, summary: str, samples: Samples | None = None, **fields) -> Row:  # type: ignore[no-untyped-def]
    """A function of one fp32 value that is a primitive of the vector unit."""
    return _row(
        name,
        summary,
        lambda x: call(fields["opcode"] if "opcode" in fields else name, to_float(x)),
        promotion=Promotion.INT_TO_FLOAT,
        samples=samples or Samples(),
        **{key: value for key, value in fields.items() if key != "opcode"},
    )


def _sign(x: Value) -> Value:
    return select(x > 0, 1, select(x < 0, -1, x - x)) if x.lane is Lane.FLOAT else select(x > 0, 1, select(x < 0, -1, 0))


def _minimum(a: Value, b: Value) -> Value:
    return a._both(b, "min", "min_i")


def _maximum(a: Value, b: Value) -> Value:
    return a._both(b, "max", "max_i")


def _clamp(x: Value, low: Value, high: Value) -> Value:
    return _minimum(_maximum(x, low), high)


def _remainder(a: Value, b: Value) -> Value:
    """Python's: the result has the divisor's sign."""
    if a.lane is not Lane.FLOAT and b.lane is not Lane.FLOAT:
        return call("mod_i", to_int(a), to_int(b))
    a, b = to_float(a), to_float(b)
    rest = call("fmod", a, b)
    crossing = to_bool(to_int(rest.differs(0)) * to_int((rest < 0).differs(b < 0)))
    return select(crossing, rest + b, rest)


def _floor_divide(a: Value, b: Value) -> Value:
    if a.lane is not Lane.FLOAT and b.lane is not Lane.FLOAT:
        return call("div_i", to_int(a), to_int(b))
    a, b = to_float(a), to_float(b)
    rest = call("fmod", a, b)
    quotient = (a - rest) / b
    crossing = to_bool(to_int(rest.differs(0)) * to_int((rest < 0).differs(b < 0)))
    whole = select(crossing, quotient - 1, quotient)
    floored = call("floor", whole)
    near = select(whole - floored > 0.5, floored + 1, floored)
    return select(b.equals(0), a / b, near)


def _trunc_divide(a: Value, b: Value) -> Value:
    if a.lane is not Lane.FLOAT and b.lane is not Lane.FLOAT:
        return call("tdiv_i", to_int(a), to_int(b))
    return call("trunc", to_float(a) / to_float(b))


def _pow(a: Value, b: Value) -> Value:
    return call("pow", to_float(a), to_float(b))


def _silu(x: Value) -> Value:
    return x / (1 + call("exp", -x))


def _gelu_erf(x: Value) -> Value:
    return x * 0.5 * (1 + call("erf", x * math.sqrt(0.5)))


def _gelu_tanh(x: Value) -> Value:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1 + call("tanh", inner))


def _softplus(x: Value, beta: Value, threshold: Value) -> Value:
    scaled = x * beta
    return select(scaled > threshold, x, call("log1p", call("exp", scaled)) / beta)


def _mish(x: Value) -> Value:
    return x * call("tanh", call("log1p", call("exp", x)))


def _logical(combine: str) -> object:
    return lambda a, b: to_bool(call(combine, to_int(to_bool(a)), to_int(to_bool(b))))


def _bitwise(opcode: str) -> object:
    return lambda a, b: call(opcode, to_int(a), to_int(b))


def _integer_only(whole: object, real: str) -> object:
    """floor, ceil, ...: whole numbers stay as they are."""
    return lambda x: call(real, x) if x.lane is Lane.FLOAT else x


ARITHMETIC = (
    _row("identity", "x, converted to the result's type", lambda x: x, documented=True, aten=(), inductor=()),
    _row("add", "a + b", lambda a, b: a + b, operands=2, documented=True, fixed=(("alpha", 1),)),
    _row("sub", "a - b", lambda a, b: a - b, operands=2, documented=True, fixed=(("alpha", 1),)),
    _row("add_scaled", "a + alpha * b", lambda a, b, alpha: a + alpha * b, operands=2, scalars=("alpha",), aten=("add",), inductor=()),
    _row("sub_scaled", "a - alpha * b", lambda a, b, alpha: a - alpha * b, operands=2, scalars=("alpha",), aten=("sub",), inductor=()),
    _row("mul", "a * b", lambda a, b: a * b, operands=2, documented=True),
    _row("div", "a / b", lambda a, b: to_float(a) / to_float(b), operands=2, artifact="realdiv", documented=True,
         promotion=Promotion.INT_TO_FLOAT, samples=_NONZERO, inductor=("truediv", "div"), fixed=(("rounding_mode", None),)),
    _row("fma", "a * b + c, rounded once", lambda a, b, c: call("fma", to_float(a), to_float(b), to_float(c)), operands=3, aten=()),
    _row("neg", "-x", lambda x: -x, documented=True),
    _row("abs", "|x|", lambda x: call("abs", x) if x.lane is Lane.FLOAT else call("abs_i", to_int(x)), documented=True),
    _row("sign", "-1, 0 or 1", _sign, aten=("sign", "sgn")),
    _row("minimum", "the smaller, NaN if either is", _minimum, operands=2, documented=True),
    _row("maximum", "the larger, NaN if either is", _maximum, operands=2, documented=True),
    _row("clamp", "between two bounds", _clamp, operands=3, artifact="clip", documented=True, aten=("clamp.Tensor",)),
    _row("remainder", "the rest of a division, with the divisor's sign", _remainder, operands=2, samples=_NONZERO),
    _row("fmod", "the rest of a division, with the dividend's sign",
         lambda a, b: a._both(b, "fmod", "tmod_i"), operands=2, samples=_NONZERO),
    _row("floor_divide", "the whole quotient, rounded down", _floor_divide, operands=2, samples=_NONZERO, inductor=("floordiv",)),
    _row("div_floor", "a / b, rounded down", _floor_divide, operands=2, samples=_NONZERO, aten=("div",), inductor=(),
         fixed=(("rounding_mode", "floor"),)),
    _row("div_trunc", "a / b, rounded towards zero", _trunc_divide, operands=2, samples=_NONZERO, aten=("div",),
         inductor=("truncdiv",), fixed=(("rounding_mode", "trunc"),)),
    _row("pow", "a to the power of b", _pow, operands=2, aten=("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar"),
         samples=_POSITIVE, ulps=2),
    _row("square", "x * x", lambda x: x * x, artifact="mul", documented=True, aten=()),
)  # fmt: skip

ROUNDING = tuple(
    _row(name, summary, _integer_only(None, name), documented=name == "floor")
    for name, summary in (("floor", "rounded down"), ("ceil", "rounded up"), ("round", "to the nearest, halves to even"),
                          ("trunc", "rounded towards zero"))
)  # fmt: skip

FUNCTIONS = (
    _function("sqrt", "square root", _POSITIVE, documented=True),
    _function("rsqrt", "1 / square root", _POSITIVE, documented=True),
    _function("reciprocal", "1 / x", _NONZERO, documented=True),
    _function("exp", "e to the x", documented=True),
    _function("exp2", "2 to the x"),
    _function("expm1", "e to the x, less 1, exact near 0"),
    _function("log", "natural logarithm", _POSITIVE, documented=True),
    _function("log2", "logarithm to base 2", _POSITIVE),
    _function("log10", "logarithm to base 10", _POSITIVE),
    _function("log1p", "log(1 + x), exact near 0", Samples(low=-0.9, high=8.0)),
    *(_function(name, f"{name} of x") for name in ("sin", "cos", "tan", "sinh", "cosh", "atan", "erf", "erfc")),
    *(_function(name, f"{name} of x", _UNIT) for name in ("asin", "acos")),
    _function("tanh", "hyperbolic tangent", documented=True),
    _function("sigmoid", "1 / (1 + exp(-x))", documented=True),
    _row("atan2", "angle of (b, a)", lambda a, b: call("atan2", to_float(a), to_float(b)), operands=2,
         promotion=Promotion.INT_TO_FLOAT),
)  # fmt: skip

ACTIVATIONS = (
    _row("relu", "max(x, 0)", lambda x: _maximum(x, constant(x, 0, x.lane)), artifact="relufwd", documented=True),
    _row("relu6", "between 0 and 6", lambda x: _clamp(x, constant(x, 0, x.lane), constant(x, 6, x.lane)), artifact="relu6fwd",
         documented=True, aten=()),
    _row("leaky_relu", "x, or slope * x below 0", lambda x, slope: select(x > 0, x, x * slope), artifact="leakyrelufwd",
         documented=True, scalars=("negative_slope",), integers=False),
    _row("silu", "x * sigmoid(x)", _silu, documented=True, integers=False, ulps=2),
    _row("gelu", "x * normal cdf(x)", _gelu_erf, artifact="gelufwd", documented=True, integers=False, ulps=2,
         fixed=(("approximate", "none"),)),
    _row("gelu_tanh", "gelu, tanh form", _gelu_tanh, artifact="gelufwdtanh", aten=("gelu",), inductor=(), integers=False, ulps=2,
         fixed=(("approximate", "tanh"),)),
    _row("softplus", "log(1 + exp(beta x)) / beta", _softplus, documented=True, scalars=("beta", "threshold"),
         constants=("softplusBeta", "softplusThresh"), integers=False, ulps=2),
    _row("mish", "x * tanh(softplus(x))", _mish, documented=True, integers=False, ulps=3),
)  # fmt: skip

COMPARISONS = tuple(
    _row(name, f"a {sign} b", body, operands=2, artifact=artifact, documented=True, promotion=Promotion.COMPARE)
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
    _row("logical_not", "not x", lambda x: to_bool(1 - to_int(to_bool(x))), promotion=Promotion.BOOL),
    _row("logical_and", "a and b", _logical("and"), operands=2, promotion=Promotion.BOOL),
    _row("logical_or", "a or b", _logical("or"), operands=2, promotion=Promotion.BOOL),
    _row("logical_xor", "either, not both", _logical("xor"), operands=2, promotion=Promotion.BOOL),
    _row("isnan", "is not a number", lambda x: call("is_nan", to_float(x)), promotion=Promotion.BOOL),
    _row("isinf", "is infinite", lambda x: call("is_inf", to_float(x)), promotion=Promotion.BOOL),
    _row("bitwise_not", "every bit flipped", lambda x: to_bool(1 - to_int(x)) if x.lane is Lane.BOOL else call("not", x), floats=False),
    *(_row(f"bitwise_{name}", f"bits: a {name} b", _bitwise(name), operands=2, floats=False,
           aten=(f"bitwise_{name}.Tensor",)) for name in ("and", "or", "xor")),
    _row("where", "b where a holds, else c", lambda a, b, c: select(a, b, c), operands=3, artifact="where3", documented=True,
         aten=("where.self",)),
)  # fmt: skip

POINTWISE: tuple[Row, ...] = (*ARITHMETIC, *ROUNDING, *FUNCTIONS, *ACTIVATIONS, *COMPARISONS, *LOGIC)
