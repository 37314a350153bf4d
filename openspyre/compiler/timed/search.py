"""The search for divisions of a chain: views are imposed on tensors, and neighbours follow as long as that pays.

It is a pure function of the chain, so that equal chains can share its answer. It departs from what was given only where the clock says
that more is gained than the clock may err there.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from openspyre.compiler.planner.space import Splits
from openspyre.compiler.scratchpad.views import View
from openspyre.compiler.timed.chain import Chain, Choice

_ROUNDS = 4
_PRODUCT_CHOICES = 16  # divisions of a product that are tried, the fastest by themselves
_HAIR = 1e-6  # us: less is no gain


def aligned(chain: Chain) -> Choice:
    """Divisions for all ops of a chain."""
    search = _Search(chain)
    for _ in range(_ROUNDS):
        if not search.improve():
            break
    search.settle()
    return search.choice


class _Search:
    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.given: Choice = {number: priced.given for number, priced in enumerate(chain.ops)}
        self.choice = dict(self.given)
        self.products = {number: self._divisions(number) for number, priced in enumerate(chain.ops) if priced.is_matmul}

    def _divisions(self, number: int) -> tuple[Splits, ...]:
        priced = self.chain.ops[number]
        found = sorted(priced.divisions(), key=lambda splits: (priced.price(splits).time_us, splits))
        return tuple(found[:_PRODUCT_CHOICES])

    # --- moves
    def improve(self) -> bool:
        """One round over all moves, each taken where it gains."""
        gained = False
        for move in [*self._own_moves(), *self._moves_of_tensors()]:
            changes = self._followed(move)
            if changes is not None and self._gain(changes) > _HAIR:
                self.choice.update(changes)
                gained = True
        return gained

    def _own_moves(self) -> Iterator[Choice]:
        """Products whose time by themselves falls by more than the clock may err."""
        for number, divisions in self.products.items():
            priced = self.chain.ops[number]
            now = priced.price(self.given[number])
            for splits in divisions:
                if now.time_us - priced.price(splits).time_us > now.band.p90 * now.time_us:
                    yield {number: splits}

    def _moves_of_tensors(self) -> Iterator[Choice]:
        """A view of some tensor that does not stay, taken by all its users."""
        for name, tensor in self.chain.tensors.items():
            if not tensor.may_stay or self._rests(name):
                continue
            for view in self._views(name):
                found = self._imposed({}, name, view)
                if found:
                    yield found

    def _rests(self, name: str) -> bool:
        found = self.chain.stay(self.choice, name)
        return found.inside and not found.copies_us

    def _views(self, name: str) -> list[View]:
        """Those that users have now, and those that products could have."""
        found: dict[View, None] = {}
        for user in self.chain.tensors[name].users:
            for splits in (self.choice[user], *self.products.get(user, ())):
                view = self.chain.ops[user].view(splits, name)
                if isinstance(view, View) and view.is_whole:
                    found[view] = None
        return list(found)

    def _imposed(self, changes: Choice, name: str, view: View) -> Choice | None:
        """The changes, and all users of a tensor following; None if one cannot, or would leave cores idle."""
        found = dict(changes)
        for user in self.chain.tensors[name].users:
            priced = self.chain.ops[user]
            now = found.get(user, self.choice[user])
            if priced.view(now, name) == view:
                continue
            splits = None if user in found else priced.aligned(name, view)
            if splits is None or prod(splits) < min(prod(self.given[user]), view.cores):
                return None
            found[user] = splits
        return found

    def _followed(self, move: Choice) -> Choice | None:
        """A move, and neighbours that follow it through the tensors they share, where that pays."""
        changes = {number: splits for number, splits in move.items() if splits != self.choice[number]}
        if not changes:
            return None
        gain = self._gain(changes)
        waiting = [name for number in changes for name in self.chain.touched[number]]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop(0)
            tensor = self.chain.tensors[name]
            if name in seen or not tensor.may_stay:
                continue
            seen.add(name)
            for user in [user for user in tensor.users if user in changes]:
                view = self.chain.ops[user].view(changes[user], name)
                more = self._imposed(changes, name, view) if isinstance(view, View) and view.is_whole else None
                if more is None or len(more) == len(changes):
                    continue
                then = self._gain(more)
                if then >= gain - _HAIR:
                    waiting += [n for number in more if number not in changes for n in self.chain.touched[number]]
                    changes, gain = more, then
                break
        return changes

    def _gain(self, changes: Choice) -> float:
        return self.chain.time(self.choice, changes) - self.chain.time({**self.choice, **changes}, changes)

    # --- bands
    def settle(self) -> None:
        """Each op goes back to its given division unless that would cost more than the clock may err about it."""
        for number in self.choice:
            back = {number: self.given[number]}
            if self.choice[number] != self.given[number]:
                priced = self.chain.ops[number]
                band = priced.price(self.given[number]).band.p90 * self.chain.op_time({**self.choice, **back}, number)
                if -self._gain(back) <= band:
                    self.choice.update(back)
        if any(self.choice[n] != self.given[n] for n in self.choice):
            everything = list(self.choice)
            if self.chain.time(self.choice, everything) > self.chain.time(self.given, everything) - _HAIR:
                self.choice = dict(self.given)
