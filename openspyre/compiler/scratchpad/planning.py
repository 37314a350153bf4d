"""From a program to requests, and from a solver's plan to what stays in the scratchpads: which tensors, copies and reasons."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from openspyre.compiler.ir import Program, Role
from openspyre.compiler.scratchpad.copies import copies_whole
from openspyre.compiler.scratchpad.eligibility import Tensors, mismatches
from openspyre.compiler.scratchpad.relayouts import Relayout, relayouts_of
from openspyre.compiler.scratchpad.request import Request, Room
from openspyre.compiler.scratchpad.solvers import SOLVERS
from openspyre.compiler.scratchpad.views import View


@dataclass(frozen=True, slots=True)
class Scratchpads:
    """`places` of tensors that stay, by name, and of copies in another division; `reasons` of the others."""

    tensors: Tensors
    places: Mapping[str, int] = field(default_factory=dict)
    relayouts: Mapping[str, Relayout] = field(default_factory=dict)  # by the name of the copy
    reasons: Mapping[str, str] = field(default_factory=dict)


def copy_name(source: str, number: int) -> str:
    return f"{source}.relaid{number}" if number else f"{source}.relaid"


def planned(
    program: Program, room: Room, *, solver: str, relayout: bool, all_ops: bool, k_fast: bool, all_solvers: bool = False
) -> Scratchpads:
    """`all_solvers`: copies between divisions with every solver; the documents have them with the greedy one alone."""
    tensors = Tensors.of(program, all_ops=all_ops, k_fast=k_fast)
    reasons, copies = _barred(program, tensors, relayout=relayout and (solver == "greedy" or all_solvers))
    requests = _requests(program, tensors, reasons, copies)
    plan = SOLVERS[solver](requests, room)
    reasons |= {name: why for name, why in plan.spilled.items() if name in tensors.buffers}
    stays = {name: copy for name, copy in copies.items() if name in plan.places}
    return Scratchpads(tensors, plan.places, stays, reasons)


def requests_of(program: Program, *, relayout: bool, all_ops: bool, k_fast: bool) -> list[Request]:
    """What a solver would be asked."""
    tensors = Tensors.of(program, all_ops=all_ops, k_fast=k_fast)
    reasons, copies = _barred(program, tensors, relayout=relayout)
    return _requests(program, tensors, reasons, copies)


def _barred(program: Program, tensors: Tensors, *, relayout: bool) -> tuple[dict[str, str], dict[str, Relayout]]:
    """Reasons of those that cannot stay at all, and the copies that let others."""
    reasons: dict[str, str] = {}
    copies: dict[str, Relayout] = {}
    for buffer in program.buffers:
        name = buffer.name
        why = tensors.bar(name)
        if why is not None and relayout and buffer.role is not Role.INPUT and name in tensors.uses:
            others = next(tensors.bars(name, relaid=True), None)
            if others is None and next(mismatches(tensors.uses[name]), None) is not None:
                found = relayouts_of(tensors, name)
                if isinstance(found, str):
                    why = found
                elif all(copies_whole(buffer, view) for view in _divisions(tensors, name, found)):
                    why = None
                    copies |= {copy_name(name, number): one for number, one in enumerate(found)}
        if why is None and buffer.role in (Role.INPUT, Role.OUTPUT):
            view = tensors.uses[name][0].view
            if not isinstance(view, View) or not copies_whole(buffer, view):
                why = "the hardware has no op that copies it as it is divided"
        if why is not None:
            reasons[name] = why
    return reasons, copies


def _divisions(tensors: Tensors, name: str, copies: tuple[Relayout, ...]) -> Iterator[View]:
    """The writer's and those of the copies: a shuffle names its cores' parts by the tensor's own dims, which a writer need not
    have divided: rows and sticks of an image may be one dim of its product."""
    writer = tensors.uses[name][0].view
    assert isinstance(writer, View)
    yield writer
    yield from (copy.view for copy in copies)


class _Timeline:
    """Ticks count ops, and copies before the first op that needs them."""

    def __init__(self, copies: Mapping[str, Relayout]) -> None:
        self.copies = dict(sorted(copies.items(), key=lambda item: item[1].consumers[0]))
        self.before = [copy.consumers[0] for copy in self.copies.values()]
        self.ticks_of_copies = {
            name: when + n for n, (name, when) in enumerate(zip(self.copies, self.before, strict=True))
        }
        self.copies_of: dict[str, list[str]] = {}  # by source
        for name, copy in self.copies.items():
            self.copies_of.setdefault(copy.source, []).append(name)

    def tick(self, when: int) -> int:
        return when + bisect_right(self.before, when)

    def ticks(self, tensors: Tensors, name: str) -> tuple[int, ...]:
        """Of a tensor: ops that take a copy of it do not count, the copies do."""
        own = self.copies_of.get(name, [])
        elsewhere = {when for copy in own for when in self.copies[copy].consumers}
        ticks = [self.tick(when) for when in tensors.ticks(name) if when not in elsewhere]
        return tuple(sorted([*ticks, *(self.ticks_of_copies[copy] for copy in own)]))

    def ticks_of_copy(self, name: str) -> tuple[int, ...]:
        return (self.ticks_of_copies[name], *map(self.tick, self.copies[name].consumers))


def _requests(
    program: Program, tensors: Tensors, barred: Mapping[str, str], copies: Mapping[str, Relayout]
) -> list[Request]:
    """Results in the order of their ops, then inputs, then copies."""
    time = _Timeline(copies)
    sources = {relayout.source for relayout in copies.values()}
    names = [access.buffer for work in tensors.works for access in work.op.outputs]
    names += [buffer.name for buffer in program.buffers if buffer.role is Role.INPUT]
    found = []
    for name in dict.fromkeys(names):
        if name not in barred:
            role = tensors.buffers[name].role
            found.append(
                Request(
                    name,
                    tensors.bytes_per_core(name),
                    time.ticks(tensors, name),
                    written=role is not Role.INPUT,
                    kept=role is Role.OUTPUT,
                    parents=tuple(p for p in tensors.parents(name) if p not in barred and p not in sources),
                    group=name if name in sources else None,
                    step=tensors.ticks(name)[0],
                )
            )
    for name, copy in copies.items():
        size = tensors.bytes_per_core(copy.source)
        found.append(Request(name, size, time.ticks_of_copy(name), group=copy.source, step=copy.consumers[0]))
    return found
