"""Random rows: each element from one 32-bit word of a seed's stream, found by the element's own place (Philox4x32-10).

Word number offset + place; seed and offset are the launch's, each as two words. Everything is computed in fp32 and rounded once.
"""

from __future__ import annotations

import math

from openspyre.spec.ops.expression import Lane, Value, call, constant, select, to_float, to_int
from openspyre.spec.ops.pointwise_rows import both
from openspyre.spec.ops.row import Kind, Row

WORDS = ("seed_low", "seed_high", "offset_low", "offset_high")
_SMALLEST, _LARGEST = -(2**31), 2**31 - 1


def _row(name: str, summary: str, body, *parameters: str, **fields) -> Row:  # type: ignore[no-untyped-def]
    return Row(
        name=name,
        kind=Kind.RANDOM,
        summary=summary,
        artifact=f"openspyre.{name}",
        body=body,
        scalars=(*WORDS, *parameters),
        **fields,
    )


def _whole(like: Value, number: int) -> Value:
    return constant(like, number, Lane.INT)


def _first_bits(word: Value, count: int) -> Value:
    return call("and", call("shr", word, _whole(word, 32 - count)), _whole(word, 2**count - 1))


def _unit(word: Value, bits: int = 24) -> Value:
    """From 0 to 1, 1 excluded, on a grid that float32 holds exactly."""
    return to_float(_first_bits(word, bits)) * 2.0**-bits


def _open_unit(word: Value) -> Value:
    """Between 0 and 1, neither of them; close to 0 as fine as 31 bits tell."""
    fine = (to_float(_first_bits(word, 31)) + 0.5) * 2.0**-31
    return call("min", fine, constant(fine, 1 - 2.0**-24, Lane.FLOAT))


def _between(unit: Value, low: Value, high: Value) -> Value:
    return call("fma", unit, high - low, low)


def _below(drawn: Value, low: Value, high: Value) -> Value:
    """What rounding has lifted to the upper end becomes the lower one, as torch has it."""
    return select(drawn < high, drawn, low)


def _uniform(place: Value, *given: Value) -> Value:
    *words, low, high = given
    return _below(_between(_unit(call("philox", place, *words)), low, high), low, high)


def _uniform_float16(place: Value, *given: Value) -> Value:
    """10 bits, as many as the card's 16-bit float has below 1; the comparison is with what will be stored."""
    *words, low, high = given
    low, high = call("round_sen169", low), call("round_sen169", high)
    return _below(call("round_sen169", _between(_unit(call("philox", place, *words), 10), low, high)), low, high)


def _round_bfloat16(x: Value) -> Value:
    stretched = x * (2.0**16 + 1)
    return stretched - (stretched - x)


def _uniform_bfloat16(place: Value, *given: Value) -> Value:
    """8 bits, and the result on bfloat16's own grid: the host would round a finer one up to 1."""
    *words, low, high = given
    low, high = _round_bfloat16(low), _round_bfloat16(high)
    return _below(_round_bfloat16(_between(_unit(call("philox", place, *words), 8), low, high)), low, high)


def _integer(place: Value, *given: Value) -> Value:
    """From low to last: the upper half of word * count. No sum on the way leaves what lies between them."""
    *words, low, last = given
    word = call("philox", place, *words)
    everything = both(low.equals(_SMALLEST), last.equals(_LARGEST))
    step = select(everything, word, call("mul_high", word, last - low + 1))
    half = _first_bits(step, 31)
    return low + half + half + call("and", step, _whole(step, 1))


def _normal(place: Value, *given: Value) -> Value:
    *words, mean, deviation = given
    return call("fma", call("normal", call("philox", place, *words)), to_float(deviation), to_float(mean))


def _log_normal(place: Value, *given: Value) -> Value:
    return call("exp", _normal(place, *given))


def _exponential(place: Value, *given: Value) -> Value:
    *words, rate = given
    return -call("log", _open_unit(call("philox", place, *words))) / rate


def _cauchy(place: Value, *given: Value) -> Value:
    *words, median, scale = given
    angle = (_open_unit(call("philox", place, *words)) - 0.5) * math.pi
    return call("fma", call("tan", angle), scale, median)


def _geometric(place: Value, *given: Value) -> Value:
    """Trials up to the first success."""
    *words, p = given
    failures = call("log", _open_unit(call("philox", place, *words))) / call("log1p", -p)
    return call("floor", failures) + 1


def _bernoulli(place: Value, *given: Value) -> Value:
    *words, p = given
    return _unit(call("philox", place, *words)) < to_float(p)


def _dropout(x: Value, place: Value, *given: Value) -> tuple[Value, Value]:
    """The scaled value and whether it was kept; what is dropped is multiplied by 0, as in torch."""
    *words, p = given
    keep = 1 - p
    kept = _bernoulli(place, *words, keep)
    scale = select(keep > 0, 1 / keep, 0)
    return to_float(x) * (to_float(kept) * scale), to_int(kept)


RANDOM: tuple[Row, ...] = (
    _row("uniform", "numbers from `from` to `to`, which is excluded, in 2^24 steps", _uniform, "from", "to", integers=False, aten=("uniform_", "uniform")),
    _row("uniform_float16", "the same in 2^10 steps", _uniform_float16, "from", "to", integers=False, aten=("uniform_", "uniform")),
    _row("uniform_bfloat16", "the same in 2^8 steps", _uniform_bfloat16, "from", "to", integers=False, aten=("uniform_", "uniform")),
    _row("random_integers", "whole numbers from `from` to below `to`", _integer, "from", "to",
         aten=("random_", "random_.to", "random_.from", "random", "random.to", "random.from")),
    _row("normal", "mean + std * a number of the standard normal distribution", _normal, "mean", "std", integers=False,
         aten=("normal_", "normal_functional", "normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor", "normal.Tensor_float_out",
               "normal.float_Tensor_out", "normal.Tensor_Tensor_out")),
    _row("log_normal", "exp of a normal number", _log_normal, "mean", "std", integers=False, aten=("log_normal_", "log_normal")),
    _row("exponential", "-log(u) / lambd", _exponential, "lambd", integers=False, aten=("exponential_", "exponential")),
    _row("cauchy", "median + sigma * tan(pi (u - 1/2))", _cauchy, "median", "sigma", integers=False, aten=("cauchy_", "cauchy")),
    _row("geometric", "trials up to the first success", _geometric, "p", aten=("geometric_", "geometric")),
    _row("bernoulli", "1 with probability p, else 0", _bernoulli, "p",
         aten=("bernoulli_.float", "bernoulli_.Tensor", "bernoulli.out", "bernoulli", "bernoulli.p", "bernoulli.Tensor")),
    _row("dropout", "x / (1 - p) where it is kept, else 0; and whether it was kept", _dropout, "p", operands=2, integers=False,
         aten=("native_dropout",)),
)  # fmt: skip
