"""The README keeps its promises: its Python runs and prints what it says, its commands and its links exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
COMMANDS = [
    line.strip()
    for block in re.findall(r"```sh\n(.*?)```", README.read_text(), re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]


def test_the_python_blocks_run_and_print_what_the_readme_says():
    call = [sys.executable, ROOT / "docs" / "run_blocks.py", README]
    done = subprocess.run(call, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def test_the_quick_start_is_two_commands():
    assert COMMANDS[:2] == ["make demo", "make test"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_shell_command_exists(command):
    program, *arguments = command.split()
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(arguments) <= set(targets)
    elif program == "openspyre":
        call = [sys.executable, "-m", "openspyre.tools.command", arguments[0], "--help"]
        done = subprocess.run(call, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and f"openspyre {arguments[0]}" in done.stdout
    else:
        assert command == "pip install ." and (ROOT / "pyproject.toml").exists()


def test_every_path_in_the_map_exists():
    table = README.read_text().split("## Map")[1].split("##")[0]
    paths = re.findall(r"`([\w/]+/)`", table)
    assert len(paths) >= 8
    assert [path for path in paths if not (ROOT / path).is_dir()] == []
