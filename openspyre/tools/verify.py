"""`openspyre verify`: every problem of a bundle directory."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from openspyre.tools.bundle import examine


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "verify",
        help="list everything that is wrong with a bundle",
        description="Reads a bundle directory and lists every problem: file, field, what is there, what should be.",
        epilog="example: openspyre verify my_bundle --json    exit code: 0 valid, 1 problems were found",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the bundle")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    _, problems = examine(options.directory)
    if options.json:
        print(json.dumps({"valid": not problems, "problems": [asdict(problem) for problem in problems]}, indent=2))
    else:
        print("\n".join(str(problem) for problem in problems) or f"{options.directory} is valid")
    return 1 if problems else 0
