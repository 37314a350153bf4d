"""Runs the Python blocks of a document in one session, as a reader would: `python docs/run_blocks.py README.md`.

A `text` block right after a `python` block is what that one must print. Tracebacks name the document's own lines.
"""

import contextlib
import io
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from openspyre.spec.environment import Settings, switch_of

_FENCE = re.compile(r"^```(\w*)\s*$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the line its code begins on, and the code."""

    language: str
    line: int
    code: str


def blocks_of(document: Path) -> Iterator[Block]:
    """All fenced blocks of a document, in order."""
    language, start, lines = None, 0, []
    for number, line in enumerate(document.read_text().splitlines(), start=1):
        fence = _FENCE.match(line)
        if fence and language is None:
            language, start, lines = fence[1], number + 1, []
        elif fence:
            yield Block(language or "", start, "".join(f"{text}\n" for text in lines))
            language = None
        else:
            lines.append(line)
    if language is not None:
        raise ValueError(f"{document}:{start - 1}: this block is never closed")


def run(document: Path) -> list[str]:
    """Problems found: a block that raises ends the session, a wrong output does not."""
    problems: list[str] = []
    session: dict[str, object] = {"__name__": "__main__"}
    blocks = list(blocks_of(document))
    if not any(block.language == "python" for block in blocks):
        return [f"{document}: no Python block to run"]
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block.language != "python":
            continue
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                # Empty lines in front, so that a traceback names the document's own lines.
                exec(compile("\n" * (block.line - 1) + block.code, str(document), "exec"), session)
        except Exception:
            return [*problems, f"{document}:{block.line}: this block raises\n{traceback.format_exc()}"]
        shown = _as_of_a_file(printed.getvalue(), document, block)
        if after and after.language == "text" and after.code != shown:
            problems.append(f"{document}:{after.line}: the document says\n{after.code}but this is printed\n{shown}")
    return problems


def _as_of_a_file(printed: str, document: Path, block: Block) -> str:
    """What a reader sees who has the block in a file: its lines, which stay the same when the page around it changes."""
    own = re.compile(rf"{re.escape(document.name)}:(\d+)")
    return own.sub(lambda found: f"example.py:{int(found[1]) - block.line + 1}", printed)


def forget_switches() -> None:
    """A newcomer has none of our switches set; only the sanitizer stays if it was asked for."""
    for field in fields(Settings):
        if field.name != "sanitize":
            os.environ.pop(switch_of(field).variable, None)


def main() -> int:
    forget_switches()
    with tempfile.TemporaryDirectory() as empty:  # nor has a newcomer compiled anything before
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{empty}/inductor"
        os.environ["OPENSPYRE_CACHE_DIR"] = f"{empty}/openspyre"
        problems = [problem for name in sys.argv[1:] for problem in run(Path(name))]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
