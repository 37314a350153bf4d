"""Two plans side by side: executions of the same op in the same order next to each other, and the totals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher

from openspyre.tools.explaining.records import Execution, Explanation, Totals
from openspyre.tools.explaining.text import bytes_, table, us

_HEAD = ("op", "sizes", "division", "time", "op (other)", "division (other)", "time (other)", "change")
_RIGHT = frozenset(["time", "time (other)", "change"])


@dataclass(frozen=True, slots=True)
class Pair:
    """What one plan does and the other does in its place; None: nothing."""

    this: Execution | None
    other: Execution | None

    @property
    def change_us(self) -> float:
        return (self.other.time_us if self.other else 0.0) - (self.this.time_us if self.this else 0.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    this: Explanation
    other: Explanation
    pairs: tuple[Pair, ...]

    def json(self) -> str:
        pairs = [asdict(pair) | {"change_us": pair.change_us} for pair in self.pairs]
        totals = {"this": asdict(self.this.totals), "other": asdict(self.other.totals)}
        return json.dumps(
            {"note": self.other.note or self.this.note, "totals": totals, "pairs": pairs}, indent=2, allow_nan=False
        )

    def __str__(self) -> str:
        return "\n".join(_render(self))


def compare(this: Explanation, other: Explanation) -> Comparison:
    ours, theirs = list(this.executions), list(other.executions)
    matched = SequenceMatcher(None, [e.op for e in ours], [e.op for e in theirs], autojunk=False)
    pairs: list[Pair] = []
    for what, i, j, k, m in matched.get_opcodes():
        if what == "equal":
            pairs += [Pair(*both) for both in zip(ours[i:j], theirs[k:m], strict=True)]
        else:
            pairs += [Pair(execution, None) for execution in ours[i:j]]
            pairs += [Pair(None, execution) for execution in theirs[k:m]]
    return Comparison(this, other, tuple(pairs))


def _render(found: Comparison) -> Iterator[str]:
    yield from filter(None, (found.this.note, found.other.note))
    yield from table(_HEAD, [_row(pair) for pair in found.pairs], _RIGHT)
    yield from _totals(found.this.totals, found.other.totals)


def _row(pair: Pair) -> tuple[str, ...]:
    this, other = pair.this, pair.other
    sizes = "x".join(str(dim.size) for execution in (this or other,) if execution for dim in execution.dims)
    return (
        f"{this.number} {this.op}" if this else "-",
        sizes,
        this.division if this else "-",
        us(this.time_us) if this else "-",
        f"{other.number} {other.op}" if other else "-",
        other.division if other else "-",
        us(other.time_us) if other else "-",
        f"{'-' if pair.change_us < 0 else '+'}{us(abs(pair.change_us))}",
    )


def _totals(this: Totals, other: Totals) -> Iterator[str]:
    change = f" ({other.card_us / this.card_us - 1:+.1%})" if this.card_us else ""
    yield f"the card takes {us(this.card_us)}, the other plan {us(other.card_us)}{change}"
    yield f"nine of ten between {us(this.low_us)} and {us(this.high_us)}, the other {us(other.low_us)} and {us(other.high_us)}"
    if this.round_trips_us or other.round_trips_us:
        yield f"round trips to the CPU {us(this.round_trips_us)}, the other {us(other.round_trips_us)}"
    yield f"launches {us(this.launches_us)}, the other {us(other.launches_us)}"
    moved = (
        ("through memory", this.memory_bytes, other.memory_bytes),
        ("in scratchpads", this.scratchpad_bytes, other.scratchpad_bytes),
        ("over the ring", this.ring_bytes, other.ring_bytes),
    )
    yield from (
        f"{where} {bytes_(mine)}, the other {bytes_(theirs)}" for where, mine, theirs in moved if mine or theirs
    )
