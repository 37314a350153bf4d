"""Ops that hand tensors to each other, and what a choice of divisions for all of them would take.

A tensor that all its users divide alike stays in the scratchpads; where a reader divides it otherwise it goes over the rings, if that
can be; else it goes through memory. What has no room at all does not stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from openspyre.clock.kernels import Form, Pointwise, Shuffle
from openspyre.clock.predict import predict
from openspyre.compiler.ir import Role
from openspyre.compiler.planner.space import Splits
from openspyre.compiler.scratchpad.relayouts import is_uniform
from openspyre.compiler.scratchpad.views import View
from openspyre.compiler.timed.priced_op import PricedOp
from openspyre.spec.formats import STICK_BYTES
from openspyre.spec.machine import Machine
from openspyre.spec.ops import TABLE, Kind

Choice = dict[int, Splits]  # a division for some ops, by their number


@dataclass(frozen=True, slots=True)
class Shared:
    """A tensor of a chain. `may_stay`: nothing but divisions bars it from the scratchpads."""

    name: str
    role: Role
    sticks: int
    users: tuple[int, ...]  # ops in order, each once; of a result the first writes it
    may_stay: bool
    is_made: bool  # some op of the program writes it
    writer: int | None  # the op of the chain that does

    @property
    def bytes(self) -> int:
        return self.sticks * STICK_BYTES


@dataclass(frozen=True, slots=True)
class Stay:
    """Whether a tensor stays, and what copies that takes."""

    inside: bool
    copies_us: float = 0.0


_AWAY = Stay(False)


@dataclass(slots=True)
class Chain:
    """Ops in order with how often loops run each, and all their tensors."""

    ops: Sequence[PricedOp]
    times: Sequence[int]
    tensors: Mapping[str, Shared]
    machine: Machine
    relayout: bool = True
    touched: dict[int, tuple[str, ...]] = field(init=False)
    _stays: dict[tuple[str, tuple[Splits, ...]], Stay] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.touched = {
            number: tuple(dict.fromkeys(access.buffer for access in priced.op.accesses))
            for number, priced in enumerate(self.ops)
        }

    # --- time
    def time(self, choice: Choice, numbers: Iterable[int]) -> float:
        """What these ops take, with the copies of the tensors they touch."""
        names = dict.fromkeys(name for number in numbers for name in self.touched[number])
        users = dict.fromkeys(user for name in names for user in self.tensors[name].users)
        found = sum(self.stay(choice, name).copies_us for name in names)
        return found + sum(self.op_time(choice, number) for number in (*users, *(n for n in numbers if n not in users)))

    def op_time(self, choice: Choice, number: int) -> float:
        inside, waits = [], False
        priced = self.ops[number]
        for name in self.touched[number]:
            if self.stay(choice, name).inside:
                inside.append(name)
            elif self.tensors[name].is_made and self.tensors[name].writer != number:
                waits = True
        return priced.price(choice[number], frozenset(inside), waits=waits).time_us * self.times[number]

    # --- tensors
    def stay(self, choice: Choice, name: str) -> Stay:
        tensor = self.tensors[name]
        if not tensor.may_stay:
            return _AWAY
        key = name, tuple([choice[user] for user in tensor.users])
        found = self._stays.get(key)
        if found is None:
            found = self._stays[key] = self._stay(choice, tensor)
        return found

    def _stay(self, choice: Choice, tensor: Shared) -> Stay:
        views = [self.ops[user].view(choice[user], tensor.name) for user in tensor.users]
        first = views[0]
        if not isinstance(first, View) or not first.is_whole:
            return _AWAY
        if tensor.bytes // first.cores > self.machine.scratchpad_planned_bytes_per_core:
            return _AWAY
        if all(view == first for view in views):
            copies = 1 if tensor.role in (Role.INPUT, Role.OUTPUT) else 0
            return Stay(True, copies * self._copy_us(tensor, first, read=tensor.role is Role.INPUT))
        if tensor.role is Role.INPUT or not self.relayout:
            return _AWAY
        others: dict[View, None] = {}
        for user, view in zip(tensor.users[1:], views[1:], strict=True):
            if not isinstance(view, View) or not self._can_take_a_copy(user, choice[user], first, view):
                return _AWAY
            if view != first:
                others[view] = None
        return Stay(True, sum(self._shuffle_us(tensor, view) for view in others))

    def _can_take_a_copy(self, user: int, splits: Splits, held: View, view: View) -> bool:
        op = self.ops[user].op
        if not view.is_whole or view.cores != held.cores:
            return False
        if any(dim.reduced and split > 1 for dim, split in zip(op.dims, splits, strict=True)):
            return False
        if view == held:
            return True
        return TABLE[op.row].kind in (Kind.POINTWISE, Kind.CONTRACTION) and is_uniform(held, view)

    def _copy_us(self, tensor: Shared, view: View, *, read: bool) -> float:
        bytes_ = tensor.bytes
        kernel = Pointwise(Form.COPY, bytes_ if read else 0, 0 if read else bytes_, view.cores, scratchpad_bytes=bytes_)
        return predict(kernel, self.machine).time_us

    def _shuffle_us(self, tensor: Shared, view: View) -> float:
        """In runs as the target's innermost divided dim has them."""
        inner = view.slices[0]
        run = max(1, inner.stride * inner.steps // inner.split // 64)  # sticks
        kernel = Shuffle(tensor.bytes, max(1, tensor.sticks // run), view.cores, view.cores)
        return predict(kernel, self.machine).time_us
