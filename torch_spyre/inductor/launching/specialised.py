"""A graph specialised for a launch, and its text: what the disk cache keeps, so that another process compiles nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch

from openspyre.card import programs
from openspyre.clock import ClassTime
from openspyre.program.lines import InvalidProgram
from openspyre.program.model import Program
from openspyre.program.text import parse_program, print_program
from openspyre.spec.counters import LaunchWork, words
from openspyre.spec.errors import SpyreError
from openspyre.spec.formats import DataFormats, ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.packing import packed, unpacked, value_bytes
from torch_spyre.inductor.launching.parameters import Preference
from torch_spyre.ops.calls import dtype_name
from torch_spyre.ops.kernel_provenance import register_provenance
from torch_spyre.ops.plans import CallPlan, ConstantTensor, ResultPlan


@dataclass(frozen=True, slots=True)
class Specialised:
    """The program, and how the launch's tensors meet it (as in CallPlan). `program` None: there is nothing to compute.

    `preferred`: how inputs should lie so that the program would not move them first. `found`: it comes from the disk.
    """

    program: Program | None
    symbols: tuple[int, ...]
    offsets: tuple[int, ...]
    results: tuple[ResultPlan, ...]
    constants: tuple[int, ...]
    numbers: tuple[tuple[int, str], ...]
    fixed: tuple[int, ...]
    preferred: tuple[Preference, ...] = ()
    draws: tuple[int, ...] = ()
    tensors: tuple[ConstantTensor, ...] = ()
    predicted: tuple[ClassTime, ...] = ()
    described: str = ""
    work: LaunchWork | None = None
    found: bool = False

    def load(self, shapes: tuple[int, ...]) -> CallPlan:
        """On the card, as the C++ cache keeps it; `shapes` are the inputs' buffers' that it is for."""
        register_provenance(self.described)
        return CallPlan(
            programs.load(self.program, self.work).number if self.program is not None else 0,
            self.symbols,
            self.offsets,
            self.numbers,
            self.results,
            pool_bytes=self.program.pool_bytes if self.program is not None else 0,
            constants=self.constants,
            fixed=self.fixed,
            shapes=shapes,
            draws=self.draws,
            tensors=self.tensors,
            predicted=self.predicted,
            described=self.described,
        )


def to_text(plan: Specialised, facts: dict[str, Any]) -> str:
    """`facts` are what a report tells of the plan."""
    head = {
        "facts": facts,
        "symbols": plan.symbols,
        "offsets": plan.offsets,
        "results": [_result_fields(result) for result in plan.results],
        "constants": plan.constants,
        "numbers": plan.numbers,
        "fixed": plan.fixed,
        "draws": plan.draws,
        "preferred": [[place, _layout_fields(layout)] for place, layout in plan.preferred],
        "tensors": [_tensor_fields(tensor) for tensor in plan.tensors],
        "predicted": plan.predicted,
        "described": plan.described,
        "work": plan.work and words(plan.work),
    }
    return json.dumps(head) + "\n" + (print_program(plan.program) if plan.program is not None else "")


def from_text(text: str) -> tuple[Specialised, dict[str, Any]] | None:
    """The plan and its facts; None if the text states no plan."""
    first, _, program = text.partition("\n")
    try:
        head = json.loads(first)
        plan = Specialised(
            parse_program(program) if program else None,
            tuple(map(int, head["symbols"])),
            tuple(map(int, head["offsets"])),
            tuple(_result(fields) for fields in head["results"]),
            tuple(map(int, head["constants"])),
            tuple((int(place), str(encoding)) for place, encoding in head["numbers"]),
            tuple(map(int, head["fixed"])),
            tuple((int(place), _layout(*layout)) for place, layout in head["preferred"]),
            tuple(map(int, head["draws"])),
            tuple(_tensor(*fields) for fields in head["tensors"]),
            tuple(ClassTime(str(name), float(us), float(off)) for name, us, off in head["predicted"]),
            str(head["described"]),
            head["work"] and LaunchWork(*map(int, head["work"])),
            found=True,
        )
        return plan, dict(head["facts"])
    except (ValueError, KeyError, TypeError, AttributeError, InvalidProgram, SpyreError):
        return None


def _result_fields(result: ResultPlan) -> list[Any]:
    layout = result.layout and _layout_fields(result.layout)
    return [result.argument, dtype_name(result.dtype), result.size, result.stride, layout]


def _tensor_fields(tensor: ConstantTensor) -> list[Any]:
    return [dtype_name(tensor.dtype), tensor.size, tensor.stride, _layout_fields(tensor.layout), packed(tensor.values)]


def _tensor(dtype: str, size: list[int], stride: list[int], layout: list[Any], values: str) -> ConstantTensor:
    held = unpacked(values, value_bytes(size, stride, dtype))
    return ConstantTensor(getattr(torch, dtype), tuple(size), tuple(stride), _layout(*layout), held)


def _layout_fields(layout: SpyreTensorLayout) -> list[Any]:
    return [layout.device_size, layout.stride_map, layout.device_dtype.name, layout.element_arrangement.name]


def _result(fields: list[Any]) -> ResultPlan:
    argument, dtype, size, stride, layout = fields
    if not isinstance(getattr(torch, dtype), torch.dtype):
        raise ValueError(f"{dtype} is no dtype")
    return ResultPlan(int(argument), getattr(torch, dtype), tuple(size), tuple(stride), layout and _layout(*layout))


def _layout(device_size: list[int], stride_map: list[int], data_format: str, arrangement: str) -> SpyreTensorLayout:
    return SpyreTensorLayout(device_size, stride_map, DataFormats[data_format], ElementArrangement[arrangement])
