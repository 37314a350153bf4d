"""Known differences between the card and torch, each with its class and reason (known_differences.toml)."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

CLASSES = ("nan", "ties", "int64", "unwritten", "range", "device", "sparse", "torch", "judge", "bits", "open")
_WORST = re.compile(r"at most (\S+) roundings of the largest$")
_APART = re.compile(r"by at most (\S+) of the largest: ")


@dataclass(frozen=True)
class Known:
    """Samples of an entry that differ in a known way: the message they differ with must match, and `most`, which rows of
    class "judge" must have, is the greatest distance that is explained, in roundings of the largest element. `apart` is the same
    for compiled against eager, as a part of the largest element."""

    entry: str
    kind: str
    reason: str
    message: str = ""
    dtype: str = "*"
    mode: str = "*"
    most: float = math.inf
    apart: float = math.inf

    def explains(self, difference: str) -> bool:
        measured = ((_WORST.search(difference), self.most), (_APART.search(difference), self.apart))
        near = all((float(found[1]) if found else math.inf) <= bound for found, bound in measured)
        return near and bool(re.search(self.message, difference))

    def covers(self, entry: str, dtype: str, mode: str) -> bool:
        return fnmatch(entry, self.entry) and fnmatch(dtype, self.dtype) and fnmatch(mode, self.mode)


def known_differences() -> list[Known]:
    data = tomllib.loads((Path(__file__).parent / "known_differences.toml").read_text())
    found = [Known(**row) for row in data.get("difference", ())]
    for known in found:
        if known.kind not in CLASSES:
            raise ValueError(f"{known.entry}: {known.kind!r} is no class of difference, {CLASSES} are")
        if known.kind == "judge" and known.most == math.inf:
            raise ValueError(f"{known.entry}: the distance that is explained has no bound, give it by `most`")
    return found


def unexplained(report: dict[str, Any], mode: str, known: list[Known]) -> tuple[list[Any], list[Known]]:
    """The differences of an entry that no known one explains, and the known ones that did explain some."""
    mine = [one for one in known if one.covers(report["entry"], report["dtype"], mode)]
    rest, used = [], []
    for difference in report["differences"]:
        reasons = [one for one in mine if one.explains(difference[2])]
        used += reasons
        if not reasons:
            rest.append(difference)
    return rest, used
