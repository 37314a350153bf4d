"""Plans of the two strategies side by side: predicted times, what changed, and what the exact solver can prove."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from time import perf_counter

from openspyre.clock import time_bundle
from openspyre.compiler import pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.ir import InScratchpad, Loop, Program
from openspyre.compiler.loops import listed
from openspyre.compiler.passes.plan_by_clock import PlanByClock
from openspyre.compiler.scratchpad.exact import exact
from openspyre.compiler.scratchpad.planning import requests_of
from openspyre.compiler.scratchpad.request import Room
from openspyre.spec.machine import SPYRE
from openspyre.spec.planning import Planning

SECONDS = 2.0  # the exact solver's


@dataclass(frozen=True, slots=True)
class Compared:
    """Microseconds on the card by strategy; `proof`: what the exact solver says of the scratchpads of `timed`, and its seconds."""

    name: str
    documented_us: float
    timed_us: float
    changes: str
    proven: bool
    gap_bytes: int
    seconds: float

    @property
    def ratio(self) -> float:
        return self.timed_us / self.documented_us


def compared(name: str, programs: Iterable[Program]) -> Compared:
    programs = list(programs)
    plans = {s: [pipeline.run(p, SPYRE, Planning(strategy=s)) for p in programs] for s in ("documented", "timed")}
    times = {s: sum(time_bundle(emit_bundle(plan)).card_us for plan in found) for s, found in plans.items()}
    start = perf_counter()
    proven, gap = True, 0
    for program in programs:
        sure, missing = _proof(program)
        proven, gap = proven and sure, gap + missing
    seconds = perf_counter() - start
    changes = ", ".join(_changes(*(plans[s] for s in ("documented", "timed")))) or "nothing"
    return Compared(name, times["documented"], times["timed"], changes, proven and seconds <= SECONDS, gap, seconds)


def _proof(program: Program) -> tuple[bool, int]:
    """Whether the scratchpads of `timed` hold as much as any plan of these divisions could; else bytes per core that are open."""
    for step, after in pipeline.stages(program, pipeline.passes(SPYRE, Planning())):
        if pipeline.name_of(step) == "PlanByClock":
            break
        program = after
    requests = requests_of(PlanByClock().divided(program), relayout=True, all_ops=True, k_fast=True)
    found = exact(requests, Room(SPYRE.scratchpad_planned_bytes_per_core), seconds=SECONDS)
    return found.proven, found.traffic(requests) - found.bound


def _changes(documented: list[Program], timed: list[Program]) -> Iterator[str]:
    """Ops by another division, tensors that stay, ops more or fewer."""
    ops = [{op.name: op for plan in plans for op, _ in listed(plan.body)} for plans in (documented, timed)]
    both = ops[0].keys() & ops[1].keys()
    moved = [n for n in both if [d.split for d in ops[0][n].dims] != [d.split for d in ops[1][n].dims]]
    sums = [n for n in moved if len({tuple(d.split for d in found[n].dims if d.reduced) for found in ops}) > 1]
    if moved:
        yield f"{len(moved)} of {len(both)} ops divided otherwise" + (f" ({len(sums)} along a sum)" if sums else "")
    stay = [
        sum(isinstance(buffer.place, InScratchpad) for plan in plans for buffer in plan.buffers)
        for plans in (documented, timed)
    ]
    if stay[0] != stay[1]:
        yield f"{stay[0]} -> {stay[1]} tensors in scratchpads"
    shuffles = [sum(op.row == "shuffle" for op in found.values()) for found in ops]
    if shuffles[0] != shuffles[1]:
        yield f"{shuffles[0]} -> {shuffles[1]} shuffles"
    loops = [len(list(listed((node,)))) for plan in timed for node in plan.body if isinstance(node, Loop)]
    counts = [str(node.count) for plan in timed for node in plan.body if isinstance(node, Loop)]
    if loops:
        yield f"{sum(loops)} ops in {' and '.join(counts)} tiles"


def table(found: list[Compared], judged: int) -> Iterator[str]:
    """As Markdown; the mean over the first `judged` of them."""
    yield "| graph | documented us | timed us | ratio | what changed | scratchpads |"
    yield "|---|---|---|---|---|---|"
    for one in found:
        proof = f"proven in {one.seconds:.1f} s" if one.proven else f"{one.gap_bytes} bytes per core open"
        yield f"| {one.name} | {one.documented_us:.0f} | {one.timed_us:.0f} | {one.ratio:.3f} | {one.changes} | {proof} |"
    mean = prod(one.ratio for one in found[:judged]) ** (1 / judged)
    yield f"| geometric mean of the first {judged} | | | {mean:.3f} | | {sum(one.proven for one in found)} of {len(found)} proven |"


def run() -> int:
    from bench.clock.graphs import graphs, programs_of

    found = [compared(graph.name, programs_of(graph)) for graph in graphs()]
    print("\n".join(table(found, judged=7)))
    return 0
