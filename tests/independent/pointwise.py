"""Functions of single elements: float32 in, float32 out, rounded to the format of the result by the caller."""

from collections.abc import Callable
from math import erf, sqrt

import numpy as np

Constants = dict[str, float]
Function = Callable[..., np.ndarray]

_erf = np.frompyfunc(erf, 1, 1)


def _wide(function: Callable[[np.ndarray], np.ndarray]) -> Function:
    """A transcendental function: in float64, then one rounding to float32."""
    return lambda constants, x: function(x.astype(np.float64)).astype(np.float32)


def _plain(function: Callable[..., np.ndarray]) -> Function:
    return lambda constants, *operands: function(*operands)


def _truth(function: Callable[..., np.ndarray]) -> Function:
    return lambda constants, *operands: function(*operands).astype(np.float32)


def _gelu(x: np.ndarray) -> np.ndarray:
    """No field names the variant: the exact one, which is torch's default."""
    return 0.5 * x * (1 + _erf(x / sqrt(2)).astype(np.float64))


def _clip(constants: Constants, x: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(x, np.float32(constants["clipMin"])), np.float32(constants["clipMax"]))


def _softplus(constants: Constants, x: np.ndarray) -> np.ndarray:
    beta = constants["softplusBeta"]
    scaled = x.astype(np.float64) * beta
    soft = np.log1p(np.exp(np.minimum(scaled, constants["softplusThresh"]))) / beta
    return np.where(scaled > constants["softplusThresh"], x, soft).astype(np.float32)


def _layernormnorm(
    constants: Constants, x: np.ndarray, mean: np.ndarray, scale: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    return (x - mean) * scale * weight + bias


def _layernormscale(constants: Constants, mean: np.ndarray, square: np.ndarray) -> np.ndarray:
    """A variance that rounding makes negative counts as 0, says the numerics contract."""
    spread = square - mean * mean
    variance = np.where(spread < 0, np.float32(0), spread) + np.float32(constants["eps"])
    return (1 / np.sqrt(variance.astype(np.float64))).astype(np.float32)


FUNCTIONS: dict[str, Function] = {
    "abs": _plain(np.abs),
    "add": _plain(np.add),
    "clip": _clip,
    "dl16tofp32": _plain(np.positive),
    "equal": _truth(np.equal),
    "exp": _wide(np.exp),
    "floor": _plain(np.floor),
    "fp32todl16": _plain(np.positive),
    "fp8todl16": _plain(np.positive),
    "gelufwd": _wide(_gelu),
    "greaterequal": _truth(np.greater_equal),
    "greaterthan": _truth(np.greater),
    "layernormnorm": _layernormnorm,
    "lesserequal": _truth(np.less_equal),
    "lesserthan": _truth(np.less),
    "log": _wide(np.log),
    "maximum": _plain(np.maximum),
    "mish": _wide(lambda x: x * np.tanh(np.logaddexp(0, x))),
    "minimum": _plain(np.minimum),
    "mul": _plain(np.multiply),
    "neg": _plain(np.negative),
    "notequal": _truth(np.not_equal),
    "qfp8ch": _plain(np.positive),
    "realdiv": _plain(np.true_divide),
    "reciprocal": _plain(lambda x: np.float32(1) / x),
    "relu6fwd": _plain(lambda x: np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(6))),
    "relufwd": _plain(lambda x: np.maximum(x, x.dtype.type(0))),
    "rsqrt": _wide(lambda x: 1 / np.sqrt(x)),
    "sigmoid": _wide(lambda x: 1 / (1 + np.exp(-x))),
    "silu": _wide(lambda x: x / (1 + np.exp(-x))),
    "softplus": _softplus,
    "sqrt": _plain(np.sqrt),
    "sub": _plain(np.subtract),
    "tanh": _wide(np.tanh),
    "where3": _plain(lambda condition, x, y: np.where(condition != 0, x, y)),
}
STATISTICS = {"layernormscale": _layernormscale}
