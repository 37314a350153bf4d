"""Divides and keeps tensors in scratchpads as the clock says is fastest; never slower than the documented plan.

Products' sums first, which follow from each op alone; then divisions of all ops together; then scratchpads, for results of any op.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from openspyre.clock.timing import Item, Timing, time_items
from openspyre.clock.transfers import launch
from openspyre.clock.work import kernel_of
from openspyre.compiler.emit.shared import template_of
from openspyre.compiler.ir import Buffer, InScratchpad, Op, Program
from openspyre.compiler.loops import expanded, listed
from openspyre.compiler.passes.plan_scratchpads import PlanScratchpads
from openspyre.compiler.planner.space import Splits
from openspyre.compiler.scratchpad.planning import Scratchpads
from openspyre.compiler.structure import per_structure
from openspyre.compiler.timed.chains import divisions
from openspyre.compiler.timed.priced_op import Bounds, PricedOp
from openspyre.compiler.timed.sums import with_timed_sum
from openspyre.spec.machine import SPYRE, Machine
from openspyre.spec.ops import TABLE, Kind


@dataclass(frozen=True, slots=True)
class _Plan:
    """A program as it is divided, and what a planner of scratchpads makes of it."""

    step: PlanScratchpads
    divided: Program
    program: Program

    @classmethod
    def of(cls, step: PlanScratchpads, program: Program) -> _Plan:
        return cls(step, program, step.run(program))


@dataclass(frozen=True, slots=True)
class PlanByClock:
    """`documented`: the scratchpads' planner as the documents have it. `scratchpads`: whether tensors may stay there at all."""

    machine: Machine = SPYRE
    documented: PlanScratchpads = field(default_factory=PlanScratchpads)
    scratchpads: bool = True

    def run(self, program: Program) -> Program:
        return self._best(program).program

    def plan(self, program: Program) -> Scratchpads:
        """What stays where in the plan that is taken, and of every tensor that does not, why."""
        best = self._best(program)
        return best.step.plan(best.divided)

    def _best(self, program: Program) -> _Plan:
        bounds = Bounds(self.machine, self.documented.k_fast)
        start = with_sums(program, bounds)
        if not self.scratchpads:
            return _Plan(self.documented, start, start)
        plans = [_Plan.of(self.documented, start), _Plan.of(self._own(), self._aligned(start, bounds))]
        if plans[0].program == plans[1].program:
            return plans[0]
        return min(plans, key=lambda plan: time_program(plan.program, self.machine, k_fast=bounds.k_fast).card_us)

    def _own(self) -> PlanScratchpads:
        """The list of ops and the solvers that may copy between divisions are the documents', not the hardware's."""
        solver = "greedy_then_exact" if self.documented.solver == "greedy" else self.documented.solver
        return replace(self.documented, all_ops=True, all_solvers=True, solver=solver)

    def divided(self, program: Program) -> Program:
        """With the divisions that it looks for, nothing in scratchpads yet."""
        bounds = Bounds(self.machine, self.documented.k_fast)
        return self._aligned(with_sums(program, bounds), bounds)

    def _aligned(self, program: Program, bounds: Bounds) -> Program:
        return divided(program, divisions(program, bounds, relayout=self.documented.relayout))


def with_sums(program: Program, bounds: Bounds) -> Program:
    """With sums of products divided as the clock says of each by itself."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    found = per_structure(lambda op, buffers: with_timed_sum(PricedOp.of(op, buffers, bounds)))
    products = [TABLE[op.row].kind is Kind.CONTRACTION for op, _ in listed(program.body)]
    if not any(products):
        return program
    given = [tuple(dim.split for dim in op.dims) for op, _ in listed(program.body)]
    ops = [op for op, _ in listed(program.body)]
    return divided(program, [found(op, buffers) if p else g for op, p, g in zip(ops, products, given, strict=True)])


def divided(program: Program, found: list[Splits]) -> Program:
    """The program with these slices per op and dim."""
    left = iter(found)

    def change(op: Op) -> list[Op]:
        splits = next(left)
        if splits == tuple(dim.split for dim in op.dims):
            return [op]
        return [replace(op, dims=tuple(replace(d, split=s) for d, s in zip(op.dims, splits, strict=True)))]

    return replace(program, body=expanded(program.body, change))


def time_program(program: Program, machine: Machine, *, k_fast: bool = True) -> Timing:
    """What the clock says of a program whose divisions and scratchpads are planned; the pool need not be."""
    return time_items(program.name, list(_items(program, k_fast)), machine, launch(machine))


def _items(program: Program, k_fast: bool) -> Iterator[Item]:
    buffers: Mapping[str, Buffer] = {buffer.name: buffer for buffer in program.buffers}
    written: set[tuple[str, int]] = set()  # where in which buffer, as a bundle has addresses
    for op, counts in listed(program.body):
        if any(dim.size == 0 and not dim.reduced for dim in op.dims):
            continue
        kernel = kernel_of(template_of(op, buffers, k_fast=k_fast).shared.op)
        far = [a for a in op.accesses if not isinstance(buffers[a.buffer].place, InScratchpad)]
        reads = any((a.buffer, a.offset) in written for a in far if a not in op.outputs)
        written |= {(a.buffer, a.offset) for a in far if a in op.outputs}
        yield Item(op.name, op.row, kernel, prod(counts), counts, op.origin, reads)
