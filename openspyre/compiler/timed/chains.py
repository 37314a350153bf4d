"""The chains of a program: ops that tensors join which could stay in scratchpads. Chains that differ in names alone share one search."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from openspyre.compiler.ir import Buffer, Op, Program
from openspyre.compiler.loops import listed
from openspyre.compiler.planner.space import Splits
from openspyre.compiler.scratchpad.eligibility import Tensors
from openspyre.compiler.structure import structure_of
from openspyre.compiler.timed.chain import Chain, Choice, Shared
from openspyre.compiler.timed.priced_op import Bounds, PricedOp
from openspyre.compiler.timed.search import aligned
from openspyre.spec.sharing import Memo

_REACH = 24  # ops from a tensor's first to its last use; what lives longer joins layers, and is left to the scratchpads' planner
_known: Memo[tuple[Splits, ...]] = Memo(1 << 10)


Answer = Callable[[Chain], Choice]


def divisions(
    program: Program,
    bounds: Bounds,
    search: Answer = aligned,
    *,
    relayout: bool,
    all_ops: bool = True,
    tensors: Tensors | None = None,
) -> list[Splits]:
    """A division for every op, in the program's order, each chain by the search, which is a pure function.

    `tensors`: the program's, if somebody looked them up before.
    """
    known = tensors or Tensors.of(program, k_fast=bounds.k_fast)
    return _Chains(program, bounds, search, relayout, replace(known, all_ops=all_ops)).divisions()


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a chain has to know of a tensor."""

    may_stay: bool
    joins: bool
    users: tuple[int, ...]
    writers: frozenset[int]


class _Chains:
    def __init__(self, program: Program, bounds: Bounds, search: Answer, relayout: bool, tensors: Tensors) -> None:
        self.bounds, self.search, self.relayout = bounds, search, relayout
        self.buffers: Mapping[str, Buffer] = {buffer.name: buffer for buffer in program.buffers}
        every = list(listed(program.body))
        self.ops: Sequence[Op] = [op for op, _ in every]
        self.times = [prod(counts) for _, counts in every]
        self.tensors = tensors
        self.facts = {name: self._facts(name) for name in self.tensors.uses}

    def _facts(self, name: str) -> _Facts:
        uses = self.tensors.uses[name]
        users = tuple(dict.fromkeys(use.when for use in uses))
        writers = frozenset(use.when for use in uses if use.writes)
        able = len(users) > 1 and next(self.tensors.bars(name, relaid=True), None) is None
        first = users[0]
        if able and not self.tensors.works[first].operation:
            able = False
        return _Facts(able, able and users[-1] - users[0] <= _REACH, users, writers)

    def divisions(self) -> list[Splits]:
        found = [tuple(dim.split for dim in op.dims) for op in self.ops]
        for numbers in self._chains():
            for number, splits in zip(numbers, self._searched(numbers), strict=True):
                found[number] = splits
        return found

    def _chains(self) -> Iterable[tuple[int, ...]]:
        """Ops by the first of their chain."""
        first = list(range(len(self.ops)))

        def root(number: int) -> int:
            while first[number] != number:
                number = first[number]
            return number

        for facts in self.facts.values():
            if facts.joins:
                ends = sorted({root(user) for user in facts.users})
                for end in ends[1:]:
                    first[end] = ends[0]
        chains: dict[int, list[int]] = {}
        for number in range(len(self.ops)):
            chains.setdefault(root(number), []).append(number)
        return [tuple(numbers) for numbers in chains.values()]

    def _searched(self, numbers: tuple[int, ...]) -> tuple[Splits, ...]:
        return _known.get(self._key(numbers), lambda: self._search(numbers))

    def _key(self, numbers: tuple[int, ...]) -> Hashable:
        """All that the search looks at, without names."""
        places = {number: place for place, number in enumerate(numbers)}
        named: dict[str, int] = {}
        ops, tensors = [], []
        for number in numbers:
            op = self.ops[number]
            for access in op.accesses:
                if access.buffer not in named:
                    named[access.buffer] = len(named)
                    buffer, facts = self.buffers[access.buffer], self.facts[access.buffer]
                    own = tuple([places[user] for user in facts.users if user in places])
                    tensors.append(
                        (buffer.role, buffer.spare_rows, buffer.values, facts.joins, bool(facts.writers), own)
                    )
            wiring = tuple([named[access.buffer] for access in op.accesses])
            ops.append((structure_of(op, self.buffers), repr(op.attributes), self.times[number], wiring))
        return self.search, tuple(ops), tuple(tensors), self.bounds, self.relayout

    def _search(self, numbers: tuple[int, ...]) -> tuple[Splits, ...]:
        priced = [PricedOp.of(self.ops[number], self.buffers, self.bounds) for number in numbers]
        if len(numbers) == 1 and not priced[0].is_matmul:
            return (priced[0].given,)  # nobody to follow
        places = {number: place for place, number in enumerate(numbers)}
        tensors = {
            name: self._shared(name, places)
            for number in numbers
            for name in [a.buffer for a in self.ops[number].accesses]
        }
        chain = Chain(priced, [self.times[number] for number in numbers], tensors, self.bounds.machine, self.relayout)
        choice = self.search(chain)
        return tuple(choice[place] for place in range(len(numbers)))

    def _shared(self, name: str, places: Mapping[int, int]) -> Shared:
        buffer, facts = self.buffers[name], self.facts[name]
        assert buffer.layout is not None
        users = tuple(places[user] for user in facts.users if user in places)
        writer = next((places[user] for user in facts.users if user in facts.writers and user in places), None)
        sticks = prod(buffer.layout.device_size[:-1])
        return Shared(name, buffer.role, sticks, users, facts.joins, bool(facts.writers), writer)
