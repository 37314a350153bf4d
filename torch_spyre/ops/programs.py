"""From IR to a program on the card: passes, bundle, back end. Every eager call and every graph goes this way."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol

import torch

from openspyre import backend
from openspyre.artifact.emitted import Emitted
from openspyre.card import programs
from openspyre.card.cards import settings_in_force
from openspyre.clock import ClassTime, time_bundle
from openspyre.clock.counting import launch_work
from openspyre.compiler import pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.ir import Program
from openspyre.program import model as card_program
from openspyre.spec import progress
from openspyre.spec.counters import LaunchWork
from openspyre.spec.errors import InvalidArgument, SpyreError
from openspyre.spec.machine import SPYRE, Machine
from openspyre.spec.planning import LAYOUT_SOLVERS, PLANNERS, Planning
from openspyre.tools.saving import kept_programs
from torch_spyre._inductor import config
from torch_spyre.ops.described_steps import describe
from torch_spyre.ops.plans import ConstantTensor


class Watcher(Protocol):
    """Somebody who wants to see a compilation: for reports and debug directories."""

    def saw_pass(self, name: str, program: Program, seconds: float) -> None: ...
    def saw_bundle(self, emitted: Emitted, seconds: float) -> None: ...
    def saw_program(self, program: card_program.Program, seconds: float) -> None: ...
    def saw_refusal(self, problems: Sequence[str]) -> None: ...


_log = logging.getLogger("spyre.compiler")
_refused: Counter[str] = Counter()  # by program: fusions that were not taken
_plannings: dict[str, int] = {}  # options that programs were planned with, numbered
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program as the passes leave it, with its layouts; its bundle; what the card executes; and what a real one would take for it, and do."""

    lowered: Program
    emitted: Emitted
    program: card_program.Program
    predicted: tuple[ClassTime, ...]
    described: str
    work: LaunchWork


def compile_program(ir: Program, watcher: Watcher | None = None, *, fuse: bool = True) -> Compiled:
    """All the way, with fusion unless the user has switched it off."""
    lowered = pipeline.run(ir, planned_machine(), planning(), observe=None if watcher is None else watcher.saw_pass)
    start = perf_counter()
    progress.stage("emitting the bundle", f"{len(lowered.body)} ops")
    emitted = emit_bundle(lowered, k_fast=config.core_id_k_fast_emission)
    made = perf_counter()
    progress.stage("back end", f"{len(emitted.executions)} ops")
    fuse = fuse and settings_in_force().fusion
    fused = backend.fused_on_host(emitted) if fuse else backend.Fused(backend.compile_emitted(emitted))
    kept_programs.note(fused.program, emitted)
    if fused.problems:
        _refused[ir.name] += 1
    if watcher is not None:
        watcher.saw_bundle(emitted, made - start)
        watcher.saw_program(fused.program, perf_counter() - made)
        if fused.problems:
            watcher.saw_refusal(fused.problems)
    machine = settings_in_force().machine
    timing = time_bundle(emitted, machine)
    described = describe(emitted, timing, fused.program, fused.members, machine)
    work = launch_work(emitted, timing, machine)
    return Compiled(lowered, emitted, fused.program, timing.by_class(), described, work)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A program on the card: its number, the bytes of its pool, and the constants it takes behind its other tensors."""

    number: int
    pool_bytes: int
    tensors: tuple[ConstantTensor, ...]
    predicted: tuple[ClassTime, ...]
    described: str


def constant_tensors(lowered: Program) -> tuple[ConstantTensor, ...]:
    """In the order in which the emitter makes arguments of them."""
    return tuple(
        ConstantTensor(getattr(torch, b.dtype), b.size, b.stride, b.layout, b.values)
        for b in lowered.buffers
        if b.values is not None and b.layout is not None
    )


def load(ir: Program) -> Loaded:
    """Compile and load."""
    compiled = compile_program(ir)
    tensors = constant_tensors(compiled.lowered)
    try:
        number = programs.load(compiled.program, compiled.work).number
        return Loaded(number, compiled.program.pool_bytes, tensors, compiled.predicted, compiled.described)
    except SpyreError as refusal:
        if not settings_in_force().fusion:
            raise
        unfused = backend.compile_emitted(compiled.emitted)
        kept_programs.note(unfused, compiled.emitted)
        number = programs.load(unfused, compiled.work).number
        note_refusal(ir.name, refusal)
    machine = settings_in_force().machine
    described = describe(compiled.emitted, time_bundle(compiled.emitted, machine), unfused, {}, machine)
    return Loaded(number, unfused.pool_bytes, tensors, compiled.predicted, described)


def note_refusal(name: str, refusal: SpyreError) -> None:
    """The card refused a program that it takes without fusion."""
    _refused[name] += 1
    _log.warning("program %r runs without fusion, because the card refused what fusion made: %s", name, refusal)


def refused_fusions() -> dict[str, int]:
    """Programs that run without fusion because what it made of them was wrong: each is a defect of ours."""
    return dict(_refused)


def planned_machine() -> Machine:
    """The card as work is planned for it."""
    if not 1 <= config.sencores <= SPYRE.cores:
        raise InvalidArgument(f"config.sencores is {config.sencores}: a card has 1 to {SPYRE.cores} cores to plan for")
    if not 0 <= config.dxp_lx_frac_avail <= 1:
        raise InvalidArgument(f"config.dxp_lx_frac_avail is {config.dxp_lx_frac_avail}: it is a fraction, from 0 to 1")
    machine = settings_in_force().machine
    return replace(machine, cores=config.sencores, scratchpad_reserved_fraction=config.dxp_lx_frac_avail)


def planning() -> Planning:
    """How programs are planned now."""
    if config.layout_solver not in LAYOUT_SOLVERS:
        raise InvalidArgument(f"config.layout_solver is {config.layout_solver!r}: one of {', '.join(LAYOUT_SOLVERS)}")
    if config.planner not in PLANNERS:
        raise InvalidArgument(f"config.planner is {config.planner!r}: one of {', '.join(PLANNERS)}")
    ignore_hints = config.ignore_hints or config.ignore_work_division_hints
    return Planning(
        strategy=config.planner,
        scratchpads=config.lx_planning,
        solver=config.layout_solver,
        relayout=config.lx_planner_relayout,
        all_ops=config.allow_all_ops_in_lx_planning,
        pool=config.hbm_pool_planning and config.hbm_planning,
        co_optimise=config.co_optimizing_lx_planning,
        k_fast=config.core_id_k_fast_emission,
        ignore_hints=ignore_hints,
        reduction_tiling=config.enable_reduction_tiling,
        span_tiling=not (config.ignore_span_overflow_hints or ignore_hints),
        clock_tiling=config.clock_tiling,
        whole_layouts=config.global_stick_optimizer,
        drop_copies=not config.disable_copy_opt,
    )


def plan_text() -> str:
    """All options that decide what becomes of a program, for names in caches."""
    return f"{planned_machine()} {planning()} fusion={settings_in_force().fusion}"


def planning_number() -> int:
    """The same number for the same options: launches find their programs by it."""
    return _plannings.setdefault(plan_text(), next(_numbers))
