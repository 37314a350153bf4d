"""Keeps tensors in the cores' scratchpads where all their users work on the same slices: less goes through memory.

Inputs that are read several times are copied in, outputs that are read again are copied out, and where a consumer divides a tensor
differently its slices go from core to core.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from openspyre.compiler.ir import Access, Buffer, InScratchpad, Loop, Node, Op, Program, Role
from openspyre.compiler.loops import listed
from openspyre.compiler.scratchpad.copies import copy_op
from openspyre.compiler.scratchpad.planning import Scratchpads, planned
from openspyre.compiler.scratchpad.request import Room
from openspyre.compiler.scratchpad.views import View
from openspyre.spec.machine import SPYRE


@dataclass(frozen=True, slots=True)
class PlanScratchpads:
    """`capacity`: bytes of each scratchpad for tensors. `relayout`: copies between divisions. `all_ops`: results of any op may stay.
    `all_solvers`: such copies with every solver; the documents plan them with the greedy one alone.
    """

    capacity: int = SPYRE.scratchpad_planned_bytes_per_core
    solver: str = "greedy"
    relayout: bool = True
    all_ops: bool = False
    k_fast: bool = True
    all_solvers: bool = False

    def run(self, program: Program) -> Program:
        plan = self.plan(program)
        return committed(program, plan)

    def plan(self, program: Program) -> Scratchpads:
        """What stays where, and of every tensor that does not, why."""
        room = Room(self.capacity)
        return planned(
            program,
            room,
            solver=self.solver,
            relayout=self.relayout,
            all_ops=self.all_ops,
            k_fast=self.k_fast,
            all_solvers=self.all_solvers,
        )


def committed(program: Program, plan: Scratchpads) -> Program:
    """The program with what a plan says: places, and copies around ops."""
    return _Commit(program, plan).program() if plan.places else program


class _Commit:
    def __init__(self, program: Program, plan: Scratchpads) -> None:
        self.old, self.plan = program, plan
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        self.inside = {name: self._inside(name) for name in plan.places if name in self.buffers}
        relaid = plan.relayouts.items()
        self.copies = {
            name: replace(self.inside[one.source], name=name, place=InScratchpad(plan.places[name]))
            for name, one in relaid
        }
        self.elsewhere = {(one.source, when): name for name, one in relaid for when in one.consumers}
        self.inputs: dict[int, list[str]] = {}  # by the op before which they are copied in
        for name in self.inside:
            if self.buffers[name].role is Role.INPUT:
                self.inputs.setdefault(self.plan.tensors.ticks(name)[0], []).append(name)
        self.shuffles: dict[int, list[str]] = {}  # likewise
        for name, one in relaid:
            self.shuffles.setdefault(one.consumers[0], []).append(name)
        self.when = 0

    def program(self) -> Program:
        body = tuple(self._nodes(self.old.body))
        own = {name: buffer for name, buffer in self.inside.items() if buffer.name == name}
        kept = [own.get(buffer.name, buffer) for buffer in self.old.buffers]
        added = [buffer for name, buffer in self.inside.items() if buffer.name != name]
        return replace(self.old, buffers=(*kept, *added, *self.copies.values()), body=body)

    def _inside(self, name: str) -> Buffer:
        """The tensor as it lies in the scratchpads: itself if nobody outside needs it."""
        buffer = self.buffers[name]
        named = name if buffer.role is Role.TEMP else f"{name}.in_scratchpads"
        return replace(buffer, name=named, role=Role.TEMP, place=InScratchpad(self.plan.places[name]))

    def _view(self, name: str) -> View:
        view = self.plan.tensors.uses[name][0].view
        assert isinstance(view, View)
        return view

    def _nodes(self, body: tuple[Node, ...]) -> Iterator[Node]:
        for node in body:
            match node:
                case Op():
                    yield from self._around(node, self.when)
                    self.when += 1
                case Loop(count, inner):
                    yield from self._copied_in(self.when, next(op for op, _ in listed(inner)))
                    yield Loop(count, tuple(self._nodes(inner)))

    def _copied_in(self, when: int, op: Op) -> Iterator[Op]:
        """Inputs that are needed from here on: before a loop, not in each of its iterations."""
        for name in self.inputs.pop(when, ()):
            into = self.inside[name]
            origin = op.origin.changed("clone", "PlanScratchpads", "it is read more than once: once from memory")
            yield copy_op(self.buffers[name], into, self._view(name), name=f"{into.name}.copy", origin=origin)

    def _around(self, op: Op, when: int) -> Iterator[Op]:
        yield from self._copied_in(when, op)
        for name in self.shuffles.get(when, ()):
            relayout, target = self.plan.relayouts[name], self.copies[name]
            source, held = self.inside[relayout.source], self._view(relayout.source)
            origin = op.origin.changed("remap", "PlanScratchpads", "other cores read it than those that wrote it")
            yield copy_op(source, target, relayout.view, name=f"{name}.shuffle", origin=origin, held=held)
        yield self._rewired(op, when)
        for access in op.outputs:
            out, inside = self.buffers[access.buffer], self.inside.get(access.buffer)
            if inside is not None and out.role is Role.OUTPUT:
                origin = op.origin.changed("clone", "PlanScratchpads", "a result that others of the launch read, too")
                yield copy_op(inside, out, self._view(out.name), name=f"{inside.name}.copy", origin=origin)

    def _rewired(self, op: Op, when: int) -> Op:
        def there(access: Access) -> Access:
            name = self.elsewhere.get((access.buffer, when))
            inside = self.inside.get(access.buffer)
            return access.on(name) if name else access if inside is None else access.on(inside.name)

        inputs = tuple(there(operand) if isinstance(operand, Access) else operand for operand in op.inputs)
        return replace(op, inputs=inputs, outputs=tuple(map(there, op.outputs)))
