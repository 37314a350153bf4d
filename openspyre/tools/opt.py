"""`openspyre opt`: passes on the text of a program, of the compiler's IR or the card's."""

import argparse
from pathlib import Path


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "opt",
        help="run passes on the text of a program",
        description="Reads a program of the IR or of a card, runs passes on it in the order given, all that there are for it "
        "if none is named, and prints what comes out. A pass takes its options after a colon: --pass DivideWork:cores=8.",
        epilog="example: openspyre opt graph.ir --pass ChooseLayouts --pass InsertRelayouts --verify    "
        "exit code: 0 done, 1 the text or a program has problems, 2 the command line makes no sense",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="the program's text; - for the standard input")
    parser.add_argument("--pass", action="append", default=[], dest="passes", metavar="NAME[:OPTION=VALUE,...]",
                        help="a pass to run; may be given again")  # fmt: skip
    parser.add_argument(
        "--print-after-all", action="store_true", help="print the program after every pass, not just the last"
    )
    parser.add_argument("--verify", action="store_true", help="check the program before the first and after every pass")
    parser.add_argument("--list", action="store_true", help="list the passes of the pipeline, in order, and stop")
    parser.add_argument("-o", "--out", type=Path, metavar="OUT", help="write the program there instead of printing it")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=lambda options: _run(options, parser))


def _run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    # Only now: `openspyre run` and the others must work without the compiler.
    from openspyre.tools.opt_passes import run

    return run(options, parser)
