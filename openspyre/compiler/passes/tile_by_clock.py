"""Runs chains of ops tile by tile where the clock says that it is faster: what is between them then stays in the scratchpads.

Tiles are cut along dims that nobody sums, so that bits stay. A program with tiles that were asked for is left as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from openspyre.compiler.ir import Loop, Program
from openspyre.compiler.passes.plan_by_clock import PlanByClock, time_program
from openspyre.compiler.tiling.groups import Member, Tile, Untileable
from openspyre.compiler.tiling.programs import FIRST_CLOCK_HINT, tiled
from openspyre.compiler.timed.tile_search import Judged, Planner, TiledChain, tiled_chains
from openspyre.spec.machine import SPYRE, Machine


class _Step(Protocol):
    def run(self, program: Program) -> Program: ...


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes behind this one, up to `plan`, which plans what they leave."""

    steps: tuple[_Step, ...] = ()
    plan: PlanByClock = field(default_factory=PlanByClock)

    def run(self, program: Program) -> Program:
        for step in (*self.steps, self.plan):
            program = step.run(program)
        return program


@dataclass(frozen=True, slots=True)
class TileByClock:
    """`rest`: what plans candidates, as it will plan what is chosen."""

    machine: Machine = SPYRE
    rest: Passes = field(default_factory=Passes)

    def run(self, program: Program) -> Program:
        found = self.chains(program)
        return _with_chains(program, found) if found else program

    def chains(self, program: Program) -> list[TiledChain]:
        """The chains that are tiled, the largest tensors' first, and what each gains."""
        if any(isinstance(node, Loop) for node in program.body):
            return []
        return tiled_chains(program, Planner(self.machine, self._judged, _fit, self))

    def _judged(self, program: Program, dims: Sequence[int], count: int) -> Judged:
        if count > 1:
            program = _with_loops(program, [(dict(enumerate(dims)), count)])
        clock = partial(time_program, machine=self.machine, k_fast=self.rest.plan.documented.k_fast)
        return Judged.of(self.rest.run(program), clock)


def _fit(program: Program, chains: Sequence[TiledChain]) -> bool:
    """Loops whose ops stand between each other's have no order."""
    try:
        _with_chains(program, chains)
    except Untileable:
        return False
    return True


def _with_chains(program: Program, chains: Sequence[TiledChain]) -> Program:
    return _with_loops(program, [(dict(chain.dims), chain.gain.count) for chain in chains])


def _with_loops(program: Program, loops: Sequence[tuple[dict[int, int], int]]) -> Program:
    members = [Member(op) for op in program.ops]
    for hint, (dims, count) in enumerate(loops, FIRST_CLOCK_HINT):
        for number, dim in dims.items():
            members[number] = Member(members[number].op, (Tile(hint, dim, count),))
    return tiled(program, members, reductions=False)
