"""`work_div` hints: the user's own division, by names of dims. It is the whole division: dims without a hint stay whole."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from openspyre.compiler.planner.constraints import Constraints, Undividable
from openspyre.compiler.planner.space import Space, SpaceKind, Splits, Symbol
from openspyre.spec.errors import HintWarning

Hint = Mapping[str, int]


def hinted_splits(
    space: Space, hint: Hint, constraints: Constraints, commits: Mapping[int, int], cores: int
) -> Splits | None:
    """None for an op that takes no hints."""
    if not hint:
        return None
    if space.kind is SpaceKind.TOPK:
        _warn(space, f"work_div {dict(hint)} has no effect: its division is fixed")
        return None
    chosen: dict[int, int] = {}
    left = cores
    for name, split in hint.items():
        symbol = _bound(space, name, chosen)
        _check(space, name, symbol, split, constraints)
        if split > left:
            _warn(space, f"work_div {name}={split} is left out: of {cores} cores {left} are left to divide by")
            continue
        chosen[symbol] = split
        left //= split
    summed = [_title(space.symbols[s]) for s, split in chosen.items() if split > 1 and space.symbols[s].reduces]
    if len(summed) > 1:
        raise Undividable(
            f"{space.op}: work_div splits {' and '.join(summed)}, of the dims that are summed one can be split"
        )
    short = [
        f"{_title(space.symbols[symbol])!r} in {chosen.get(symbol, 1)} parts where it takes {split}"
        for symbol, split in commits.items()
        if chosen.get(symbol, 1) < split
    ]
    if short:
        _warn(space, f"work_div lets a core reach too far into a tensor: it leaves {', '.join(short)}")
    return space.splits(chosen)


def _warn(space: Space, what: str) -> None:
    warnings.warn(f"{space.op}: {what}", HintWarning, stacklevel=3)


def _bound(space: Space, name: str, taken: Mapping[int, int]) -> int:
    """The first symbol of that name which no other hint has."""
    for number, symbol in enumerate(space.symbols):
        if name in symbol.named and number not in taken:
            return number
    known = ", ".join(dict.fromkeys(known for symbol in space.symbols for known in symbol.named)) or "none has a name"
    raise Undividable(
        f"{space.op}: work_div names dim {name!r}, the op's dims are {known}: name_tensor_dims names them"
    )


def _title(symbol: Symbol) -> str:
    return " x ".join(symbol.named) or symbol.name


def _check(space: Space, name: str, symbol: int, split: object, constraints: Constraints) -> None:
    where, units = f"{space.op}: work_div {name}={split!r}", space.symbols[symbol].units
    if not isinstance(split, int) or isinstance(split, bool) or split < 1:
        raise Undividable(f"{where} is no number of cores: a whole number from 1 up is wanted")
    if units % split:
        what = "sticks" if space.symbols[symbol].is_stick else "elements"
        raise Undividable(f"{where} does not divide the {units} {what} of the dim evenly")
    if split > 1 and symbol in constraints.blocked:
        raise Undividable(
            f"{where} splits a dim that must stay whole: its last stick is padded, or cores would meet in it"
        )
    if constraints.pinned.get(symbol, split) != split:
        raise Undividable(f"{where}: this op needs that dim in {constraints.pinned[symbol]} parts")
