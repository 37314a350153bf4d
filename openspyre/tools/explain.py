"""`openspyre explain`: how long a card would take for bundles, op by op, what bounds it and what would make it faster."""

from __future__ import annotations

import argparse
from pathlib import Path

from openspyre.tools.explaining.counting import explain_bundles, read_bundles
from openspyre.tools.explaining.text import render


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "explain",
        help="tell how long a card would take for a bundle, and why",
        description="Counts what every execution of a bundle moves and computes, and tells the time a real card would take for it "
        "with its band, what bounds it, and its share. Nothing is executed. Several directories are launches in order.",
        epilog="example: openspyre explain launch_0 launch_1    exit code: 0 shown, 1 a bundle has problems",
    )
    parser.add_argument("directories", type=Path, nargs="+", metavar="DIR", help="a bundle, ours or another compiler's")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write one page that needs no network")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    explanation = explain_bundles(read_bundles(options.directories))
    if options.html is not None:
        explanation.html(options.html)
    print(explanation.json() if options.json else "\n".join(render(explanation)))
    return 0
