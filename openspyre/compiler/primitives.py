"""The primitives of expressions in numpy, bit for bit as the card computes them (contract N3, N8).

Lanes are 32 bits, as arrays of float32 or int32; truth values are int32. What only the card's own functions compute (exp, sin, ...) is
not here: an op made of such stays an op of the card.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openspyre.spec.encodings import float_to_integer, sen169_decode, sen169_encode
from openspyre.spec.ops.expression import PRIMITIVES, Code, Lane

Lanes = NDArray[Any]
_F, _I = np.dtype(np.float32), np.dtype(np.int32)


def fma(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c, rounded once: the product is exact in float64, and the sum is rounded to odd before it is rounded to fp32."""
    product, addend = a.astype(np.float64) * b, c.astype(np.float64)
    total = np.asarray(product + addend)
    back = total - product
    error = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    inexact = np.isfinite(total) & (error != 0) & even
    odd = np.where(inexact, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)
    return np.asarray(odd.astype(_F))


def _floor_divide(a: Lanes, b: Lanes) -> Lanes:
    wide = a.astype(np.int64) // np.where(b == 0, 1, b)
    return np.asarray(np.where(b == 0, 0, wide).astype(_I))


def _floor_rest(a: Lanes, b: Lanes) -> Lanes:
    return np.asarray(np.where(b == 0, 0, a.astype(np.int64) % np.where(b == 0, 1, b)).astype(_I))


def _cut_divide(a: Lanes, b: Lanes) -> Lanes:
    wide, by = np.abs(a.astype(np.int64)), np.abs(np.where(b == 0, 1, b).astype(np.int64))
    quotient = wide // by * np.sign(a).astype(np.int64) * np.sign(b)
    return np.asarray(np.where(b == 0, 0, quotient).astype(_I))


def _shifted_left(a: Lanes, b: Lanes) -> Lanes:
    by = b.view(np.uint32)
    return np.asarray(
        np.where(by > 31, np.uint32(0), a.view(np.uint32) << (by & np.uint32(31))).astype(np.uint32)
    ).view(_I)


def _shifted_right(a: Lanes, b: Lanes) -> Lanes:
    return np.asarray(a >> np.minimum(b.view(np.uint32), np.uint32(31)).astype(_I))


def _truth(found: Lanes) -> Lanes:
    return np.asarray(found).astype(_I)


# Which of two zeros min and max give is left to the card: such lanes are no number of ours (see `unlike_zeros`).
_COMPUTE: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "fma": fma,
    "min": np.minimum, "max": np.maximum, "sqrt": np.sqrt, "neg": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "trunc": np.trunc, "reciprocal": lambda a: np.float32(1) / a,
    "round_sen169": lambda a: sen169_decode(sen169_encode(a)),
    "lt_f": np.less, "le_f": np.less_equal, "eq_f": np.equal, "ne_f": np.not_equal,
    "lt_i": np.less, "le_i": np.less_equal, "eq_i": np.equal, "ne_i": np.not_equal,
    "is_nan": np.isnan, "is_inf": np.isinf, "sign_bit": lambda a: np.signbit(a) & ~np.isnan(a),
    "float_to_bool": lambda a: a != 0, "int_to_bool": lambda a: a != 0,
    "add_i": np.add, "sub_i": np.subtract, "mul_i": np.multiply, "div_i": _floor_divide, "mod_i": _floor_rest,
    "tdiv_i": _cut_divide, "tmod_i": lambda a, b: np.where(b == 0, 0, a - _cut_divide(a, b) * b),
    "min_i": np.minimum, "max_i": np.maximum, "neg_i": np.negative, "abs_i": np.abs,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.bitwise_not,
    "shl": _shifted_left, "shr": _shifted_right,
    "float_to_int": lambda a: float_to_integer(a, np.int32), "int_to_float": lambda a: a.astype(_F),
    "bool_to_float": lambda a: (a != 0).astype(_F),
    "select": lambda a, b, c: np.where(a != 0, b, c),
}  # fmt: skip


_MAY_WRAP = ("add_i", "sub_i", "mul_i", "neg_i", "abs_i")


def computable(code: Code) -> bool:
    return all(instruction.opcode in _COMPUTE for instruction in code.instructions)


def run(code: Code, inputs: list[Lanes], *, wraps: bool = True) -> list[Lanes] | None:
    """The results of code on arrays that are broadcast together; None where the card alone says what comes out.

    Without `wraps`, integers that leave their 32 bits are the card's as well: its sanitizer tells.
    """
    registers: dict[int, Lanes] = dict(enumerate(inputs))
    for place, bits in enumerate(code.constants, len(inputs)):
        registers[place] = np.asarray(np.uint32(bits)).view(_I)
    with np.errstate(all="ignore"):
        for instruction in code.instructions:
            wanted, lane = PRIMITIVES.get(instruction.opcode, ((), None))
            sources = [registers[source] for source in instruction.sources]
            sources = [_as(lane_, source) for lane_, source in zip(wanted, sources, strict=True)] if wanted else sources
            if not wanted:  # select: both sides are of one kind
                sources[1:] = _alike(sources[1:])
            if instruction.opcode in ("min", "max") and _unlike_zeros(*sources):
                return None
            if not wraps and instruction.opcode in _MAY_WRAP and _leaves_32_bits(instruction.opcode, sources):
                return None
            made = np.asarray(_COMPUTE[instruction.opcode](*sources))
            registers[instruction.target] = _truth(made) if lane is Lane.BOOL else made
    return [_as(lane, registers[place]) for place, lane in zip(code.results, code.result_lanes, strict=True)]


def _as(lane: Lane, source: Lanes) -> Lanes:
    """The same 32 bits as a register of this kind; constants come as integers."""
    kind = _F if lane is Lane.FLOAT else _I
    return source if source.dtype == kind else np.ascontiguousarray(source).view(kind).reshape(source.shape)


def _alike(sides: list[Lanes]) -> list[Lanes]:
    kinds = {side.dtype for side in sides}
    return [_as(Lane.FLOAT, side) for side in sides] if len(kinds) > 1 else sides


def _leaves_32_bits(opcode: str, sources: list[Lanes]) -> bool:
    wide = _COMPUTE[opcode](*(source.astype(np.int64) for source in sources))
    return bool(np.any(wide != wide.astype(_I)))


def _unlike_zeros(a: Lanes, b: Lanes) -> bool:
    return bool(np.any((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))))
