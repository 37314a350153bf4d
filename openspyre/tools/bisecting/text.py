"""A verdict in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from openspyre.tools.bisecting.matching import Difference, Verdict
from openspyre.tools.bisecting.records import Record

_MOST_NAMES = 6


def lines(verdict: Verdict, names: tuple[str, str], written: Sequence[Path]) -> Iterator[str]:
    found = verdict.difference
    if found is None and not verdict.failure:
        yield f"no difference: {verdict.compared} ops compared, {names[0]} beside {names[1]}"
    elif found is None:
        yield f"no result differs, but a run fails after {verdict.compared} ops. {verdict.failure}"
    else:
        yield from _difference(found, names)
    for name, alone in zip(names, (verdict.alone_a, verdict.alone_b), strict=True):
        if alone:
            yield f"{len(alone)} ops of {name} have no counterpart: {_listed(alone)}"
    yield from (f"written: {path}" for path in written)


def _difference(found: Difference, names: tuple[str, str]) -> Iterator[str]:
    a, b, wrong = found.a, found.b, found.differing
    other = "" if a.name == b.name else f", {b.name} of {names[1]}"
    yield f"first difference: {a.name}{other}, a {a.kind} of launch {a.launch}"
    for name, record in zip(names, (a, b), strict=True):
        if record.source and (record is a or b.source != a.source):
            yield f"  {name}: {record.source}"
    yield f"  {wrong.count} of {wrong.compared} elements of {wrong.elements.tensor} differ"
    place = wrong.elements.place_text(wrong.place)
    yield f"  the worst, {place}: {wrong.value_a!r} in {names[0]}, {wrong.value_b!r} in {names[1]}"
    yield f"  {found.blame}"


def _listed(records: Sequence[Record]) -> str:
    shown = ", ".join(record.name for record in records[:_MOST_NAMES])
    return shown + (", ..." if len(records) > _MOST_NAMES else "")


def as_json(verdict: Verdict, names: tuple[str, str], written: Sequence[Path]) -> dict[str, object]:
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
        }
    return {
        "sides": list(names),
        "compared": verdict.compared,
        "difference": told,
        "failure": verdict.failure,
        "alone": {"a": [r.name for r in verdict.alone_a], "b": [r.name for r in verdict.alone_b]},
        "written": list(map(str, written)),
    }
