"""A verdict in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from openspyre.tools.bisecting.matching import Difference, Verdict
from openspyre.tools.bisecting.records import Record

_MOST_NAMES = 6


def lines(
    verdict: Verdict, names: tuple[str, str], written: Sequence[Path], notes: Sequence[str] = ()
) -> Iterator[str]:
    found = verdict.difference
    if verdict.is_empty:
        yield from _nothing(verdict, names)
    elif found is None and not verdict.failure:
        results = f" and {verdict.results} results" if verdict.results else ""
        yield f"no difference: {verdict.compared} ops{results} compared, {names[0]} beside {names[1]}"
    elif found is None:
        yield f"no result differs, but a run fails after {verdict.compared} ops. {verdict.failure}"
    else:
        yield from _difference(found, names)
    for name, alone in zip(names, (verdict.alone_a, verdict.alone_b), strict=True):
        if alone:
            yield f"{len(alone)} ops of {name} have no counterpart: {_listed(alone)}"
    yield from notes
    yield from (f"written: {path}" for path in written)


def _nothing(verdict: Verdict, names: tuple[str, str]) -> Iterator[str]:
    """Two runs without anything in common: that is no agreement."""
    a, b = len(verdict.alone_a), len(verdict.alone_b)
    if not (a and b):
        empty = " and ".join(name for name, count in zip(names, (a, b), strict=True) if not count)
        yield f"nothing could be compared: {empty} computed nothing whose result is known"
        return
    yield (
        f"nothing could be compared: none of the {a} ops of {names[0]} computes the same kind of thing on the same dims as one of "
        f"the {b} of {names[1]}, and no result has the same sizes and dtype; are these two runs of one computation?"
    )


def _difference(found: Difference, names: tuple[str, str]) -> Iterator[str]:
    a, b, wrong = found.a, found.b, found.differing
    other = "" if a.name == b.name else f", {b.name} of {names[1]}"
    if found.step:
        yield f"first difference: one step of {names[0]}, in launch {a.launch}, computes {', '.join(found.step)}"
    else:
        yield f"first difference: {a.name}{other}, a {a.kind} of launch {a.launch}"
    for name, record in zip(names, (a, b), strict=True):
        if record.source and (record is a or b.source != a.source):
            yield f"  {name}: {record.source}"
    last = f", which {b.name} of {names[1]} makes," if found.step else ""
    yield f"  {wrong.count} of {wrong.compared} elements of {wrong.elements.tensor}{last} differ"
    place = wrong.elements.place_text(wrong.place)
    yield f"  the worst, {place}: {wrong.value_a!r} in {names[0]}, {wrong.value_b!r} in {names[1]}"
    yield f"  {found.blame}"


def _listed(records: Sequence[Record]) -> str:
    shown = ", ".join(record.name for record in records[:_MOST_NAMES])
    return shown + (", ..." if len(records) > _MOST_NAMES else "")


def as_json(
    verdict: Verdict, names: tuple[str, str], written: Sequence[Path], notes: Sequence[str] = ()
) -> dict[str, object]:
    found = verdict.difference
    told: dict[str, object] | None = None
    if found is not None:
        wrong = found.differing
        told = {
            "a": {"op": found.a.name, "launch": found.a.launch, "source": found.a.source},
            "b": {"op": found.b.name, "launch": found.b.launch, "source": found.b.source},
            "kind": found.a.kind,
            "tensor": wrong.elements.tensor,
            "differing": wrong.count,
            "compared": wrong.compared,
            "worst": wrong.elements.place_text(wrong.place),
            "value_a": repr(wrong.value_a),
            "value_b": repr(wrong.value_b),
            "blame": found.blame.name.lower(),
            "step": list(found.step),
        }
    return {
        "sides": list(names),
        "compared": verdict.compared,
        "results_compared": verdict.results,
        "problem": "\n".join(_nothing(verdict, names)) if verdict.is_empty else "",
        "difference": told,
        "failure": verdict.failure,
        "alone": {"a": [r.name for r in verdict.alone_a], "b": [r.name for r in verdict.alone_b]},
        "within_steps": [r.name for r in verdict.within],
        "notes": list(notes),
        "written": list(map(str, written)),
    }
