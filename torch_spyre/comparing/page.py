"""A comparison as one HTML page: the template beside this file with the records in it. No network, no other file."""

from __future__ import annotations

import json
from pathlib import Path

from torch_spyre.comparing.records import Comparison

_TEMPLATE = Path(__file__).with_name("page.html")
_MARK = "/* records */ null"


def page(comparison: Comparison) -> str:
    # "<" could end the script early, whatever names modules have.
    records = json.dumps(comparison.record(), allow_nan=False).replace("<", "\\u003c")
    before, after = _TEMPLATE.read_text(encoding="utf-8").split(_MARK)
    return before + records + after
