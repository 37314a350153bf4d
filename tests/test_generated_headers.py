"""What C++ has of Python's tables is what the tables say now."""

import subprocess
import sys
from pathlib import Path

GENERATOR = Path(__file__).parents[1] / "csrc" / "generate.py"


def run(generator, *arguments):
    return subprocess.run([sys.executable, generator, *arguments], capture_output=True, text=True)


def test_generated_headers_are_fresh():
    done = run(GENERATOR, "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_stale_header_is_noticed_and_written(tmp_path):
    copy = tmp_path / "generate.py"
    copy.write_text(GENERATOR.read_text())
    for half in ("card", "torch"):
        (tmp_path / half).mkdir()
    assert run(copy).returncode == 0
    header = tmp_path / "card" / "generated" / "program.h"
    assert header.read_text() == (GENERATOR.parent / "card" / "generated" / "program.h").read_text()
    header.write_text(header.read_text().replace("Splat,", "Iota,", 1))
    done = run(copy, "--check")
    assert (done.returncode, done.stdout) == (1, "card/generated/program.h is stale: run `make generate`\n")
