"""Records the inner function of one Inductor operation as a list of single steps, with affine accesses.

Inductor's body calls `ops.load`, `ops.add`, ... on a handler; ours answers with numbered values and keeps what was asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from openspyre.spec.ops import TABLE, Kind, Promotion, Row
from torch_spyre.inductor.border import DefaultHandler


class NotImportable(Exception):
    """Something in a body that our IR cannot say; the operation stays with Inductor and the reason goes into the report."""


ROW_BY_INDUCTOR_NAME: dict[str, Row] = {
    name: row for row in TABLE.values() if row.kind is Kind.POINTWISE for name in row.inductor
}
REDUCTION_BY_NAME: dict[str, str] = {"sum": "sum", "max": "amax", "min": "amin", "prod": "prod", "any": "any",
                                     "argmax": "argmax", "argmin": "argmin"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Index:
    """A flat host offset: offset + sum(strides[d] * index[d]) over the body's variables."""

    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the body. `name` is "load", "constant", "index" or the name of a row."""

    name: str
    dtype: torch.dtype
    arguments: tuple[Value, ...] = ()
    buffer: str = ""
    index: Index | None = None
    number: float = 0.0


@dataclass(slots=True)
class Recording:
    """What a body did: one value stored to one buffer, perhaps through a reduction."""

    variables: list[sympy.Symbol]
    stored: list[tuple[str, Index, Value, str | None]] = field(default_factory=list)

    def affine(self, expression: Any) -> Index:
        expression = sympy.expand(expression)
        strides = []
        for variable in self.variables:
            step = expression.coeff(variable)
            strides.append(step)
            expression = expression - step * variable
        expression = sympy.expand(expression)
        if not expression.is_Integer or not all(step.is_Integer for step in strides):
            raise NotImportable(f"index {expression} is not affine with constant steps")
        if int(expression) < 0 or any(step < 0 for step in strides):
            raise NotImportable("an index runs backwards")
        return Index(int(expression), tuple(int(step) for step in strides))


class Recorder(DefaultHandler):  # type: ignore[misc, valid-type]
    """The handler under which a body runs."""

    def __init__(self, recording: Recording, dtype_of: Any) -> None:
        self.recording = recording
        self.dtype_of = dtype_of  # buffer name -> torch dtype

    def load(self, name: str, index: Any) -> Value:
        return Value("load", self.dtype_of(name), buffer=name, index=self.recording.affine(index))

    def constant(self, value: Any, dtype: torch.dtype) -> Value:
        return Value("constant", dtype, number=value)

    def index_expr(self, expression: Any, dtype: torch.dtype) -> Value:
        return Value("index", dtype, index=self.recording.affine(expression))

    def to_dtype(self, x: Value, dtype: torch.dtype, src_dtype: Any = None, use_compute_types: bool = True) -> Value:
        return x if x.dtype is dtype else Value("convert", dtype, (x,))

    def store(self, name: str, index: Any, value: Value, mode: Any = None) -> None:
        if mode is not None:
            raise NotImportable(f"a store with mode {mode}")
        self.recording.stored.append((name, self.recording.affine(index), value, None))

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any) -> Value:
        if reduction_type not in REDUCTION_BY_NAME or not isinstance(value, Value):
            raise NotImportable(f"a reduction of type {reduction_type}")
        return Value(REDUCTION_BY_NAME[reduction_type], dtype, (value,))

    def store_reduction(self, name: str, index: Any, value: Value) -> None:
        self.recording.stored.append((name, self.recording.affine(index), value, value.name))

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
        row = ROW_BY_INDUCTOR_NAME.get(name)
        if row is None or kwargs or not all(isinstance(a, Value) for a in args) or len(args) != row.operands:
            raise NotImportable(f"the op table has no row for Inductor's ops.{name}")
        return Value(row.name, _result_dtype(row, args), args)


def _result_dtype(row: Row, args: tuple[Value, ...]) -> torch.dtype:
    common = torch.bool  # promotes to anything, so a condition among the operands decides nothing
    for operand in args:
        common = torch.promote_types(common, operand.dtype)
    if row.promotion in (Promotion.COMPARE, Promotion.BOOL):
        return torch.bool
    if row.promotion is Promotion.INT_TO_FLOAT and not common.is_floating_point:
        return torch.get_default_dtype()
    return common
