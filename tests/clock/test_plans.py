"""`python -m bench.clock plans`: its table, on graphs that are stored."""

from pathlib import Path

from bench.clock.plans import compared, table
from openspyre.compiler.text import parse_program

PLANS = Path(__file__).parents[2] / "openspyre" / "compiler" / "golden" / "plans"


def test_the_table_of_plans():
    names = ("softmax", "attention_decode")
    found = [compared(name, [parse_program((PLANS / f"{name}.ir").read_text())]) for name in names]
    assert found[0].ratio == 1 and found[0].changes == "nothing"
    assert found[1].ratio < 0.5 and "7 -> 12 tensors in scratchpads" in found[1].changes
    assert all(one.proven and not one.gap_bytes for one in found)
    lines = list(table(found, judged=2))
    assert len(lines) == 5 and lines[2].startswith("| softmax | 257 | 257 | 1.000 | nothing |")
    assert "2 of 2 proven" in lines[-1] and "0.547" in lines[-1]
