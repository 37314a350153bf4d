"""`openspyre smi`: which processes use cards, and what the cards do; the counterpart of aiu-smi."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from contextlib import closing

from openspyre.spec.environment import Settings
from openspyre.spec.errors import MissingPackage
from openspyre.tools.host import openspyre_version
from openspyre.tools.monitoring.samples import Monitor, Sample
from openspyre.tools.monitoring.tables import Cards, as_json, dmon_head, dmon_lines, text

_ONCE_SECONDS = 0.5
_LINES_PER_HEAD = 20


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "smi",
        help="show processes that use cards, and what the cards do",
        description="Shows your processes that use cards: memory, busy time, predicted utilisation of the PT arrays and of the memory, copies, launches. "
        "Busy is what happens on this host; PT and bandwidth are those of a real card while it would be busy, by the clock.",
        epilog="examples:    openspyre smi    openspyre smi dmon -c 5    openspyre smi top    openspyre smi --json",
    )
    parser.add_argument(
        "view", nargs="?", choices=("dmon", "top"), help="dmon: a line per card and second; top: the live view"
    )
    parser.add_argument(
        "-d",
        "--delay",
        type=_seconds,
        metavar="SECONDS",
        help="between samples; one, or half of one for a single table",
    )
    parser.add_argument("-c", "--count", type=_count, metavar="N", help="end after so many samples (dmon, top)")
    parser.add_argument("--json", action="store_true", help="print JSON, dmon a line per sample")
    parser.set_defaults(run=run, refuse=parser.error)


def run(options: argparse.Namespace) -> int:
    if options.view == "top" and options.json:
        options.refuse("top is for eyes: --json goes with dmon or alone")
    if options.view == "top" and not sys.stdout.isatty():
        options.refuse("top needs a terminal: dmon writes lines")
    settings = Settings.read()
    here = Cards(len(settings.visible_cards()), settings.card_memory_bytes)
    with closing(Monitor()) as monitor:
        try:
            match options.view:
                case "dmon":
                    _dmon(monitor, options.delay or 1.0, options.count, _json_line(here) if options.json else None)
                case "top":
                    _top(monitor, options.delay or 1.0, options.count, here)
                case _:
                    _once(monitor, options.delay or _ONCE_SECONDS, here, options.json)
        except KeyboardInterrupt:  # how one leaves a view
            return 0
    return 0


def _once(monitor: Monitor, seconds: float, here: Cards, as_json_: bool) -> None:
    sample = monitor.sample(seconds)
    if as_json_:
        print(json.dumps(as_json(sample, here), indent=2))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    print("\n".join(text(sample, here, openspyre_version(), width)))


def _json_line(here: Cards) -> Callable[[Sample], str]:
    return lambda sample: json.dumps(as_json(sample, here))


def _dmon(monitor: Monitor, seconds: float, count: int | None, line: Callable[[Sample], str] | None) -> None:
    shown = lines = 0
    while count is None or shown < count:
        sample = monitor.sample(seconds)
        shown += 1
        if line is not None:
            print(line(sample), flush=True)
            continue
        for row in dmon_lines(sample):
            if lines % _LINES_PER_HEAD == 0:
                print(dmon_head())
            print(row, flush=True)
            lines += 1


def _top(monitor: Monitor, seconds: float, count: int | None, here: Cards) -> None:
    try:
        from openspyre.tools.monitoring import live
    except ImportError as error:
        raise MissingPackage("`openspyre smi top` needs the package rich: pip install 'openspyre[monitor]'") from error
    live.show(lambda leave: monitor.sample(seconds, leave), here, openspyre_version(), count)


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{word!r} is no number of seconds from 0.1 to 3600")
    return seconds


def _count(word: str) -> int:
    if not word.isdecimal() or int(word) == 0:
        raise argparse.ArgumentTypeError(f"{word!r} is no number of samples")
    return int(word)
