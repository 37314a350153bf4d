"""Ops of two runs side by side, and the first pair whose results differ."""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from openspyre.tools.bisecting.records import Elements, Record, Trace


class Blame(StrEnum):
    """What is known of where a difference comes from."""

    OP = "its inputs are the same on both sides: it comes from here"
    STEP = "the fault is in one of them: all that was compared before is the same on both sides"
    EARLIER = "an input differs already: it comes from an op that has no counterpart, or from what the runs were given"
    UNKNOWN = "all that was compared before it is the same on both sides"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """0 and 0: every bit counts."""

    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True, slots=True)
class Differing:
    """Elements of one tensor that differ; the worst of them."""

    elements: Elements
    count: int
    compared: int
    place: int
    value_a: float
    value_b: float


@dataclass(frozen=True, slots=True)
class Difference:
    """The first op whose results differ, its counterpart, and how. `step`: ops that one side computes in one step, of whose results
    it keeps only those that differ."""

    a: Record
    b: Record
    differing: Differing
    blame: Blame
    step: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """`compared`: pairs of ops that were, `results`: of results; `alone`: ops of either side that have no counterpart, `within` those
    of the second side that are part of a step of the first; `failure`: one side ended early."""

    compared: int
    results: int
    difference: Difference | None
    alone_a: tuple[Record, ...]
    alone_b: tuple[Record, ...]
    within: tuple[Record, ...] = ()
    failure: str = ""

    @property
    def is_empty(self) -> bool:
        """Nothing was beside anything, so that nothing is known."""
        return not (self.compared or self.results or self.difference or self.failure)


Members = Mapping[tuple[int, str], Sequence[str]]  # by launch and step: the ops that it computes


def first_difference(
    a: Trace, b: Trace, tolerance: Tolerance, *, by_name: bool, members: Members | None = None
) -> Verdict:
    """In the order of the first run. `by_name`: both ran steps of one bundle, so that counterparts are certain.

    Otherwise counterparts are those that look alike: an op that makes other results of equal inputs is found for certain; of any other
    difference the results of the runs decide whether it is one. `members`: what is known of steps of the first run.
    """
    members = members or {}
    pairs = list(_by_name(a, b) if by_name else _alike(a, b))
    matched = {id(record) for pair in pairs for record in pair}
    alone_a, alone_b = (tuple(r for r in t.records if id(r) not in matched and not r.is_result) for t in (a, b))
    inner = {(launch, name) for (launch, _), names in members.items() for name in names}
    is_inner = [(r.launch, r.name.split("#")[0]) in inner for r in alone_b]
    within, alone_b = (
        tuple(r for r, known in zip(alone_b, is_inner, strict=True) if known is w) for w in (True, False)
    )
    compared, weak = 0, None
    for x, y in pairs:
        candidates = _before(y, b) if by_name and len(x.outputs) > 1 else [y]
        found, some = _differing_outputs(x, candidates, tolerance)
        compared += some
        if found is None:
            continue
        other, differing = found
        blame = _blame(x, other, tolerance)
        step = tuple(members.get((x.launch, x.name.split("#")[0]), ()))
        difference = Difference(x, other, differing, Blame.STEP if step else blame, step)
        if by_name or blame is Blame.OP:
            return Verdict(compared, 0, difference, alone_a, alone_b, within)
        weak = weak or difference
    differing_result, results = (None, 0) if by_name else _differing_results(a, b, tolerance)
    weak = differing_result if results and (weak is None or differing_result is None) else weak
    failure = ""
    if a.failure or b.failure:
        failure = f"A: {a.failure or 'runs to its end'}; B: {b.failure or 'runs to its end'}"
    return Verdict(compared, results, weak, alone_a, alone_b, within, failure)


def _differing_results(a: Trace, b: Trace, tolerance: Tolerance) -> tuple[Difference | None, int]:
    """The first result of the run with fewer launches that the other one has not; and how many were compared with one like them."""
    mine, others = ([r for r in trace.records if r.is_result] for trace in (a, b))
    if not mine or not others:
        return None, 0
    launches = [max(record.launch for record in trace.records) for trace in (a, b)]
    turned = launches[1] <= launches[0]  # a run of many launches leaves results that a later one writes over
    few, many = (others, mine) if turned else (mine, others)
    compared = 0
    for record in few:
        wrong: tuple[Record, Differing] | None = None
        (x,) = record.outputs
        for other in many:
            (y,) = other.outputs
            if not _is_same_tensor(x, y, exactly=False):
                continue
            pair = (y, x) if turned else (x, y)
            found, places = compare(*pair, tolerance)
            if not places:
                continue
            if found is None:
                wrong = None
                compared += 1
                break
            if wrong is None or found.count <= wrong[1].count:
                wrong = other, found
        else:
            if wrong is not None:
                sides = (wrong[0], record) if turned else (record, wrong[0])
                return Difference(*sides, wrong[1], Blame.UNKNOWN), compared + 1
    return None, compared


def _by_name(a: Trace, b: Trace) -> Iterator[tuple[Record, Record]]:
    known = {(record.launch, record.name): record for record in b.records}
    for record in a.records:
        if (record.launch, record.name) in known:
            yield record, known[record.launch, record.name]


def _alike(a: Trace, b: Trace) -> Iterator[tuple[Record, Record]]:
    """The k-th op of its kind, dims, inputs and line with the k-th such one of the other run; of what is left, fewer of these count."""
    found: dict[int, Record] = {}
    taken: set[int] = set()
    digests = {id(record): _digest(record) for trace in (a, b) for record in trace.records}
    keys: tuple[Callable[[Record], Hashable], ...] = (
        lambda r: (r.shape, digests[id(r)], r.source),
        lambda r: (r.shape, digests[id(r)]),
        lambda r: (r.shape, r.source),
        lambda r: r.shape,
    )
    for key in keys:
        waiting: dict[Hashable, deque[Record]] = defaultdict(deque)
        for record in b.records:
            if id(record) not in taken and not record.is_result:
                waiting[key(record)].append(record)
        for record in a.records:
            if id(record) not in found and not record.is_result and waiting[key(record)]:
                other = waiting[key(record)].popleft()
                found[id(record)] = other
                taken.add(id(other))
    yield from ((record, found[id(record)]) for record in a.records if id(record) in found)


def _digest(record: Record) -> bytes:
    """Of all that an op reads."""
    found = hashlib.sha256()
    for elements in record.inputs:
        found.update(np.ascontiguousarray(elements.places).tobytes())
        found.update(np.ascontiguousarray(elements.codes).tobytes())
    return found.digest()


def _before(record: Record, trace: Trace) -> list[Record]:
    """An op and those before it in its launch, the nearest first: a step that was fused has results of several."""
    own = [other for other in trace.records if other.launch == record.launch]
    place = next(number for number, other in enumerate(own) if other is record)
    return own[place::-1]


def _differing_outputs(
    a: Record, candidates: list[Record], tolerance: Tolerance
) -> tuple[tuple[Record, Differing] | None, bool]:
    """The first output that differs, and whose it is; and whether anything could be compared."""
    some = False
    for number, x in enumerate(a.outputs):
        nearest: tuple[Record, Differing] | None = None
        for b in candidates:
            outputs = b.outputs[number : number + 1] if len(candidates) == 1 else b.outputs
            found = [compare(x, y, tolerance) for y in outputs if _is_same_tensor(x, y, exactly=len(candidates) > 1)]
            some |= any(count > 0 for _, count in found)
            if any(differing is None and count > 0 for differing, count in found):
                nearest = None
                break
            wrong = min((d for d, _ in found if d is not None), key=lambda d: d.count, default=None)
            if wrong is not None and (nearest is None or wrong.count < nearest[1].count):
                nearest = b, wrong
        if nearest is not None:
            return nearest, True
    return None, some


def _is_same_tensor(a: Elements, b: Elements, *, exactly: bool) -> bool:
    """May be; `exactly`: where it is not known which one it is, all of its places must be there."""
    if a.format is not b.format or a.dims != b.dims:
        return False
    return not exactly or (a.tensor == b.tensor and bool(np.isin(a.places, b.places).all()))


def _same_tensors(a: tuple[Elements, ...], b: tuple[Elements, ...]) -> Iterator[tuple[Elements, Elements]]:
    yield from ((x, y) for x, y in zip(a, b, strict=False) if _is_same_tensor(x, y, exactly=False))


def _blame(a: Record, b: Record, tolerance: Tolerance) -> Blame:
    pairs = list(_same_tensors(a.inputs, b.inputs))
    found = [compare(x, y, tolerance) for x, y in pairs]
    if any(differing is not None for differing, _ in found):
        return Blame.EARLIER
    if pairs and len(pairs) == len(a.inputs) == len(b.inputs):
        return Blame.OP
    return Blame.UNKNOWN


def compare(a: Elements, b: Elements, tolerance: Tolerance) -> tuple[Differing | None, int]:
    """Of elements that both sides have."""
    if a.places.shape == b.places.shape and np.array_equal(a.places, b.places):
        places, x, y = a.places, a.codes, b.codes
    else:
        places, at_a, at_b = np.intersect1d(a.places, b.places, assume_unique=True, return_indices=True)
        x, y = a.codes[at_a], b.codes[at_b]
    unequal = np.nonzero(np.asarray(x) != np.asarray(y))[0]
    if unequal.size == 0:
        return None, int(places.size)
    values_a, values_b = (Elements(e.tensor, e.format, (), e.places, c[unequal]).values for e, c in ((a, x), (b, y)))
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(values_a - values_b)
        allowed = tolerance.atol + tolerance.rtol * np.abs(values_b)
        wrong = ~(distance <= allowed) if tolerance != Tolerance() else np.ones(unequal.size, np.bool_)
        wrong &= ~(np.isnan(values_a) & np.isnan(values_b)) | (tolerance == Tolerance())
    if not wrong.any():
        return None, int(places.size)
    worst = int(np.argmax(np.where(wrong, _ranked(distance), -1.0)))
    found = Differing(
        a,
        int(wrong.sum()),
        int(places.size),
        int(places[unequal[worst]]),
        float(values_a[worst]),
        float(values_b[worst]),
    )
    return found, int(places.size)


def _ranked(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """A number beside a NaN is further than any two numbers."""
    ranked: NDArray[np.float64] = np.nan_to_num(distance, nan=np.inf, posinf=np.inf)
    return ranked
