"""Normalisations: composites of the card's ops along a row, as the documents decompose them (contract N4).

A body gets the row it runs along, the operands, and the op's attributes by name. Hardware has a layer norm's three parts whole:
`exx2`, `layernormscale`, `layernormnorm`.
"""

from __future__ import annotations

from openspyre.spec.ops.expression import Value, call, select, to_float
from openspyre.spec.ops.row import Kind, Precision, Row, Samples
from openspyre.spec.ops.row_expression import Along, row, widen

_MINUS_INFINITY = float("-inf")


def _softmax(along: Along, x: Value) -> Value:
    e = call("exp", x - along.max(x))
    return e / along.sum(e)


def safe_softmax(along: Along, x: Value) -> Value:
    """A softmax whose rows of -inf alone are 0 instead of NaN: an attention that may look at nothing."""
    top = along.max(x)
    e = call("exp", x - select(top.equals(_MINUS_INFINITY), 0.0, top))
    total = along.sum(e)
    return e / select(total.equals(0.0), 1.0, total)


def _softmax_gradient(along: Along, gradient: Value, result: Value) -> Value:
    return (gradient - along.sum(gradient * result)) * result


def _log_softmax_gradient(along: Along, gradient: Value, result: Value) -> Value:
    return gradient - call("exp", result) * along.sum(gradient)


def _log_softmax(along: Along, x: Value) -> Value:
    shifted = x - along.max(x)
    return shifted - call("log", along.sum(call("exp", shifted)))


def _scaled(x: Value, affine: dict[str, Value]) -> Value:
    scaled = x * affine["w"] if "w" in affine else x
    return scaled + affine["b"] if "b" in affine else scaled


def _layer_norm(along: Along, x: Value, *given: Value, eps: float, affine: str) -> tuple[Value, Value, Value]:
    """`affine` names the operands after x: "w" a weight, "b" a bias. Also returns mean and 1 / standard deviation."""
    named = dict(zip(affine, given, strict=True))
    if along.dims > 1:  # the hardware's ops run along one dim; torch decomposes the others in fp32
        x = widen(x)
        mean = along.mean(x)
        centred = x - mean
        scale = call("rsqrt", along.mean(centred * centred) + eps)
        return _scaled(centred * scale, {name: widen(value) for name, value in named.items()}), mean, scale
    mean, square = along.moments(x)
    scale = row("layernormscale", mean, square, eps)
    return row("layernormnorm", x, mean, scale, named.get("w", 1.0), named.get("b", 0.0)), mean, scale


def _rms_norm(along: Along, x: Value, *given: Value, eps: float, affine: str) -> tuple[Value, Value]:
    scale = call("rsqrt", along.mean(x * x) + eps)
    return _scaled(x * scale, dict(zip(affine, given, strict=True))), scale


def _layer_norm_scale(mean: Value, square: Value, eps: Value) -> Value:
    """What rounding makes of a variance of 0 may be less: it counts as 0."""
    variance = square - mean * mean
    return call("rsqrt", select(variance < 0.0, 0.0, variance) + eps)


def _layer_norm_norm(x: Value, mean: Value, scale: Value, weight: Value, bias: Value) -> Value:
    return (x - mean) * scale * weight + bias


def _row(name: str, summary: str, body, **fields) -> Row:  # type: ignore[no-untyped-def]
    return Row(name=name, kind=Kind.ROWS, summary=summary, body=body, integers=False, composite=Precision.OWN,
               artifact=f"openspyre.{name}", **fields)  # fmt: skip


ROWS: tuple[Row, ...] = (
    _row("softmax", "exp(x - max) / sum of it, along one dim", _softmax, aten=("_softmax", "_softmax.out")),
    _row("safe_softmax", "softmax, 0 where all is -inf", lambda along, x: safe_softmax(along, to_float(x)), aten=("_safe_softmax",)),
    _row("softmax_gradient", "(gradient - sum of gradient * result) * result", _softmax_gradient, operands=2,
         aten=("_softmax_backward_data", "_softmax_backward_data.out")),
    _row("log_softmax_gradient", "gradient - exp(result) * sum of gradient", _log_softmax_gradient, operands=2,
         aten=("_log_softmax_backward_data", "_log_softmax_backward_data.out")),
    _row("log_softmax", "x - max - log(sum of exp(x - max)), along one dim", _log_softmax,
         aten=("_log_softmax", "_log_softmax.out")),
    _row("layer_norm", "(x - mean) / sqrt(variance + eps) * weight + bias, with mean and 1 / sqrt(variance + eps)",
         _layer_norm, aten=("native_layer_norm",)),
    _row("rms_norm", "x / sqrt(mean of squares + eps) * weight, with 1 / sqrt(mean of squares + eps)",
         _rms_norm, aten=("_fused_rms_norm",)),
    Row("exx2", Kind.MOMENTS, "mean and mean of squares along a row, both fp32, in one stick", artifact="exx2", documented=True,
        integers=False),
    Row("layernormscale", Kind.POINTWISE, "1 / sqrt(mean of squares - mean^2 + eps)", artifact="layernormscale",
        documented=True, pairs=True, operands=2, scalars=("eps",), constants=("eps",), body=_layer_norm_scale, integers=False, ulps=2,
        samples=Samples(low=0.0, high=1.0)),
    Row("layernormnorm", Kind.POINTWISE, "(x - mean) * scale * weight + bias", artifact="layernormnorm", documented=True,
        operands=5, body=_layer_norm_norm, integers=False, mixes_formats=True),
)  # fmt: skip
