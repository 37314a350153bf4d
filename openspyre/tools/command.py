"""The `openspyre` command line: finds the subcommand and turns its outcome into an exit code.

Exit codes: 0 all is well, 1 a problem was found, 2 the command line makes no sense, 141 nobody reads on (`| head`).
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from openspyre.spec.errors import SpyreError
from openspyre.tools import bisect, doctor, explain, inspect, ops, opt, run, smi, switches, trace, verify
from openspyre.tools import compile as compiling
from openspyre.tools.host import openspyre_version

_CLOSED_PIPE = 141  # what a shell says of a program that SIGPIPE ended
SUBCOMMANDS = (run, verify, inspect, explain, compiling, opt, ops, trace, smi, bisect, doctor, switches)


class _Help(argparse.HelpFormatter):
    """Four blanks in a text begin a new line: examples stand below each other."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(super(_Help, self)._fill_text(part, width, indent) for part in text.split(" " * 4))


class _Parser(argparse.ArgumentParser):
    """And so do those of its subcommands, which argparse makes of the same class."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=_Help, **settings)


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="openspyre",
        description="Tools around the Spyre card in software.",
        epilog="example: openspyre doctor --json > report.json",
    )
    parser.add_argument("--version", action="version", version=f"openspyre {openspyre_version()}")
    subparsers = parser.add_subparsers(title="subcommands", metavar="COMMAND", required=True)
    for subcommand in SUBCOMMANDS:
        subcommand.add_parser(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()  # here, and not at the end of Python, where nobody could catch what follows
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE
    except OSError as problem:
        if problem.filename is not None:
            raise  # a file that the tool itself did not expect to be missing: a defect of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"openspyre: its output cannot be written: {problem.strerror}", file=sys.stderr)
        return 1


def _run(arguments: Sequence[str] | None) -> int:
    options = build_parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except SpyreError as error:
        print(f"openspyre: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
