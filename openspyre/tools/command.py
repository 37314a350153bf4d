"""The `openspyre` command line: finds the subcommand and turns its outcome into an exit code.

Exit codes: 0 all is well, 1 a problem was found, 2 the command line makes no sense.
"""

import argparse
import sys
from collections.abc import Sequence

from openspyre.spec.errors import SpyreError
from openspyre.tools import doctor, inspect, ops, opt, run, switches, verify
from openspyre.tools.host import openspyre_version

_SUBCOMMANDS = (run, verify, inspect, opt, ops, doctor, switches)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="openspyre",
        description="Tools around the Spyre card in software.",
        epilog="example: openspyre doctor --json > report.json",
    )
    parser.add_argument("--version", action="version", version=f"openspyre {openspyre_version()}")
    subparsers = parser.add_subparsers(title="subcommands", metavar="COMMAND", required=True)
    for subcommand in _SUBCOMMANDS:
        subcommand.add_parser(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except SpyreError as error:
        print(f"openspyre: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
