"""What became of the last graphs: bundles, calls, and what could not be imported, with the reason."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from torch_spyre.inductor.graph import Graph


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A node that runs outside the bundles, as eager runs it."""

    operator: str
    reason: str
    origin: str


@dataclass(slots=True)
class GraphReport:
    """One compiled graph."""

    graph: str
    bundles: list[tuple[str, int]] = field(default_factory=list)  # key, calls
    fallbacks: list[LeftOut] = field(default_factory=list)

    def bundle(self, key: str, graph: Graph) -> None:
        self.bundles.append((key, len(graph.calls)))

    def left_out(self, operator: str, reason: str, node: Any) -> None:
        lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
        origin = next((line for line in reversed(lines) if line.startswith("File ")), "")
        self.fallbacks.append(LeftOut(operator, reason, origin))


_reports: deque[GraphReport] = deque(maxlen=64)


def new_report(name: str) -> GraphReport:
    """The report of a graph that is about to be compiled."""
    _reports.append(GraphReport(name))
    return _reports[-1]


def compile_report() -> list[GraphReport]:
    """The last graphs, oldest first."""
    return list(_reports)
