"""`openspyre switches`: the table of environment variables; its Markdown form is the documentation's page."""

import argparse
from collections.abc import Iterator
from dataclasses import fields

from openspyre.spec.environment import Settings, switch_of
from openspyre.spec.retired import RETIRED


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "switches",
        help="list the environment variables",
        description="Lists every environment variable with its default, what it accepts and what it does.",
        epilog="example: openspyre switches --markdown",
    )
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    print("\n".join(markdown() if options.markdown else text()))
    return 0


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Variable, default, accepted values, meaning."""
    for field in fields(Settings):
        switch = switch_of(field)
        # A default that depends on the user's machine is described, so that the page is the same everywhere.
        computed = "openspyre in the user's cache directory" if field.name == "cache_dir" else ""
        default = computed or ("" if field.default in (None, "") else str(field.default))
        yield switch.variable, default, switch.kind.accepted, switch.meaning


def markdown() -> Iterator[str]:
    yield "| variable | default | accepts | meaning |"
    yield "|---|---|---|---|"
    for variable, default, accepted, meaning in rows():
        yield f"| `{variable}` | {default or '-'} | {accepted} | {meaning} |"


def retired_markdown() -> Iterator[str]:
    yield "| variable | `config` | why it is none |"
    yield "|---|---|---|"
    for row in RETIRED:
        yield f"| `{row.variable}` | {f'`{row.option}`' if row.option else '-'} | {row.reason} |"


def text() -> Iterator[str]:
    for variable, default, accepted, meaning in rows():
        yield f"{variable}{f' (default {default})' if default else ''}"
        yield f"    {meaning}; accepts {accepted}"
    yield "no switches here:"
    yield from (f"{row.variable}\n    {row.reason}" for row in RETIRED)
