"""The live view: the whole terminal, drawn anew with every sample, until `q` or Ctrl-C."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from openspyre.tools.monitoring.samples import Sample
from openspyre.tools.monitoring.tables import CARD_HEAD, PROCESS_HEAD, Cards, card_rows, notes, process_rows, title

_QUIT = frozenset("qQ\x03\x04")
_HOT, _WARM = 80, 30  # percent
_FRAME, _COMMAND = 4, 12  # columns
_DISPENSABLE = (
    "command",
    "copies/s",
    "from card",
    "to card",
    "queue",
    "bandwidth",
    "processes",
    "memory",
    "launches/s",
)


def show(sample: Callable[[Callable[[], bool]], Sample], here: Cards, version: str, count: int | None) -> None:
    """Draws samples until the user leaves, or `count` of them."""
    console = Console()
    with _single_keys() as leave, Live(console=console, screen=True, auto_refresh=False) as live:
        live.update(Panel("looking ...", border_style="blue"), refresh=True)
        shown = 0
        while not leave() and (count is None or shown < count):
            live.update(view(sample(leave), here, version, console.width), refresh=True)
            shown += 1


def view(sample: Sample, here: Cards, version: str, width: int) -> RenderableType:
    """For a terminal of so many columns: what does not fit is left out, the least telling first."""
    parts: list[RenderableType] = [_table(CARD_HEAD, card_rows(sample, here), "cards", width)]
    if sample.processes:
        parts.append(_table(PROCESS_HEAD, process_rows(sample), "processes", width))
    parts += [Text(note, style="yellow") for note in notes(sample)]
    return Panel(Group(*parts), title=title(sample, version), subtitle="q quits", border_style="blue")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]], name: str, width: int) -> Table:
    table = Table(title=name, title_justify="left", expand=True, box=None, header_style="bold")
    places = _fitting(head, rows, width - _FRAME)
    for place in places:
        wide = head[place] == "command"
        table.add_column(
            head[place],
            justify="left" if wide else "right",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if wide else None,
        )
    for row in rows:
        table.add_row(*(Text(row[place], style=_style(head[place], row[place])) for place in places))
    return table


def _fitting(head: tuple[str, ...], rows: list[tuple[str, ...]], width: int) -> list[int]:
    """Columns that have room, in order; a command may be cut short."""
    needs = [max(len(row[place]) for row in [head, *rows]) + 2 for place in range(len(head))]
    needs = [min(need, _COMMAND) if name == "command" else need for need, name in zip(needs, head, strict=True)]
    places = list(range(len(head)))
    for name in _DISPENSABLE:
        if sum(needs[place] for place in places) <= width:
            break
        places = [place for place in places if head[place] != name]
    return places


def _style(column: str, cell: str) -> str:
    if column not in ("busy", "PT"):
        return ""
    share = int(cell.removesuffix(" %"))
    return "bold green" if share >= _HOT else "green" if share >= _WARM else "dim" if share == 0 else ""


class _Quit:
    """True from the first `q` on."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._wanted = descriptor, False

    def __call__(self) -> bool:
        while not self._wanted and select.select([self._descriptor], [], [], 0)[0]:
            keys = os.read(self._descriptor, 64)
            self._wanted = not keys or bool(_QUIT & set(keys.decode(errors="replace")))
        return self._wanted


@contextmanager
def _single_keys() -> Iterator[Callable[[], bool]]:
    """Keys as they are pressed, not echoed; gives a function that says whether one of them was `q`. The terminal gets back what it had."""
    if not sys.stdin.isatty():
        yield lambda: False
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield _Quit(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
