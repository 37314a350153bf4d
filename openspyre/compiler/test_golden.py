"""What every pass makes of some small programs, as text. `make golden` accepts what they make now and shows what changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openspyre.compiler import pipeline
from openspyre.compiler.text import parse_program, print_program

GOLDEN = Path(__file__).parent / "golden"
PROGRAMS = sorted(GOLDEN.glob("*.ir"))


def stages(source: Path) -> str:
    """The program behind every pass that changed it."""
    program = parse_program(source.read_text())
    parts, before = [], print_program(program)
    for step, after in pipeline.stages(program, pipeline.passes(), verify=True):
        text = print_program(after)
        parts.append(f"## {pipeline.name_of(step)}\n\n{text if text != before else 'as before' + chr(10)}")
        before = text
    return "\n".join(parts)


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
def test_every_pass_makes_what_it_made(source: Path) -> None:
    known, made = source.with_suffix(".passes.txt"), stages(source)
    if os.environ.get("OPENSPYRE_GOLDEN") == "accept":
        known.write_text(made)
    assert made == known.read_text(), f"{known.name} differs: see `make golden`"
