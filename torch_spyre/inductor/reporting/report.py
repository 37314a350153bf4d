"""What became of the last graphs: bundles, ops, relayouts, fallbacks, memory and time, each with its reason.

A graph is imported while it is compiled and specialised when it is first launched on inputs of certain sizes and layouts: a
report grows with its graph. `torch_spyre.compile_report()` returns the last ones; printing one shows all of it.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import astuple, dataclass, field
from typing import Any

from openspyre.artifact.emitted import Extension
from torch_spyre.inductor.graph import Graph, origin_of, plain_origin


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A node that runs outside the bundles, as eager runs it."""

    operator: str
    reason: str
    origin: str


BUNDLE_LETTERS = 12  # of a bundle's key, by which reports, traces and torch's provenance files name it


@dataclass(frozen=True, slots=True)
class Relayout:
    """A movement of data that a layout made necessary."""

    op: str
    tensor: str
    bytes: int
    reason: str
    origin: str


@dataclass(slots=True)
class Specialisation:
    """A bundle compiled for inputs of certain sizes and layouts."""

    symbols: dict[str, int]
    found_on_disk: bool = False
    ops: int = 0
    steps: int = 0  # of the card's program: fewer than ops where some were fused
    relayouts: list[Relayout] = field(default_factory=list)
    turned: list[Relayout] = field(default_factory=list)  # by the contractions that read them, block by block
    extensions: list[Extension] = field(default_factory=list)
    argument_bytes: int = 0
    pool_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # per stage
    retiled_weights: list[str] = field(default_factory=list)
    refused_fusion: list[str] = field(default_factory=list)  # what was wrong with the fused program: the other one runs

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.symbols.items())
        title = f"    specialised{f' for {sizes}' if sizes else ''}: "
        retiled = [f"      weight {name} was tiled anew, once, as its readers want it" for name in self.retiled_weights]
        found = "found on disk, " if self.found_on_disk else ""
        lines = [
            f"{title}{found}{self.ops} ops in {self.steps} steps, {len(self.relayouts)} relayouts, {len(self.extensions)} extensions, "
            f"{_size(self.argument_bytes)} of tensors and a pool of {_size(self.pool_bytes)}",
            "      " + ", ".join(f"{stage} {seconds * 1e3:.1f} ms" for stage, seconds in self.seconds.items()),
        ]
        lines += [
            f"      relayout of {r.tensor} for {r.op}, {_size(r.bytes)}: {r.reason}{_at(r.origin)}"
            for r in self.relayouts
        ]
        lines += [
            f"      {t.tensor} is turned by {t.op}, block by block, {_size(t.bytes)}: {t.reason}{_at(t.origin)}"
            for t in self.turned
        ]
        lines += [
            f"      {e.row} is an extension of this card: {e.reason}{_at(str(e.origin))}"
            for e in dict.fromkeys(self.extensions)
        ]
        lines += [f"      runs without fusion, which made it wrong: {problem}" for problem in self.refused_fusion]
        return "\n".join([*lines, *retiled])

    def facts(self) -> dict[str, Any]:
        """What is the same whenever this is compiled: kept on disk with the program, for the reports of those who find it."""
        relayouts = [astuple(relayout) for relayout in self.relayouts]
        numbers = {"ops": self.ops, "steps": self.steps, "bytes": [self.argument_bytes, self.pool_bytes]}
        moved = {"relayouts": relayouts, "turned": [astuple(turned) for turned in self.turned]}
        extensions = [[e.row, e.reason, plain_origin(e.origin)] for e in self.extensions]
        return numbers | moved | {"extensions": extensions} | {"refused_fusion": self.refused_fusion}

    def take_facts(self, facts: dict[str, Any]) -> None:
        self.ops, self.steps = int(facts["ops"]), int(facts["steps"])
        self.argument_bytes, self.pool_bytes = map(int, facts["bytes"])
        self.relayouts = [Relayout(*relayout) for relayout in facts["relayouts"]]
        self.turned = [Relayout(*turned) for turned in facts["turned"]]
        self.extensions = [Extension(row, reason, origin_of(origin)) for row, reason, origin in facts["extensions"]]
        self.refused_fusion = [str(problem) for problem in facts["refused_fusion"]]


@dataclass(slots=True)
class BundleReport:
    """One launch of a graph."""

    key: str
    calls: int
    specialisations: list[Specialisation] = field(default_factory=list)


@dataclass(slots=True)
class GraphReport:
    """One graph. `imported` False: an earlier process imported it."""

    graph: str
    bundles: list[BundleReport] = field(default_factory=list)
    fallbacks: list[LeftOut] = field(default_factory=list)
    import_seconds: float = 0.0
    imported: bool = True

    def bundle(self, key: str, graph: Graph) -> None:
        self.bundles.append(BundleReport(key, len(graph.calls)))

    def left_out(self, operator: str, reason: str, origin: str) -> None:
        self.fallbacks.append(LeftOut(operator, reason, origin))

    def __str__(self) -> str:
        how = f"imported in {self.import_seconds * 1e3:.1f} ms" if self.imported else "imported by an earlier process"
        lines = [f"{self.graph}: {len(self.bundles)} bundle(s), {len(self.fallbacks)} fallback(s), {how}"]
        for bundle in self.bundles:
            lines.append(f"  bundle {bundle.key[:BUNDLE_LETTERS]}: {bundle.calls} calls")
            lines += map(str, bundle.specialisations)
        lines += [f"  outside: {left.operator}: {left.reason}{_at(left.origin)}" for left in self.fallbacks]
        return "\n".join(lines)


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def _at(origin: str) -> str:
    return f" ({origin})" if origin else ""


_log = logging.getLogger("spyre.inductor")
_reports: deque[GraphReport] = deque(maxlen=64)


def new_report(name: str) -> GraphReport:
    """The report of a graph that is about to be imported."""
    _reports.append(GraphReport(name))
    return _reports[-1]


def found_graph(name: str, keys: list[tuple[str, int]], fallbacks: list[tuple[str, str, str]]) -> None:
    """Generated code that Inductor found on disk tells what its import told; `keys` are its bundles and their calls."""
    known = {bundle.key for report in _reports for bundle in report.bundles}
    if not all(key in known for key, _ in keys):
        bundles = [BundleReport(key, calls) for key, calls in keys]
        _reports.append(GraphReport(name, bundles, [LeftOut(*left) for left in fallbacks], imported=False))


def report_of(key: str) -> GraphReport | None:
    """The last graph that has this bundle."""
    return next((report for report in reversed(_reports) if any(b.key == key for b in report.bundles)), None)


def report_specialisation(key: str, graph: Graph, specialisation: Specialisation) -> None:
    """Add to the reports of every graph that has this bundle; a graph that nobody imported here gets one now."""
    bundles = [bundle for report in _reports for bundle in report.bundles if bundle.key == key]
    if not bundles:
        _reports.append(GraphReport(graph.name, [BundleReport(key, len(graph.calls))], imported=False))
        bundles = _reports[-1].bundles
    for bundle in bundles:
        bundle.specialisations.append(specialisation)
    _log.info("graph %s, bundle %s, %d calls\n%s", graph.name, key[:BUNDLE_LETTERS], len(graph.calls), specialisation)


def compile_report() -> list[GraphReport]:
    """The last graphs, oldest first."""
    return list(_reports)
