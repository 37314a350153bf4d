"""Gradients of the activations: rows of their own, so that a backward pass stays on the card."""

from __future__ import annotations

import math

from openspyre.spec.ops import widened
from openspyre.spec.ops.expression import Value, call, constant, select
from openspyre.spec.ops.pointwise_rows import both, either, pointwise
from openspyre.spec.ops.row import Precision, Row


def _silu(g: Value, x: Value) -> Value:
    s = call("sigmoid", x)
    return g * s * (1 + x * (1 - s))


def _gelu_erf(g: Value, x: Value) -> Value:
    below = 0.5 * call("erfc", x * -math.sqrt(0.5))
    density = call("exp", x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
    return g * (below + x * density)


def _gelu_tanh(g: Value, x: Value) -> Value:
    """(1 + tanh(u)) / 2 is sigmoid(2u), as in the row itself; 1 - sigmoid(2u) would lose digits that slope brings out."""
    square, steep = x * x, math.sqrt(8 / math.pi)
    twice = steep * (x + 0.044715 * (square * x))
    s, rest = call("sigmoid", twice), call("sigmoid", -twice)
    slope = steep * (1 + 3 * 0.044715 * square)
    return g * (s + x * s * rest * slope)


def _mish(g: Value, x: Value) -> Value:
    t = call("tanh", call("log1p", call("exp", x)))
    return g * (t + x * call("sigmoid", x) * (1 - t * t))


def _elu(g: Value, x: Value, alpha: Value, scale: Value, input_scale: Value) -> Value:
    below = g * input_scale * alpha * scale * call("exp", x * input_scale)
    return select(x > 0, g * scale, below)


def _softplus(g: Value, x: Value, beta: Value, threshold: Value) -> Value:
    scaled = x * beta
    return select(scaled > threshold, g, g * call("sigmoid", scaled))


def _hardswish(g: Value, x: Value) -> Value:
    return select(x <= -3, 0.0, select(x >= 3, g, g * (x / 3.0 + 0.5)))


def _hardtanh(g: Value, x: Value, low: Value, high: Value) -> Value:
    return select(both(x > low, x < high), g, 0.0)


def _shrink(g: Value, x: Value, lambd: Value) -> Value:
    return select(either(x < -lambd, x > lambd), g, 0.0)


def _gradient(name: str, of: str, body, **fields) -> Row:  # type: ignore[no-untyped-def]
    fields.setdefault("integers", False)
    return pointwise(name, f"gradient of {of}", body, operands=2, **fields)


GRADIENTS: tuple[Row, ...] = (
    _gradient("sigmoid_backward", "sigmoid, from its result", lambda g, y: g * (1 - y) * y, composite=Precision.FP32),
    _gradient("tanh_backward", "tanh, from its result", lambda g, y: g * (1 - y * y), composite=Precision.FP32),
    _gradient("threshold_backward", "relu and threshold", lambda g, x, least: select(x <= least, constant(g, 0, g.lane), g),
              scalars=("threshold",), integers=True, composite=Precision.OWN),
    _gradient("silu_backward", "silu", _silu, ulps=2, composite=Precision.FP32),
    _gradient("gelu_backward", "gelu", _gelu_erf, fixed=(("approximate", "none"),), ulps=2, widened=widened.gelu_gradient),
    _gradient("gelu_tanh_backward", "gelu, tanh form", _gelu_tanh, aten=("gelu_backward",), fixed=(("approximate", "tanh"),), ulps=2, composite=Precision.FP32),
    _gradient("mish_backward", "mish", _mish, ulps=2, widened=widened.mish_gradient),
    _gradient("elu_backward", "elu", _elu, scalars=("alpha", "scale", "input_scale"), fixed=(("is_result", False),),
              composite=Precision.FP32, ulps=2),
    _gradient("softplus_backward", "softplus", _softplus, scalars=("beta", "threshold"), ulps=2, composite=Precision.FP32),
    _gradient("leaky_relu_backward", "leaky_relu", lambda g, x, slope: select(x > 0, g, g * slope), scalars=("negative_slope",),
              fixed=(("self_is_result", False),), composite=Precision.OWN),
    _gradient("hardtanh_backward", "hardtanh", _hardtanh, scalars=("min_val", "max_val"), composite=Precision.OWN),
    _gradient("hardswish_backward", "hardswish", _hardswish, composite=Precision.FP32),
    _gradient("hardsigmoid_backward", "hardsigmoid", lambda g, x: select(both(x > -3, x < 3), g / 6.0, 0.0), composite=Precision.OWN),
    _gradient("hardshrink_backward", "hardshrink", _shrink, scalars=("lambd",), composite=Precision.OWN),
    _gradient("softshrink_backward", "softshrink", _shrink, scalars=("lambd",), composite=Precision.OWN),
)  # fmt: skip
