"""Watches a specialisation: for the report, and for the debug directory of TORCH_COMPILE_DEBUG=1."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from openspyre.artifact.emitted import Emitted
from openspyre.artifact.launch_files import write_launch
from openspyre.backend import compile_emitted
from openspyre.card.cards import settings_in_force
from openspyre.clock.published import published_cost
from openspyre.compiler.ir import Access, Buffer, Op, Program, Role
from openspyre.compiler.legality import misfits, moved_bytes, reason_of, turned
from openspyre.compiler.loops import listed
from openspyre.compiler.text import print_program
from openspyre.program.model import Program as CardProgram
from openspyre.program.text import print_program as print_card_program
from torch_spyre.inductor.border import get_debug_dir, inductor_config
from torch_spyre.inductor.graph import Graph, to_text
from torch_spyre.inductor.reporting.report import Relayout, Specialisation

_log = logging.getLogger("spyre.compiler")


def debugging() -> bool:
    """Whether everything is compiled anew and shown (TORCH_COMPILE_DEBUG=1)."""
    return bool(inductor_config.trace.enabled)


@dataclass(slots=True)
class LastGraph:
    """A graph that was specialised: its bundle if it was compiled here, and the name of its program in the cache."""

    key: str
    graph: Graph
    specialisation: Specialisation
    emitted: Emitted | None = None
    request: str = ""


_MOST_GRAPHS = 8
_last: dict[tuple[object, ...], LastGraph] = {}  # by graph and sizes, the oldest first
_lock = Lock()


def last_graphs() -> list[LastGraph]:
    """The oldest first, for reports; each once, however often it was found or compiled again."""
    with _lock:
        return list(_last.values())


def _remember(seen: LastGraph) -> None:
    which = (seen.key, *sorted(seen.specialisation.symbols.items()))
    with _lock:
        before = _last.pop(which, None)
        if before is not None:  # a graph that is found on disk brings no bundle; the one of before is of the same graph
            seen.emitted = before.emitted
        _last[which] = seen
        for oldest in list(_last)[:-_MOST_GRAPHS]:
            del _last[oldest]


class Watch:
    """Sees one graph being specialised; `specialisation` is what it has seen."""

    def __init__(self, key: str, graph: Graph, symbols: dict[str, int]) -> None:
        self.specialisation = Specialisation(symbols)
        self._seen = LastGraph(key, graph, self.specialisation)
        _remember(self._seen)
        self._before: Program | None = None
        self._number = 0
        self._directory = _directory(graph, key) if debugging() else None
        self._write("graph.json", lambda: to_text(graph))

    def saw_expansion(self, program: Program, seconds: float) -> None:
        self.saw_pass("Imported", program, seconds)

    def saw_pass(self, name: str, program: Program, seconds: float) -> None:
        self.specialisation.seconds[name] = seconds
        if name == "InsertRelayouts" and self._before is not None:
            self.specialisation.relayouts = _relayouts(self._before)
            self.specialisation.turned = _turned(program)
        self._before = program
        self._write(f"{self._number:02}_{name}.ir", lambda: print_program(program))
        self._number += 1
        _log.debug("%s: %s: %d ops, %.2f ms", program.name, name, sum(1 for _ in listed(program.body)), seconds * 1e3)

    def saw_bundle(self, emitted: Emitted, seconds: float) -> None:
        self._seen.emitted = emitted
        tensors = [a for a in emitted.arguments if a.role not in ("pool", "number") and a.value is None]
        self.specialisation.seconds["emit"] = seconds
        self.specialisation.ops = len(emitted.executions)
        self.specialisation.extensions = list(emitted.extensions)
        self.specialisation.argument_bytes = sum(argument.bytes for argument in tensors)
        self.specialisation.pool_bytes = sum(a.bytes for a in emitted.arguments if a.role == "pool")
        if self._directory is not None:
            write_launch(emitted, self._directory / "bundle")
        self._write("unfused.program", lambda: print_card_program(compile_emitted(emitted)))
        if tells_cost():
            tell_cost(emitted)

    def saw_program(self, program: CardProgram, seconds: float) -> None:
        self.specialisation.seconds["back end"] = seconds
        self.specialisation.steps = len(program.steps)
        self._write("card.program", lambda: print_card_program(program))

    def saw_refusal(self, problems: Sequence[str]) -> None:
        self.specialisation.refused_fusion = list(problems)

    def _write(self, name: str, text: Callable[[], str]) -> None:
        """Text is made only where somebody asked for it: that of a whole model costs more than compiling it."""
        if self._directory is not None:
            (self._directory / name).write_text(text(), encoding="utf-8")


def tells_cost() -> bool:
    """Whether every graph is compiled and priced by the published formula (SPYRE_DUMP_COST)."""
    settings = settings_in_force()
    return settings.dump_cost or settings.dump_cost_file is not None


def tell_cost(emitted: Emitted) -> None:
    report, settings = published_cost(emitted.bundle), settings_in_force()
    if settings.dump_cost:
        print(report, file=sys.stderr)
    if settings.dump_cost_file is not None:
        with settings.dump_cost_file.open("a", encoding="utf-8") as file:
            file.write(report.json() + "\n")


def tell(name: str, how: str, request: str, told: Specialisation) -> None:
    """One line per specialised graph, also for one that goes through no pass because it was found on disk."""
    for seen in last_graphs():
        if seen.specialisation is told:
            seen.request = request
    _log.info(
        "%s: %s as %s: %d ops in %d steps, %d relayouts, a pool of %d bytes, %.2f ms",
        name, how, request[:12], told.ops, told.steps, len(told.relayouts), told.pool_bytes,
        sum(told.seconds.values()) * 1e3,
    )  # fmt: skip


def _directory(graph: Graph, key: str) -> Path:
    """One per specialisation, in the run's debug directory."""
    base = Path(get_debug_dir()) / f"spyre_{graph.name}_{key[:8]}"
    found = base
    for number in range(1, 1000):
        if not found.exists():
            break
        found = base.with_name(f"{base.name}.{number}")
    found.mkdir(parents=True)
    return found


def _relayouts(program: Program) -> list[Relayout]:
    """What InsertRelayouts is about to move, and why: asked before it does."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    return [
        _told(op, access, buffers, reason_of(op, access, buffers))
        for op, _ in listed(program.body)
        for access in misfits(op, buffers)
    ]


def _turned(program: Program) -> list[Relayout]:
    """What contractions turn themselves."""
    buffers = {buffer.name: buffer for buffer in program.buffers}
    found = ((op, turned(op, buffers)) for op, _ in listed(program.body))
    return [_told(op, access, buffers, "its sticks run along k") for op, access in found if access is not None]


def _told(op: Op, access: Access, buffers: dict[str, Buffer], reason: str) -> Relayout:
    role = buffers[access.buffer].role
    tensor = access.buffer if role is Role.TEMP else f"{role} {access.buffer}"
    return Relayout(op.name, tensor, moved_bytes(op, access), reason, str(op.origin))
