"""Which tensors may stay in the scratchpads. Bars are asked in the documents' order; the first that holds is the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from openspyre.compiler.ir import CARRIED, Buffer, Program, Role
from openspyre.compiler.scratchpad.uses import Use, Work, reads_all, uses_of, walks_all, works_of
from openspyre.compiler.scratchpad.views import View
from openspyre.spec.formats import STICK_BYTES

# Ops whose results may stay, by our rows: what the documents list by the names of torch's operators.
_BY_NAME = "max amax maximum sum exp sub rsub mul mean add rsqrt neg batchmatmul div silu"
ALLOWED = frozenset([*_BY_NAME.split(), "identity", "relayout"])  # clone and expand
_GIVEN = {
    Role.CONSTANT: "a constant: nothing here computes it",
    Role.UPDATE: "it is written into from outside: a mutation",
    Role.INPUT: "an input",
}


@dataclass(frozen=True, slots=True)
class Tensors:
    """The tensors of a program with their uses. `all_ops`: results of any op may stay, not only of those in the list."""

    works: tuple[Work, ...]
    buffers: Mapping[str, Buffer]
    uses: Mapping[str, list[Use]]
    all_ops: bool = False
    _ticks: dict[str, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)  # as they are asked for

    @classmethod
    def of(cls, program: Program, *, all_ops: bool = False, k_fast: bool = True) -> Tensors:
        buffers = {buffer.name: buffer for buffer in program.buffers}
        works = works_of(program)
        return cls(works, buffers, uses_of(works, buffers, k_fast=k_fast), all_ops)

    # --- lives
    def ticks(self, name: str) -> tuple[int, ...]:
        """Ops that use a tensor, in order. A loop that it only passes through needs it until its last iteration ends."""
        found = self._ticks.get(name)
        if found is None:
            found = self._ticks[name] = self._found_ticks(name)
        return found

    def _found_ticks(self, name: str) -> tuple[int, ...]:
        whens = sorted({use.when for use in self.uses[name]})
        found = set(whens)
        for use in self.uses[name]:
            for first, last in use.work.loops:
                carried = not self.uses[name][0].writes
                if carried or not all(first <= when <= last for when in whens):
                    found |= {first, last}
        return tuple(sorted(found))

    def bytes_per_core(self, name: str) -> int:
        """Of a result the writer's cores count, of an input the most that any reader has."""
        layout = self.buffers[name].layout
        assert layout is not None
        views = [use.view for use in self.uses[name] if isinstance(use.view, View)]
        writers = [use.view for use in self.uses[name] if use.writes and isinstance(use.view, View)]
        cores = max((view.cores for view in writers or views), default=1)
        return STICK_BYTES * prod(layout.device_size[:-1]) // cores

    # --- bars
    def bar(self, name: str) -> str | None:
        """Why a tensor cannot stay; None if it can."""
        return next(self.bars(name), None)

    def bars(self, name: str, *, relaid: bool = False) -> Iterator[str]:
        """All reasons. `relaid`: it is copied from division to division, so that neither the list nor views matter."""
        buffer, uses = self.buffers[name], self.uses.get(name, [])
        is_input = buffer.role is Role.INPUT
        if not is_input:
            yield from self._origin(buffer, uses, relaid)
        elif len({use.when for use in uses}) < 2:
            yield "an input that is read once: a copy would save nothing"
        if any(any(use.access.advance) for use in uses):
            yield "a loop moves it from tile to tile"
        readers = [use for use in uses if not use.writes]
        for use in readers:
            if use.work.is_restickify:
                yield f"{use.work.op.name} restickifies it, which goes through memory"
        yield from self._extensions(name)
        for use in uses:
            if use.operand is None:
                yield f"{use.work.op.name} takes it by an index or by elements"
        if buffer.unset:
            yield "it begins as whatever lies there"
        for use in readers:
            if not reads_all(use.access, use.work.op, buffer):
                yield f"{use.work.op.name} reads a part of it"
        if not relaid:
            yield from mismatches(uses)
        if not readers:
            yield "nobody reads it"
        for use in uses:
            if use.operand is not None and not walks_all(use.operand, buffer):
                yield f"{use.work.op.name} leaves out rows of its device layout"

    def _origin(self, buffer: Buffer, uses: Sequence[Use], relaid: bool) -> Iterator[str]:
        if buffer.role in _GIVEN:
            yield _GIVEN[buffer.role]
        writers = [use for use in uses if use.writes]
        if not uses or not uses[0].writes:
            yield "nothing here computes it first"
        if len(writers) != 1 and not _is_accumulator(buffer, writers):
            yield f"{len(writers)} ops write into it: a mutation"
        for use in writers:
            if not (self.all_ops or relaid or _is_listed(use.work)):
                yield f"results of {use.work.op.row} are not in the documents' list"

    def _extensions(self, name: str) -> Iterator[str]:
        ticks = self.ticks(name) if name in self.uses else ()
        for work in self.works[ticks[0] : ticks[-1] + 1] if ticks else ():
            if work.operation is None:
                yield f"{work.op.name} ({work.op.row}), which the host would do, runs while it lives"

    # --- in place
    def parents(self, name: str) -> Iterator[str]:
        """Tensors whose place the result may take: its op reads them last, element by element where it writes."""
        writer = next((use for use in self.uses[name] if use.writes), None)
        if writer is None or not writer.work.is_pointwise or writer.operand is None:
            return
        for access in writer.work.op.accesses[: -len(writer.work.op.outputs)]:
            parent = access.buffer
            if parent == name or self.ticks(parent)[-1] != writer.when:
                continue
            same = all(
                use.operand is not None
                and use.view == writer.view
                and use.operand.walk == writer.operand.walk
                and use.operand.format is writer.operand.format
                for use in self.uses[parent]
                if use.when == writer.when
            )
            alike = self.buffers[parent].layout == self.buffers[name].layout
            if same and alike and self.bytes_per_core(parent) == self.bytes_per_core(name):
                yield parent


def _is_listed(work: Work) -> bool:
    """A copy of whole sticks is computed as a cast is, and the documents call it a clone; those of tiles are copies as they stand."""
    op = work.op
    copies = (work.is_copy and bool(work.loops)) or (
        op.row == "cast" and len({access.dtype for access in op.accesses}) == 1
    )
    return (copies or op.row in ALLOWED) and CARRIED not in dict(op.attributes)


def _is_accumulator(buffer: Buffer, writers: Sequence[Use]) -> bool:
    """Whether a tensor is set once, and then updated in a loop, element by element."""
    return (
        buffer.role is Role.TEMP
        and len(writers) > 1
        and all(use.work.loops and use.work.is_pointwise for use in writers[1:])
        and all(use.access in use.work.op.inputs for use in writers[1:])
    )


def mismatches(uses: Sequence[Use]) -> Iterator[str]:
    """Users that do not see the same slice on every core."""
    first = uses[0] if uses else None
    for use in uses:
        name = use.work.op.name
        if isinstance(use.view, str):
            yield f"the division of {name} cannot be said of it: {use.view}"
        elif not use.view.is_whole and use.writes:
            yield f"{name} adds up parts of it over cores"
        elif not use.view.is_whole:
            yield f"every core of {name} needs what others have: {use.view.parts} slices for {use.view.cores} cores"
        elif first is not None and use.view != first.view:
            yield f"{first.work.op.name} and {name} divide it differently"
