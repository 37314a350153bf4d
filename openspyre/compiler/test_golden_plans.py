"""What both strategies plan for a dozen graphs, as text: slices, what stays in the scratchpads, and the clock's times.

`make golden` accepts what they plan now and shows what changed. The graphs are those of models, before any pass.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import prod
from pathlib import Path

import pytest

from openspyre.compiler import pipeline
from openspyre.compiler.ir import Access, Buffer, InPool, InScratchpad, Op, Program
from openspyre.compiler.loops import listed
from openspyre.compiler.passes.plan_by_clock import PlanByClock, time_program
from openspyre.compiler.scratchpad.exact import exact
from openspyre.compiler.scratchpad.planning import requests_of
from openspyre.compiler.scratchpad.request import Room
from openspyre.compiler.text import parse_program
from openspyre.spec.machine import SPYRE
from openspyre.spec.planning import PLANNERS, Planning

PLANS = Path(__file__).parent / "golden" / "plans"
GRAPHS = sorted(PLANS.glob("*.ir"))


def planned(source: Path, strategy: str) -> Program:
    return pipeline.run(parse_program(source.read_text()), SPYRE, Planning(strategy=strategy), verify=True)


def plan_text(program: Program) -> Iterator[str]:
    """A line per op: how often a loop runs it, its dims with their slices, and where each of its tensors lies."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    timing = time_program(program, SPYRE)
    inside = [buffer.name for buffer in program.buffers if isinstance(buffer.place, InScratchpad)]
    yield f"{timing.card_us:.1f} us, {len(inside)} tensors in scratchpads, a pool of {program.pool_bytes} bytes"
    for (op, counts), step in zip(listed(program.body), timing.steps, strict=True):
        often = f" x{prod(counts)}" if counts else ""
        yield f"{step.time_us:9.1f}  {op.name}{often} {_dims(op)}  {_places(op, buffers)}"


def _dims(op: Op) -> str:
    return " ".join(
        f"{dim.name}{'*' if dim.reduced else ''} {dim.size}" + (f"/{dim.split}" if dim.split > 1 else "")
        for dim in op.dims
        if dim.size > 1
    )


def _places(op: Op, buffers: dict[str, Buffer]) -> str:
    reads = [_place(buffers[operand.buffer]) for operand in op.inputs if isinstance(operand, Access)]
    return f"{', '.join(reads)} -> {', '.join(_place(buffers[access.buffer]) for access in op.outputs)}"


def _place(buffer: Buffer) -> str:
    match buffer.place:
        case InScratchpad(byte):
            return f"{buffer.name}@{byte}"
        case InPool():
            return f"{buffer.name} (pool)"
    return buffer.name


def text_of(source: Path) -> str:
    parts = [f"## {strategy}: {chr(10).join(plan_text(planned(source, strategy)))}\n" for strategy in PLANNERS]
    return "\n".join(parts)


@pytest.mark.parametrize("source", GRAPHS, ids=lambda path: path.stem)
def test_both_strategies_plan_what_they_planned(source: Path) -> None:
    known, made = source.with_suffix(".plan.txt"), text_of(source)
    if os.environ.get("OPENSPYRE_GOLDEN") == "accept":
        known.write_text(made)
    assert made == known.read_text(), f"{known.name} differs: see `make golden`"


def ratio(source: Path) -> float:
    """Predicted times of the strategies: `timed` to `documented`."""
    times = {name: time_program(planned(source, name), SPYRE).card_us for name in PLANNERS}
    return times["timed"] / times["documented"]


@pytest.mark.parametrize("source", GRAPHS, ids=lambda path: path.stem)
def test_plans_by_the_clock_are_never_slower(source: Path) -> None:
    assert ratio(source) <= 1


def test_tiles_by_the_clock_are_faster_by_more_than_it_may_err() -> None:
    """Whole plans, whatever was said of the chains in them; those without tiles are the same."""
    tiled = []
    for source in GRAPHS:
        program = parse_program(source.read_text())
        plans = [pipeline.run(program, SPYRE, Planning(clock_tiling=on)) for on in (False, True)]
        if plans[0] != plans[1]:
            tiled.append(source.stem)
            before, after = (time_program(plan, SPYRE) for plan in plans)
            assert before.card_us - after.card_us > before.band * before.card_us
    assert tiled == ["attention_unmasked_2048", "gelu_mlp_8192"]


def test_plans_by_the_clock_are_faster_by_a_fifth() -> None:
    """The geometric mean over the graphs that were asked for."""
    names = ["softmax", "layer_norm", "swiglu", "attention_512", "attention_2048", "attention_decode", "granite_layer"]
    found = [ratio(PLANS / f"{name}.ir") for name in names]
    assert prod(found) ** (1 / len(found)) < 0.8


@pytest.mark.parametrize("source", GRAPHS, ids=lambda path: path.stem)
def test_no_plan_of_these_divisions_keeps_more(source: Path) -> None:
    """The exact solver proves it, in steps that it counts itself."""
    program = parse_program(source.read_text())
    steps = pipeline.passes(SPYRE, Planning())
    for step in steps[: next(n for n, step in enumerate(steps) if isinstance(step, PlanByClock))]:
        program = step.run(program)
    requests = requests_of(PlanByClock().divided(program), relayout=True, all_ops=True, k_fast=True)
    assert exact(requests, Room(SPYRE.scratchpad_planned_bytes_per_core)).proven
