"""Copies between divisions: a tensor whose consumer divides it differently goes from core to core, and stays in the scratchpads.

The hardware's `shuffle` does that. It needs a tensor that is written once, and divisions in which every core has a slice of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from openspyre.compiler.ir import Role
from openspyre.compiler.scratchpad.eligibility import Tensors, mismatches
from openspyre.compiler.scratchpad.uses import Use
from openspyre.compiler.scratchpad.views import View
from openspyre.spec.ops import TABLE, Kind


@dataclass(frozen=True, slots=True)
class Relayout:
    """A tensor's copy in another division, for these ops; it is made before the first of them."""

    source: str
    view: View
    consumers: tuple[int, ...]


def relayouts_of(tensors: Tensors, name: str) -> tuple[Relayout, ...] | str:
    """The copies that would let a tensor stay, or why there are none."""
    uses = tensors.uses[name]
    mismatch = next(mismatches(uses), "")
    if not isinstance(uses[0].view, View) or not uses[0].view.is_whole:
        return mismatch
    refusal = next(tensors.bars(name, relaid=True), None) or next(_refusals(tensors, uses), None)
    if refusal is not None:
        return f"{mismatch}; no copy between cores helps: {refusal}"
    writer = uses[0]
    found: dict[View, list[int]] = {}
    for use in uses[1:]:
        assert isinstance(use.view, View)
        if use.view != writer.view:
            found.setdefault(use.view, []).append(use.when)
    return tuple(Relayout(name, view, tuple(sorted(set(whens)))) for view, whens in found.items())


def _refusals(tensors: Tensors, uses: list[Use]) -> Iterator[str]:
    writer, readers = uses[0], [use for use in uses if not use.writes]
    assert isinstance(writer.view, View)
    if writer.work.is_restickify:
        roles = [tensors.buffers[access.buffer].role for access in writer.work.op.accesses]
        if Role.INPUT in roles:
            yield "it is a restickified input"
    if len({use.when for use in readers}) != len(readers):
        yield "an op reads it twice"
    for use in readers:
        name = use.work.op.name
        if not isinstance(use.view, View) or not use.view.is_whole:
            yield f"{name} does not divide it over all its cores"
        elif use.view.cores != writer.view.cores:
            yield f"{name} has {use.view.cores} cores, {writer.work.op.name} has {writer.view.cores}"
        elif any(dim.reduced and dim.split > 1 for dim in use.work.op.dims):
            yield f"{name} adds up over cores"
        elif use.view != writer.view:
            kind = TABLE[use.work.op.row].kind
            if kind not in (Kind.POINTWISE, Kind.CONTRACTION):
                yield f"{name} is neither pointwise nor a product"
            elif not is_uniform(writer.view, use.view):
                yield f"cores would get parts of it from different numbers of cores for {name}"


@lru_cache(maxsize=4096)
def is_uniform(source: View, target: View) -> bool:
    """Whether all cores get from equally many others, and give to equally many."""
    strides = sorted({one.stride for one in (*source.slices, *target.slices)})
    given = [[_range(source, core, stride) for stride in strides] for core in range(source.cores)]
    taken = [[_range(target, core, stride) for stride in strides] for core in range(target.cores)]
    pairs = [
        (giver, taker)
        for (giver, here), (taker, there) in product(enumerate(given), enumerate(taken))
        if all(a < d and c < b for (a, b), (c, d) in zip(here, there, strict=True))
    ]
    return all(
        len(set(Counter(pair[side] for pair in pairs).values())) == 1
        and len({pair[side] for pair in pairs}) == source.cores
        for side in (0, 1)
    )


def _range(view: View, core: int, stride: int) -> tuple[float, float]:
    """A core's part of a device dim, as a fraction of it."""
    for one in view.slices:
        if one.stride == stride:
            index = core // one.apart % one.split
            return index / one.split, (index + 1) / one.split
    return 0.0, 1.0
