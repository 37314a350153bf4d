"""Eager operators from the op table: which overloads of aten they serve, and how the first call of a key is compiled.

A call becomes an IR program of one op, goes through the same passes, bundle and back end as a graph, and its plan is kept
by the C++ half, which launches further calls of the same key without Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from openspyre.spec.ops import TABLE, Kind, Row
from torch_spyre import _torch
from torch_spyre.ops import (
    attention_layers,
    creation,
    indexed,
    linear,
    movement,
    norm_gradients,
    ordered,
    pointwise,
    reduction,
    rows,
)
from torch_spyre.ops.calls import Argument, Binding, Call
from torch_spyre.ops.plans import CallPlan


class Lowering(NamedTuple):
    """How calls of one kind of row are compiled."""

    serves: Callable[[Binding], bool]
    compile_call: Callable[[Call], CallPlan | None]


_LOWERINGS: dict[Kind, Lowering] = {
    Kind.POINTWISE: Lowering(pointwise.serves, pointwise.compile_call),
    Kind.REDUCTION: Lowering(reduction.serves, reduction.compile_call),
    Kind.ROWS: Lowering(rows.serves, rows.compile_call),
    Kind.CONTRACTION: Lowering(linear.serves, linear.compile_call),
    Kind.MOVEMENT: Lowering(movement.serves, movement.compile_call),
    Kind.CREATION: Lowering(creation.serves, creation.compile_call),
    Kind.INDEXED: Lowering(indexed.serves, indexed.compile_call),
    Kind.SCAN: Lowering(ordered.serves, ordered.compile_call),
    Kind.SORT: Lowering(ordered.serves, ordered.compile_call),
}
_bindings: dict[str, tuple[Binding, Lowering]] = {}


def register() -> None:
    """Give the dispatcher our kernels: once, when the device is first used."""
    served: dict[str, list[Row]] = {}
    for row in TABLE.values():
        for name in row.aten if row.kind in _LOWERINGS else ():
            served.setdefault(name, []).append(row)
    for name, candidates in served.items():
        lowering = _LOWERINGS[candidates[0].kind]
        for overload in _overloads(name, pointwise=candidates[0].kind is Kind.POINTWISE):
            _register(overload, tuple(candidates), lowering)
    norm_gradients.register()
    attention_layers.register()


def _overloads(name: str, *, pointwise: bool) -> Iterator[Any]:
    """A pointwise name stands for all its overloads, in-place and out= included; any other name for itself."""
    base, _, only = name.partition(".")
    for base_name in (base, base + "_") if pointwise else (base,):
        packet = getattr(torch.ops.aten, base_name, None)
        for overload in packet.overloads() if packet is not None else ():
            wanted = (
                not only or overload in (only, "out", f"{only}_out") if pointwise else overload == (only or "default")
            )
            if wanted:
                yield getattr(packet, overload)


def _register(overload: Any, rows: tuple[Row, ...], lowering: Lowering) -> None:
    schema = overload._schema
    name = schema.name.removeprefix("aten::") + (f".{schema.overload_name}" if schema.overload_name else "")
    binding = Binding(overload, tuple(_argument(argument) for argument in schema.arguments), rows)
    if name in _bindings or not lowering.serves(binding):
        return
    chosen_by = {name for row in rows for name, value in row.fixed if value is not None}
    chosen_by |= {name for row in rows for name in row.static_scalars}
    dynamic = [argument.name for argument in binding.arguments if argument.is_scalar and argument.name not in chosen_by]
    if _torch.register_eager(name, dynamic):
        _bindings[name] = binding, lowering


def _argument(argument: Any) -> Argument:
    kind = str(argument.type)
    return Argument(
        name=argument.name,
        is_tensor=kind in ("Tensor", "Optional[Tensor]"),
        is_scalar=kind in ("number", "Optional[number]"),
        written=argument.alias_info is not None and argument.alias_info.is_write,
        keyword=argument.kwarg_only,
    )


def compile_call(operator: str, values: list[Any]) -> CallPlan | None:
    """The plan of a call, or None where only the CPU can do it. Errors of the call itself are torch's own."""
    binding, lowering = _bindings[operator.removeprefix("aten::")]
    try:
        return lowering.compile_call(Call(binding, values))
    except NotImplementedError:
        return None  # torch cannot tell the result's shape from the operands' shapes alone (a boolean index)


def binding_of(target: str) -> tuple[Binding, Lowering] | None:
    """What serves an overload written as in graphs, "aten.add.Tensor"."""
    return _bindings.get(target.removeprefix("aten.").removesuffix(".default"))


def counts() -> dict[str, int]:
    """Launches, compilations, and programs kept."""
    launches, compilations, programs = _torch.eager_counts()
    return {"launches": launches, "compilations": compilations, "programs": programs}
