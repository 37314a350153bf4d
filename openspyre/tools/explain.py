"""`openspyre explain`: how long a card would take for bundles, op by op, what bounds it and what would make it faster."""

from __future__ import annotations

import argparse
from pathlib import Path

from openspyre.spec.errors import InvalidArgument
from openspyre.spec.machine import SPYRE, Machine
from openspyre.tools.explaining.comparing import compare
from openspyre.tools.explaining.counting import LaunchedBundle, explain_bundles, read_bundles
from openspyre.tools.explaining.machines import check_plans, machine_of, note_of
from openspyre.tools.explaining.savings import explained


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "explain",
        help="tell how long a card would take for a bundle, and why",
        description="Counts what every execution of a bundle moves and computes, and tells the time a real card would take for it "
        "with its band, what bounds it, its share, and what would save most. Nothing is executed. Several directories are launches in "
        "order.",
        epilog="example: openspyre explain launch_0 launch_1 --html page.html    exit code: 0 shown, 1 a bundle has problems",
    )
    parser.add_argument("directories", type=Path, nargs="+", metavar="DIR", help="a bundle, ours or another compiler's")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument(
        "--machine",
        type=_machine,
        metavar="WHAT=IF",
        help="time the plan as it is on a supposed card: cores=64,lx_mb=4,ddr=300 (cores, MiB of scratchpad per core, GB/s of memory)",
    )
    apart = parser.add_mutually_exclusive_group()
    apart.add_argument("--html", type=Path, metavar="FILE", help="also write one page that needs no network")
    apart.add_argument("--against", type=Path, nargs="+", metavar="DIR", help="another plan, shown side by side")
    parser.set_defaults(run=run)


def _machine(text: str) -> Machine:
    try:
        return machine_of(text)
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run(options: argparse.Namespace) -> int:
    bundles = read_bundles(options.directories)
    machine, note = _supposed(bundles, options.machine)
    explanation = explained(bundles, machine, note)
    if options.against is not None:
        others = read_bundles(options.against)
        check_plans(others, machine)
        compared = compare(explanation, explain_bundles(others, machine))
        print(compared.json() if options.json else compared)
        return 0
    if options.html is not None:
        explanation.html(options.html)
    print(explanation.json() if options.json else explanation)
    return 0


def _supposed(bundles: list[LaunchedBundle], machine: Machine | None) -> tuple[Machine, str]:
    """The machine to time on, and what is to be said of it."""
    if machine is None:
        return SPYRE, ""
    check_plans(bundles, machine)
    return machine, note_of(machine, explain_bundles(bundles).totals.card_us)
