"""Runs a command of the build and shows how far it is: `python csrc/install.py WHAT COMMAND...`.

All that the command prints goes to a file, build/install.log; its end is shown if the command fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # nothing is installed yet

from openspyre.spec import progress  # noqa: E402
from openspyre.spec.environment import Settings  # noqa: E402

LOG = ROOT / "build" / "install.log"
_STEP = re.compile(r"\s*\[(\d+)/(\d+)\] ")  # ninja's
_DEED = re.compile(r"\s*(Collecting|Downloading|Installing collected packages)\b:? *(\S*)")  # pip's


def deed_of(line: str) -> str | None:
    """What a line of pip or ninja says is being done."""
    if step := _STEP.match(line):
        return f"{step[1]} of {step[2]} files"
    if deed := _DEED.match(line):
        return f"{deed[1].lower()} {Path(deed[2].rstrip(',')).name}"
    return None


def run(what: str, command: list[str]) -> int:
    LOG.parent.mkdir(exist_ok=True)
    last: deque[str] = deque(maxlen=60)
    with progress.working(what), LOG.open("w", encoding="utf-8") as kept:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        for line in process.stdout or ():
            kept.write(line)
            last.append(line)
            if deed := deed_of(line):
                progress.stage(deed)
        code = process.wait()
    if code:
        sys.stderr.write("".join(last) + f"\n{what} failed; all that was said stands in {LOG}\n")
    return code


if __name__ == "__main__":
    progress.switch(Settings.read().progress)
    sys.exit(run(sys.argv[1], sys.argv[2:]))
