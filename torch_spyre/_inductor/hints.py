"""Hints to the planner: `with spyre_hint(work_div={"M": 2}):` around the lines they are meant for.

A hint is checked and travels with the graph's nodes (`node.meta["custom"]["_hint_<n>"]`, n counting up with the nesting). No pass
reads hints yet: they change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch.fx import traceback

from openspyre.spec.errors import InvalidArgument
from openspyre.spec.machine import SPYRE

_PREFIX = "_hint_"
_TILES = ("num_tiles_per_dim", "tiles", "slices")
_KNOWN = ("work_div", "named_dims", *_TILES)


@contextmanager
def spyre_hint(**hints: Mapping[str, int] | Sequence[str]) -> Iterator[None]:
    """`work_div`: cores per named dim; `num_tiles_per_dim` (or tiles, slices): tiles of one named dim; `named_dims`: names of
    the dims of a result that comes from no tensor."""
    _check(hints)
    outer = traceback.current_meta.get("custom", {})
    depth = sum(key.startswith(_PREFIX) for key in outer)
    with traceback.annotate({f"{_PREFIX}{depth}": dict(hints)}):
        yield


def active_hints() -> list[dict[str, object]]:
    """The hints in force, the outermost first."""
    found = traceback.current_meta.get("custom", {})
    return [dict(found[key]) for key in sorted(found) if key.startswith(_PREFIX)]


def _check(hints: Mapping[str, Mapping[str, int] | Sequence[str]]) -> None:
    unknown = sorted(set(hints) - set(_KNOWN))
    if unknown or not hints:
        raise InvalidArgument(f"spyre_hint takes {', '.join(_KNOWN)}, not {', '.join(unknown) or 'nothing'}")
    for name, value in hints.items():
        if name == "named_dims":
            continue
        if not isinstance(value, Mapping) or not all(isinstance(n, int) and n > 0 for n in value.values()):
            raise InvalidArgument(f"spyre_hint: {name}={value!r} must give each dim's name a whole number from 1 up")
        if name in _TILES and len(value) != 1:
            raise NotImplementedError(f"spyre_hint: {name} takes one dim per scope, not {list(value)}: nest the scopes")
    _check_cores(hints.get("work_div", {}))


def _check_cores(division: Mapping[str, int] | Sequence[str]) -> None:
    if not isinstance(division, Mapping):
        return
    cores = 1
    for count in division.values():  # a loop: Dynamo traces no prod
        cores *= count
    if cores > SPYRE.cores:
        raise InvalidArgument(
            f"work_division_hint: {dict(division)} asks for {cores} cores, the card has {SPYRE.cores}"
        )
