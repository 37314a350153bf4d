"""`openspyre trace`: what a trace of torch.profiler says of the card, and the same as a real card would have left it."""

import argparse
import json
from pathlib import Path


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "trace",
        help="summarise a trace that torch.profiler exported",
        description="Prints where the time of a trace went: launches, steps, gaps, copies that overlap, and what a real "
        "card would take and wait for.",
        epilog="example: openspyre trace trace.json --top 20    exit code: 0 all is well, 1 the file is no whole trace",
    )
    parser.add_argument(
        "trace", type=Path, help="a .json or .json.gz of export_chrome_trace or tensorboard_trace_handler"
    )
    parser.add_argument("--top", type=_count, default=10, metavar="N", help="lines per table (default: 10)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument(
        "--card", type=Path, metavar="DIR",
        help="also write the trace that a real card would leave, with its kernels' ideal cycles, for aiu-trace-analyzer",
    )  # fmt: skip
    parser.add_argument(
        "--picture", type=Path, metavar="FILE.svg", help="also draw it: rows of host, streams, steps, a real card"
    )
    parser.set_defaults(run=run)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of lines: 1 or more")
    return int(text)


def run(options: argparse.Namespace) -> int:
    from openspyre.tools.tracing.card_trace import write_card_trace
    from openspyre.tools.tracing.picture import write_picture
    from openspyre.tools.tracing.reading import read_trace
    from openspyre.tools.tracing.summary import summarise, text_of

    trace = read_trace(options.trace)
    summary = summarise(trace, options.top)
    written = write_card_trace(trace, options.card) if options.card is not None else None
    if options.picture is not None:
        write_picture(trace, options.picture)
    if options.json:
        found = summary.as_json() | (
            {"card": {"trace": str(written.trace), "acelyzer": written.command}} if written else {}
        )
        print(json.dumps(found, indent=2))
        return 0
    print(text_of(summary))
    if options.picture is not None:
        print(f"\n{options.picture}: the same as a picture, for a browser")
    if written is not None:
        print(
            f"\n{written.trace}: as a real card would leave it, {written.kernels} kernels; to analyse it:\n  {written.command}"
        )
    return 0
