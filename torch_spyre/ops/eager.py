"""Eager operators from the op table: which overloads of aten they serve, and how the first call of a key is compiled.

A call becomes an IR program of one op, goes through the same passes, bundle and back end as a graph, and its plan is kept
by the C++ half, which launches further calls of the same key without Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from openspyre.spec.ops import TABLE, Kind, Row
from torch_spyre import _torch
from torch_spyre.ops import pointwise
from torch_spyre.ops.plans import CallPlan


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an overload, as its schema has it."""

    name: str
    is_tensor: bool
    is_scalar: bool
    written: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """An overload and the rows that may serve it, tried in order."""

    overload: Any
    arguments: tuple[Argument, ...]
    rows: tuple[Row, ...]


_bindings: dict[str, Binding] = {}


def register() -> None:
    """Give the dispatcher our kernels: once, when the device is first used."""
    rows: dict[str, list[Row]] = {}
    for row in TABLE.values():
        if row.kind is Kind.POINTWISE:
            for name in row.aten:
                rows.setdefault(name, []).append(row)
    for name, candidates in rows.items():
        base, _, only = name.partition(".")
        for base_name in (base, base + "_"):
            packet = getattr(torch.ops.aten, base_name, None)
            for overload_name in packet.overloads() if packet is not None else ():
                if only and overload_name not in (only, "out", f"{only}_out") and base_name == base:
                    continue
                _register(getattr(packet, overload_name), tuple(candidates))


def _register(overload: Any, rows: tuple[Row, ...]) -> None:
    binding = _bind(overload, rows)
    name = overload._schema.name.removeprefix("aten::") + ("." + overload._schema.overload_name if overload._schema.overload_name else "")
    if binding is None or name in _bindings or not pointwise.serves(binding):
        return
    _bindings[name] = binding
    dynamic = [a.name for a in binding.arguments if a.is_scalar]
    _torch.register_eager(name, dynamic)


def _bind(overload: Any, rows: tuple[Row, ...]) -> Binding | None:
    arguments = []
    for argument in overload._schema.arguments:
        kind = str(argument.type)
        written = argument.alias_info is not None and argument.alias_info.is_write
        arguments.append(Argument(argument.name, kind in ("Tensor", "Optional[Tensor]"), kind in ("number", "Optional[number]"), written))
    return Binding(overload, tuple(arguments), rows)


def compile_call(operator: str, values: list[Any]) -> CallPlan | None:
    """The plan of a call, or None where only the CPU can do it. Errors of the call itself are torch's own."""
    return pointwise.compile_call(_bindings[operator.removeprefix("aten::")], values)


def counts() -> dict[str, int]:
    """Launches, compilations and programs kept."""
    launches, compilations, programs = _torch.eager_counts()
    return {"launches": launches, "compilations": compilations, "programs": programs}
