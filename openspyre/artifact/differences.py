"""Compares a JSON tree with the one it should be, field by field."""

from __future__ import annotations

from openspyre.artifact.fields import Problems, brief
from openspyre.artifact.json_types import Json


def compare(found: Json, expected: Json, path: str, problems: Problems) -> None:
    """Reports every leaf in which two trees differ; true and 1 are not the same."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in expected.keys() - found.keys():
            problems.say(_at(path, name), "nothing", brief(expected[name]))
        for name in found.keys() - expected.keys():
            problems.add(_at(path, name), found[name], "no such field")
        for name in (name for name in expected if name in found):
            compare(found[name], expected[name], _at(path, name), problems)
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            compare(one, other, f"{path}[{place}]", problems)
    elif type(found) is not type(expected) or found != expected:
        problems.add(path, found, brief(expected))


def _at(path: str, name: str) -> str:
    return f"{path}.{brief(name)[1:-1]}" if path else brief(name)[1:-1]
