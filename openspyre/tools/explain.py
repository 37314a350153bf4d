"""`openspyre explain`: how long a card would take for bundles, op by op, what bounds it and what would make it faster."""

from __future__ import annotations

import argparse
from pathlib import Path

from openspyre.spec.errors import InvalidArgument


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
        help="beside it the same on a supposed card, planned anew if the compiler left graph.ir: cores=16,lx_mb=4,ddr=300 (cores, MiB of "
        "scratchpad per core, GB/s of memory)",
    )
    apart = parser.add_mutually_exclusive_group()
    apart.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="also write one page that needs no network; with --machine, of that card",
    )
    apart.add_argument("--against", type=Path, nargs="+", metavar="DIR", help="another plan, shown side by side")
    parser.set_defaults(run=run)


def _machine(text: str) -> str:
    from openspyre.tools.explaining.machines import machine_of

    try:
        machine_of(text)
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def run(options: argparse.Namespace) -> int:
    # Only now: `openspyre run` and the others must work without the compiler.
    from openspyre.tools.explaining.counting import explain_bundles, read_bundles
    from openspyre.tools.explaining.machines import supposed
    from openspyre.tools.explaining.savings import explained

    if options.against is not None and options.machine is not None:
        raise InvalidArgument("explain: --machine and --against each show two plans; give one of them")
    bundles = read_bundles(options.directories)
    explanation = explained(bundles)
    other = None
    if options.against is not None:
        other = explain_bundles(read_bundles(options.against))
    elif options.machine is not None:
        other = supposed(bundles, options.machine)
    if options.html is not None:
        (explanation if other is None else other).html(options.html)
    shown = explanation if other is None else explanation.against(other)
    print(shown.json() if options.json else shown)
    return 0
