"""The hash of all our Python sources: what was compiled by other sources is never used again."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import openspyre
import torch_spyre


@cache
def source_hash() -> str:
    digest = hashlib.sha256()
    for package in (openspyre, torch_spyre):
        for source in sorted(Path(package.__file__ or "").parent.rglob("*.py")):
            if not source.name.startswith("test_"):
                digest.update(source.read_bytes())
    return digest.hexdigest()
