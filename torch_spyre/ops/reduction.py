"""Reductions: dims as aten gives them (none, one, several), keepdim, dtype=; variances after their mean."""

from __future__ import annotations

from math import isnan
from typing import Any

import torch

from openspyre.compiler.ir import Access, Dim, Iota, Op
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import MAX_RANK
from openspyre.spec.ops import Row
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, dtype_name, on_card
from torch_spyre.ops.plans import CallPlan

_KNOWN = {"self", "dim", "keepdim", "dtype", "out", "ord", "correction"}
_DEFAULTS = {"correction": 1}  # what a None means
_HALVES = (torch.float16, torch.bfloat16)


def serves(binding: Binding) -> bool:
    return {argument.name for argument in binding.arguments} <= _KNOWN


def compile_call(call: Call) -> CallPlan | None:
    row, x = _choose_row(call), call.given["self"]
    if row is None or not on_card(x) or x.dim() > MAX_RANK or torch.float64 in (o.dtype for o in call.outcomes):
        return None
    if not x.dtype.is_floating_point and not (row.integers or _cast_to(call, x)):
        return None
    done = call.plan_without_work()
    if done is not None:
        return done
    return _Reduction(call, row, x).plan() if x.numel() else _of_nothing(call, row)


def _of_nothing(call: Call, row: Row) -> CallPlan | None:
    """What the row says of no elements; where it says nothing, the CPU has the right error."""
    if row.of_nothing is None:
        return None
    builder = ProgramBuilder(call)
    for number, outcome in enumerate(call.outcomes):
        dims = tuple(Dim(f"d{i}", extent) for i, extent in enumerate(outcome.shape))
        still = (0,) * len(dims)
        operands: tuple[Iota, ...]
        if isnan(row.of_nothing):  # operands that count are whole numbers: 0 / 0
            name, operands = "div", (Iota(0, still), Iota(0, still))
        else:
            name, operands = "iota", (Iota(int(row.of_nothing), still),)
        builder.add(Op(f"of_nothing{number}", name, dims, operands, (builder.result(number=number),)))
    return builder.plan()


def _choose_row(call: Call) -> Row | None:
    for row in call.binding.rows:
        if all(_given(call, name, value) == value for name, value in row.fixed):
            return row
    return None


def _given(call: Call, name: str, value: Any) -> Any:
    given = call.given.get(name, value)
    return _DEFAULTS.get(name) if given is None else given


def _cast_to(call: Call, x: torch.Tensor) -> torch.dtype | None:
    """The dtype= a call asks for, if elements must become that first."""
    if call.given.get("dtype") is None:
        return None
    wanted = call.outcome.dtype
    exact = x.dtype in _HALVES and wanted is torch.float32
    return None if exact or wanted is x.dtype else wanted


class _Reduction:
    """The program of one call: a cast if asked for, the mean if the row wants it, the fold."""

    def __init__(self, call: Call, row: Row, x: torch.Tensor) -> None:
        self.call, self.row, self.x = call, row, x
        self.reduced = _reduced_dims(call, x)
        self.dims = tuple(Dim(f"d{i}", extent, reduced=i in self.reduced) for i, extent in enumerate(x.shape))
        self.builder = ProgramBuilder(call)

    def plan(self) -> CallPlan:
        operands = [self._operand()]
        if self.row.operands == 2:
            operands.append(self._mean(operands[0]))
        numbers = (0,) if self.row.operands == 2 else range(len(self.call.results))
        outputs = tuple(self.builder.result(self._result_strides(number), number) for number in numbers)
        if len(self.call.results) > len(outputs):
            self._store_mean(operands[1])
        self.builder.add(Op(self.row.name, self.row.name, self.dims, tuple(operands), outputs))
        return self.builder.plan()

    def _operand(self) -> Access:
        source = self.builder.read(self.x, self.x.stride())
        wanted = _cast_to(self.call, self.x)
        if wanted is None:
            return source
        return self._pointwise("cast", source, self._temp("cast", dtype_name(wanted), tuple(self.x.shape)))

    def _mean(self, source: Access) -> Access:
        """In fp32, with the reduced dims as dims of size 1."""
        size = tuple(1 if i in self.reduced else extent for i, extent in enumerate(self.x.shape))
        temp = self._temp("mean", "float32", size)
        self.builder.add(Op("mean", "mean", self.dims, (source,), (temp,)))
        return temp

    def _store_mean(self, mean: Access) -> None:
        self._pointwise("cast", mean, self.builder.result(self._result_strides(1), 1), kept_only=True)

    def _temp(self, name: str, dtype: str, size: tuple[int, ...]) -> Access:
        stride = row_major(size)
        self.builder.temp(name, dtype, size, stride)
        return Access(name, 0, tuple(0 if n == 1 else s for n, s in zip(size, stride, strict=True)), dtype)

    def _pointwise(self, row: str, source: Access, target: Access, *, kept_only: bool = False) -> Access:
        dims = tuple(Dim(d.name, 1 if kept_only and d.reduced else d.size) for d in self.dims)
        self.builder.add(Op(f"{row}{len(self.builder.ops)}", row, dims, (source,), (target,)))
        return target

    def _result_strides(self, number: int) -> tuple[int, ...]:
        """Of a result along the operand's dims: 0 along those that are gone or have size 1."""
        written = self.call.written
        strides = iter(self.call.results[number].stride if written is None else written.stride())
        keep = bool(self.call.given.get("keepdim", False))
        found = []
        for d in range(self.x.dim()):
            stride = next(strides) if keep or d not in self.reduced else 0
            found.append(0 if d in self.reduced else stride)
        return tuple(found)


def _reduced_dims(call: Call, x: torch.Tensor) -> set[int]:
    dim = call.given.get("dim")
    if dim is None or dim == []:
        return set(range(x.dim()))
    return {d % x.dim() for d in ([dim] if isinstance(dim, int) else dim)} if x.dim() else set()
