"""Hints to the planner: `with spyre_hint(work_div={"M": 2}):` around the lines they are meant for.

A scope is checked when it is entered, or traced, and travels with the graph's nodes as `node.meta["custom"]["_hint_<n>"]`; n counts
scopes up, so that inner ones have larger numbers. `inductor/importing/hints.py` reads them there.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch.fx import traceback

from openspyre.spec.errors import InvalidArgument
from torch_spyre.torch_seams import runs_while_tracing

PREFIX = "_hint_"
TILES = ("num_tiles_per_dim", "tiles", "slices")
_NAMES = ("named_dims", "expected_named_dims", "expected_reduction_dims")
_KNOWN = ("work_div", *_NAMES, *TILES)
_numbers = itertools.count()


@contextmanager
def spyre_hint(**hints: Mapping[str, int] | Sequence[str]) -> Iterator[None]:
    """`work_div`: cores per named dim; `num_tiles_per_dim` (or tiles, slices): tiles of one named dim; `named_dims`: names of
    the dims of a result that comes from no tensor; `expected_named_dims`, `expected_reduction_dims`: names that are checked."""
    key = _opened(hints)
    with traceback.annotate({key: dict(hints)}):
        yield


def active_hints() -> list[dict[str, object]]:
    """The hints in force, the outermost first."""
    found = traceback.current_meta.get("custom", {})
    return [dict(found[key]) for _, key in sorted((number_of(key), key) for key in found if key.startswith(PREFIX))]


def number_of(key: str) -> int:
    return int(key.removeprefix(PREFIX))


@runs_while_tracing
def _opened(hints: Mapping[str, Mapping[str, int] | Sequence[str]]) -> str:
    """The key of a new scope."""
    _check(hints)
    return f"{PREFIX}{next(_numbers)}"


def _check(hints: Mapping[str, Mapping[str, int] | Sequence[str]]) -> None:
    unknown = sorted(set(hints) - set(_KNOWN))
    if unknown or not hints:
        raise InvalidArgument(f"spyre_hint takes {', '.join(_KNOWN)}, not {', '.join(unknown) or 'nothing'}")
    for name, value in hints.items():
        if name in _NAMES:
            _check_names(name, value)
            continue
        if not isinstance(value, Mapping) or not all(type(n) is int and n > 0 for n in value.values()):
            raise InvalidArgument(f"spyre_hint: {name}={value!r} must give each dim's name a whole number from 1 up")
        if name in TILES and len(value) != 1:
            raise NotImplementedError(f"spyre_hint: {name} takes one dim per scope, not {list(value)}: nest the scopes")
    if sum(name in TILES for name in hints) > 1:
        raise InvalidArgument(f"spyre_hint: {', '.join(hints)} say the same: give num_tiles_per_dim alone")
    for name in TILES[1:]:
        if name in hints:
            warnings.warn(f"spyre_hint: {name} is the old name of num_tiles_per_dim", FutureWarning, stacklevel=4)


def _check_names(hint: str, names: object) -> None:
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"spyre_hint: {hint}={names!r} must be a list of names of dims")
