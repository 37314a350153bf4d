"""How a row of the op table is called through torch.ops.aten, and on operands of which shapes."""

from dataclasses import dataclass

import torch

from openspyre.spec.ops import TABLE, Kind
from openspyre.spec.ops.expression import Lane, trace

_PARAMETERS = {  # parameters that a launch supplies
    "alpha": 1.5, "beta": 2.0, "threshold": 3.0, "negative_slope": 0.125, "value": -0.75, "min_val": -1.0, "max_val": 1.25,
    "lambd": 0.5, "scale": 1.5, "input_scale": 0.5,
}  # fmt: skip
_OPERANDS = {"elu_backward": ("grad_output", "self_or_result")}  # operands that are not aten's first arguments
_EXACT = {"add", "sub", "mul", "div", "fma", "sqrt"}  # correctly rounded (N3)
_NO_ROUNDING = {
    "min", "max", "neg", "abs", "floor", "ceil", "round", "trunc", "select", "is_nan", "is_inf", "sign_bit", "fmod",
    "float_to_bool", "bool_to_float", "int_to_bool", "float_to_int", "int_to_float", "copy",
}  # fmt: skip


@dataclass(frozen=True)
class Rounding:
    """How near a row's float32 results are: `fp32_ulps`, and whether the argument's own last bit counts, too."""

    fp32_ulps: int
    composite: bool


def rows(kind):
    return [row for row in TABLE.values() if row.kind is kind and row.aten]


def packet(row, suffix=""):
    """The row's operator, which takes its operands first."""
    operator = getattr(torch.ops.aten, row.aten[0].split(".")[0] + suffix)
    names = _OPERANDS.get(row.name)
    if names is None:
        return operator
    return lambda *operands, **parameters: operator(**dict(zip(names, operands, strict=True)), **parameters)


def has_in_place(row):
    return row.kind is Kind.POINTWISE and hasattr(torch.ops.aten, row.aten[0].split(".")[0] + "_")


def has_out(row):
    overloads = getattr(torch.ops.aten, row.aten[0].split(".")[0]).overloads()
    return any("out" in overload for overload in overloads)


def parameters(row, dtype=torch.float16):
    """Keyword arguments that choose this row."""
    whole = not dtype.is_floating_point
    chosen = {name: value for name, value in row.fixed if value is not None}
    return chosen | {name: int(_PARAMETERS[name] * 2) if whole else _PARAMETERS[name] for name in row.scalars}


def rounding(row):
    """Read off the row's expression: one rounding is exact, one function is N7's, more are a composite."""
    if not row.floats:
        return Rounding(0, composite=False)
    lanes = (Lane.FLOAT,) * (row.operands + len(row.scalars))
    used = [step.opcode for step in trace(row.body, lanes).instructions]
    roundings = [opcode for opcode in used if opcode not in _NO_ROUNDING and opcode[-2:] not in ("_f", "_i")]
    if len(roundings) <= 1 and row.composite is None:
        return Rounding(0 if set(roundings) <= _EXACT else 2, composite=False)
    return Rounding(2 * row.ulps + 2, composite=True)
