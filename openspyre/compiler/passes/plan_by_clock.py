"""Divides and keeps tensors in scratchpads as the clock says is fastest; never slower than the documented plan.

Products' sums first, which follow from each op alone; then divisions of all ops together; then scratchpads, for results of any op.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from openspyre.clock.kernels import Kernel
from openspyre.clock.timing import Item, Timing, time_items
from openspyre.clock.transfers import launch
from openspyre.clock.work import kernel_of
from openspyre.compiler.emit.shared import Template, template_anywhere
from openspyre.compiler.ir import Buffer, InScratchpad, Op, Program
from openspyre.compiler.loops import expanded, listed
from openspyre.compiler.passes.plan_scratchpads import PlanScratchpads, committed
from openspyre.compiler.planner.space import Splits
from openspyre.compiler.scratchpad.eligibility import Tensors
from openspyre.compiler.scratchpad.planning import Scratchpads
from openspyre.compiler.structure import per_structure
from openspyre.compiler.timed.chains import divisions
from openspyre.compiler.timed.priced_op import Bounds, PricedOp
from openspyre.compiler.timed.sums import with_timed_sum
from openspyre.spec.machine import SPYRE, Machine
from openspyre.spec.ops import TABLE, Kind
from openspyre.spec.sharing import Memo


@dataclass(frozen=True, slots=True)
class _Plan:
    """A program as it is divided, and what a planner of scratchpads makes of it."""

    divided: Program
    scratchpads: Scratchpads
    program: Program

    @classmethod
    def of(cls, step: PlanScratchpads, program: Program) -> _Plan:
        found = step.plan(program)
        return cls(program, found, committed(program, found))


@dataclass(frozen=True, slots=True)
class PlanByClock:
    """`documented`: the scratchpads' planner as the documents have it. `scratchpads`: whether tensors may stay there at all."""

    machine: Machine = SPYRE
    documented: PlanScratchpads = field(default_factory=PlanScratchpads)
    scratchpads: bool = True

    def run(self, program: Program) -> Program:
        bounds = Bounds(self.machine, self.documented.k_fast)
        return self._best(program, bounds).program if self.scratchpads else with_sums(program, bounds)

    def plan(self, program: Program) -> Scratchpads:
        """What stays where in the plan that is taken, and of every tensor that does not, why."""
        return self._best(program, Bounds(self.machine, self.documented.k_fast)).scratchpads

    def _best(self, program: Program, bounds: Bounds) -> _Plan:
        first = _Plan.of(self.documented, with_sums(program, bounds))
        second = _Plan.of(self._own(), self._aligned(first.divided, bounds, first.scratchpads.tensors))
        if first.program == second.program:
            return first
        return min(
            (first, second), key=lambda plan: time_program(plan.program, self.machine, k_fast=bounds.k_fast).card_us
        )

    def _own(self) -> PlanScratchpads:
        """The list of ops and the solvers that may copy between divisions are the documents', not the hardware's."""
        solver = "greedy_then_exact" if self.documented.solver == "greedy" else self.documented.solver
        return replace(self.documented, all_ops=True, all_solvers=True, solver=solver)

    def divided(self, program: Program) -> Program:
        """With the divisions that it looks for, nothing in scratchpads yet."""
        bounds = Bounds(self.machine, self.documented.k_fast)
        return self._aligned(with_sums(program, bounds), bounds)

    def _aligned(self, program: Program, bounds: Bounds, tensors: Tensors | None = None) -> Program:
        """`tensors`: the program's, if somebody looked them up before."""
        return divided(program, divisions(program, bounds, relayout=self.documented.relayout, tensors=tensors))


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
        kernel = _kernel_of(template_anywhere(op, buffers, k_fast=k_fast))
        far = [a for a in op.accesses if not isinstance(buffers[a.buffer].place, InScratchpad)]
        reads = any((a.buffer, a.offset) in written for a in far if a not in op.outputs)
        written |= {(a.buffer, a.offset) for a in far if a in op.outputs}
        yield Item(op.name, op.row, kernel, prod(counts), counts, reads)


_kernels: Memo[tuple[Template, Kernel]] = Memo()  # by id of a template


def _kernel_of(template: Template) -> Kernel:
    return _kernels.get(id(template), lambda: (template, kernel_of(template.shared.op)))[1]
