"""Activation rows: composites, computed in fp32 and rounded once (contract N4)."""

from __future__ import annotations

import math

from openspyre.spec.ops import widened
from openspyre.spec.ops.expression import Value, call, constant, select
from openspyre.spec.ops.pointwise_rows import both, clamp, maximum, pointwise
from openspyre.spec.ops.row import Precision, Row


def _silu(x: Value) -> Value:
    return x / (1 + call("exp", -x))


def _gelu_erf(x: Value) -> Value:
    """By erfc: 1 + erf(x) would lose the tail's digits."""
    return x * 0.5 * call("erfc", x * -math.sqrt(0.5))


def _gelu_tanh(x: Value) -> Value:
    """(1 + tanh(u)) / 2 is 1 / (1 + exp(-2u)), which keeps the tail's digits."""
    twice = math.sqrt(8 / math.pi) * (x + 0.044715 * (x * x * x))
    return x / (1 + call("exp", -twice))


def _softplus(x: Value, beta: Value, threshold: Value) -> Value:
    scaled = x * beta
    return select(scaled > threshold, x, call("log1p", call("exp", scaled)) / beta)


def _mish(x: Value) -> Value:
    return x * call("tanh", call("log1p", call("exp", x)))


def _elu(x: Value, alpha: Value, scale: Value, input_scale: Value) -> Value:
    return select(x <= 0, call("expm1", x * input_scale) * alpha * scale, x * scale)


def _hardsigmoid(x: Value) -> Value:
    return clamp(x + 3.0, constant(x, 0.0, x.lane), constant(x, 6.0, x.lane)) / 6.0


def _softshrink(x: Value, lambd: Value) -> Value:
    return select(x > lambd, x - lambd, select(x < -lambd, x + lambd, x * 0.0))


def _hardshrink(x: Value, lambd: Value) -> Value:
    return select(both(x >= -lambd, x <= lambd), 0.0, x)


ACTIVATIONS: tuple[Row, ...] = (
    pointwise("relu", "max(x, 0)", lambda x: maximum(x, constant(x, 0, x.lane)), artifact="relufwd", documented=True),
    pointwise("relu6", "between 0 and 6", lambda x: clamp(x, constant(x, 0, x.lane), constant(x, 6, x.lane)), artifact="relu6fwd",
              documented=True, aten=()),
    pointwise("hardtanh", "between two numbers", clamp, scalars=("min_val", "max_val"), composite=Precision.OWN),
    pointwise("threshold", "x, or a number where x is at most the threshold", lambda x, least, value: select(x <= least, value, x),
              scalars=("threshold", "value"), composite=Precision.OWN),
    pointwise("leaky_relu", "x, or slope * x below 0", lambda x, slope: select(x > 0, x, x * slope),
              scalars=("negative_slope",), integers=False, composite=Precision.OWN),
    pointwise("prelu", "x, or weight * x below 0", lambda x, weight: select(x > 0, x, x * weight), operands=2, integers=False,
              aten=("_prelu_kernel",), composite=Precision.OWN),
    pointwise("silu", "x * sigmoid(x)", _silu, documented=True, integers=False, ulps=2),
    pointwise("gelu", "x * normal cdf(x)", _gelu_erf, artifact="gelufwd", documented=True, integers=False, ulps=2,
              fixed=(("approximate", "none"),)),
    pointwise("gelu_tanh", "gelu, tanh form", _gelu_tanh, artifact="gelufwdtanh", aten=("gelu",), integers=False, ulps=2,
              fixed=(("approximate", "tanh"),), composite=Precision.FP32),
    pointwise("softplus", "log(1 + exp(beta x)) / beta", _softplus, documented=True, scalars=("beta", "threshold"),
              constants=("softplusBeta", "softplusThresh"), integers=False, ulps=2),
    pointwise("mish", "x * tanh(softplus(x))", _mish, documented=True, integers=False, ulps=3),
    pointwise("elu", "scale * x, or scale * alpha * (exp(input_scale * x) - 1) below 0", _elu,
              scalars=("alpha", "scale", "input_scale"), integers=False, widened=widened.elu, ulps=2),
    pointwise("hardsigmoid", "(x + 3) / 6 between 0 and 1", _hardsigmoid, integers=False, composite=Precision.FP32),
    pointwise("hardswish", "x * hardsigmoid(x)", lambda x: x * clamp(x + 3.0, constant(x, 0.0, x.lane), constant(x, 6.0, x.lane)) / 6.0,
              integers=False, composite=Precision.FP32),
    pointwise("softshrink", "x moved towards 0 by lambd", _softshrink, scalars=("lambd",), integers=False, composite=Precision.OWN),
    pointwise("hardshrink", "x, or 0 within lambd of it", _hardshrink, scalars=("lambd",), integers=False, composite=Precision.OWN),
)  # fmt: skip
