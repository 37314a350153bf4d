"""Eager operators from the op table: which overloads of aten they serve, and how the first call of a key is compiled.

A call becomes an IR program of one op, goes through the same passes, bundle and back end as a graph, and its plan is kept
by the C++ half, which launches further calls of the same key without Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch

from openspyre.spec.ops import TABLE, Kind, Row
from torch_spyre import _torch
from torch_spyre.ops import (
    compilations,
    composed,
    creation,
    indexed,
    linear,
    movement,
    ordered,
    pointwise,
    random,
    reduction,
    rows,
    scattered,
)
from torch_spyre.ops.calls import Argument, Binding, Call
from torch_spyre.ops.plans import CallPlan
from torch_spyre.ops.programs import plan_text


class ScalarKey(NamedTuple):
    """What of a launch scalar still chooses the program: values with a row of their own, and the sign (csrc/torch/operators/scalar_key.h)."""

    special: tuple[float, ...]
    by_sign: bool


class Lowering(NamedTuple):
    """How calls of one kind of row are compiled."""

    serves: Callable[[Binding], bool]
    compile_call: Callable[[Call], CallPlan | None]
    by_name: Mapping[str, Callable[..., Any]] = {}  # what is done for an operator, where it is not the same for all
    eager: bool = (
        True  # False: the C++ half copies without a program (csrc/torch/operators/moves.cpp); graphs compile it
    )


_LOWERINGS: dict[Kind, Lowering] = {
    Kind.POINTWISE: Lowering(pointwise.serves, pointwise.compile_call),
    Kind.REDUCTION: Lowering(reduction.serves, reduction.compile_call),
    Kind.ROWS: Lowering(rows.serves, rows.compile_call),
    Kind.CONTRACTION: Lowering(linear.serves, linear.compile_call),
    Kind.MOVEMENT: Lowering(movement.serves, movement.compile_call, eager=False),
    Kind.CREATION: Lowering(creation.serves, creation.compile_call, creation.OPERANDS),
    Kind.RANDOM: Lowering(random.serves, random.compile_call),
    Kind.INDEXED: Lowering(indexed.serves, indexed.compile_call, indexed.GATHERS | scattered.SCATTERS),
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
    composed.register()


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
    if not lowering.eager or _torch.register_eager(name, _supplied_at_launch(binding)):
        _bindings[name] = binding, lowering


def _supplied_at_launch(binding: Binding) -> dict[str, ScalarKey]:
    """Numbers that a program takes at its launch: aten's Scalars, and those of another type that a row lists."""
    listed = {name for row in binding.rows for name in row.scalars}
    return {
        argument.name: ScalarKey(
            tuple(float(value) for row in binding.rows for name, value in row.fixed
                  if name == argument.name and isinstance(value, (int, float))),
            any(argument.name in row.sign_matters for row in binding.rows),
        )
        for argument in binding.arguments
        if argument.is_scalar or argument.name in listed
    }  # fmt: skip


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
    call = Call(binding, values)
    compilations.note(operator, _facts(call))
    try:
        return lowering.compile_call(call)
    except NotImplementedError:
        return None  # torch cannot tell the result's shape from the operands' shapes alone (a boolean index)


def _facts(call: Call) -> dict[str, object]:
    """What chooses the program, for whoever asks why there is another."""
    return {
        "dtypes": tuple(str(tensor.dtype) for tensor in call.tensors),
        "sizes": tuple(tuple(tensor.shape) for tensor in call.tensors),
        "strides": tuple(tensor.stride() for tensor in call.tensors),
        "arguments": repr([value for value in call.values if not isinstance(value, torch.Tensor | list)]),
        "layouts": tuple(_torch.layout_of(tensor)[0] for tensor in call.tensors),
        "offsets": tuple(tensor.storage_offset() for tensor in call.tensors),
        "options": plan_text(),
    }


def binding_of(target: str) -> tuple[Binding, Lowering] | None:
    """What serves an overload written as in graphs, "aten.add.Tensor"."""
    return _bindings.get(target.removeprefix("aten.").removesuffix(".default"))


def bindings() -> Mapping[str, tuple[Binding, Lowering]]:
    """Every overload that is lowered, by its name."""
    return _bindings


def counts() -> dict[str, int]:
    """Launches, compilations, and programs kept."""
    launches, compilations, programs = _torch.eager_counts()
    return {"launches": launches, "compilations": compilations, "programs": programs}
