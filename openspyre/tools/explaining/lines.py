"""The Python lines that ops came from, as they stand in their files now."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_PLACE = re.compile(r"([^\s;]+\.py):(\d+)")  # no other file's lines, whatever a bundle names


def lines_of(sources: Iterable[str]) -> dict[str, str]:
    """By `file.py:12`; what is not there is left out."""
    places = sorted({match.group(0) for source in sources for match in _PLACE.finditer(source)})
    files: dict[str, list[str]] = {}
    found = {}
    for place in places:
        file, _, number = place.rpartition(":")
        if file not in files:
            files[file] = _text(Path(file))
        if 0 < int(number) <= len(files[file]):
            found[place] = files[file][int(number) - 1].strip()
    return found


def _text(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
