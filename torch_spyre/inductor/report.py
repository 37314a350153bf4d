"""What became of the last graphs: bundles, ops, and what could not be imported, with the reason."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from openspyre.compiler.ir import Program


@dataclass(slots=True)
class GraphReport:
    """One compiled graph."""

    graph: str
    bundles: list[tuple[int, int]] = field(default_factory=list)  # number, ops
    fallbacks: list[tuple[str, str]] = field(default_factory=list)  # operation, reason

    def bundle(self, program: Program, number: int) -> None:
        self.bundles.append((number, len(program.ops)))

    def left_out(self, operation: Any, reason: str) -> None:
        self.fallbacks.append((operation.get_operation_name(), reason))

    def reasons(self) -> str:
        return "; ".join(f"{name}: {reason}" for name, reason in self.fallbacks) or "no reason recorded"


_reports: deque[tuple[int, GraphReport]] = deque(maxlen=64)


def current_report(graph: Any) -> GraphReport:
    """The report of a graph being compiled."""
    for identity, report in _reports:
        if identity == id(graph):
            return report
    _reports.append((id(graph), GraphReport(graph.name or f"graph {len(_reports)}")))
    return _reports[-1][1]


def compile_report() -> list[GraphReport]:
    """The last graphs, oldest first."""
    return [report for _, report in _reports]
