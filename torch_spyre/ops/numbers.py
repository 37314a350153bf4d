"""How a number of the host becomes an integer of the card: the rules of torch's CPU for the dtype that is computed in (N8).

The C++ half has the same rules for what each launch brings (csrc/torch/operators/encode.cpp); here they serve the constants of graphs.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from openspyre.spec.encodings import sen169_decode, sen169_encode
from openspyre.spec.launch_numbers import Rule

_BITS = {torch.int8: 8, torch.uint8: 8, torch.int16: 16, torch.int32: 32}
_INT32, _INT64 = torch.iinfo(torch.int32), torch.iinfo(torch.int64)
_ENDS = {_INT64.min: _INT32.min, _INT64.max: _INT32.max}


def integer_encoding(dtype: torch.dtype, *, checked: bool = False, ends: bool = False, divisor: bool = False) -> str:
    """How a launch writes a number that is used in this dtype. int64 is always checked, against the card's int32."""
    if dtype in _BITS:
        name, rule = str(dtype).removeprefix("torch."), Rule.CHECKED if checked else Rule.CUT
    else:
        name, rule = "int64", Rule.ENDS if ends else Rule.CUT
    return name + (Rule.DIVISOR if divisor and not checked else rule)


def integer_of(number: float, encoding: str) -> int | None:
    """The integer that a launch would write; None where it would refuse."""
    name, _, rule = encoding.partition("_")
    dtype = getattr(torch, name)
    if isinstance(number, float) and not _holds_real(number, dtype, checked=rule == "checked"):
        return None
    whole = int(number)
    if rule == "ends":
        whole = _ENDS.get(whole, whole)
    if (rule == "checked" or dtype not in _BITS) and not _holds(whole, dtype):
        return None
    held = _cut(whole, dtype)
    return None if rule == "divisor" and held == 0 else held


def word_of(number: float, dtype: str) -> int:
    """A number in a register: rounded to the op's format first, as every scalar is (contract N7)."""
    if dtype == "int32":
        return int(number) & 0xFFFFFFFF
    value = np.float32(number)
    if dtype == "float16" and np.isfinite(value):
        value = np.float32(sen169_decode(sen169_encode(value)))
    return int(value.view(np.uint32))


def _range(dtype: torch.dtype) -> torch.iinfo:
    return torch.iinfo(dtype) if dtype in _BITS else _INT32


def _holds(whole: int, dtype: torch.dtype) -> bool:
    limits = _range(dtype)
    return (limits.min or -limits.max) <= whole <= limits.max  # torch takes -x for an unsigned number where it takes x


def _holds_real(number: float, dtype: torch.dtype, *, checked: bool) -> bool:
    """Of narrow integers torch asks before it truncates."""
    if not math.isfinite(number):
        return False
    limits = _range(dtype) if checked else _INT32
    return limits.min <= (number if checked and dtype in _BITS else math.trunc(number)) <= limits.max


def _cut(whole: int, dtype: torch.dtype) -> int:
    bits = _BITS.get(dtype, 32)
    low = whole & ((1 << bits) - 1)
    return low - (1 << bits) if dtype is not torch.uint8 and low >> (bits - 1) else low
