"""What every report has, whichever process writes it: the doctor's findings, switches, recent errors, launches that failed; and programs
of the cache, for a report of a process that has compiled none itself."""

from __future__ import annotations

import json
from pathlib import Path

from openspyre.spec import recent_errors
from openspyre.spec.environment import Settings
from openspyre.spec.errors import SpyreError
from openspyre.tools import doctor, host
from openspyre.tools.diagnosing.archive import write_archive
from openspyre.tools.diagnosing.discretion import variables
from openspyre.tools.saving.saved_launch import FILE, PROGRAM

_PACKAGES = ("accelerate", "openspyre", "numpy", "safetensors", "sympy", "torch", "transformers", "triton", "vllm")
_NEWEST = 8
_TENSORS = "tensors"  # of a kept program: values that are known


def diagnostic_report(path: Path) -> Path:
    """The report of a process that has compiled nothing itself: with the newest programs of the cache, whoever compiled them."""
    try:
        kept = _kept_programs(Settings.read())
    except SpyreError:
        kept = {}  # the doctor says why
    return write_archive(path, report_texts() | kept)


def report_texts() -> dict[str, str]:
    found = {
        "doctor.json": as_json(doctor.examine()),
        "environment.json": as_json(variables()),
        "packages.json": as_json({name: host.installed_version(name) for name in _PACKAGES}),
        "errors.json": as_json([{"class": kind, "message": told} for kind, told in recent_errors.recent()]),
    }
    try:
        settings = Settings.read()
    except SpyreError:
        return found  # the doctor has said why
    return found | _failed_launches(settings)


def as_json(tree: object) -> str:
    return json.dumps(tree, indent=2, default=str) + "\n"


def _kept_programs(settings: Settings) -> dict[str, str]:
    """The newest programs that this user's processes have compiled: what was told of them, and their steps. No values."""
    found: dict[str, str] = {}
    for number, path in enumerate(_newest(settings.cache_dir / "graphs", "*.graph")):
        try:
            facts, program = kept_program(path.read_text(encoding="utf-8").partition("\n")[2])
        except (OSError, ValueError):
            continue
        found[f"compiled/{number}_facts.json"] = facts
        found[f"compiled/{number}.program"] = program
    return found


def kept_program(text: str) -> tuple[str, str]:
    """What was told of a program in the cache, without values, and its steps; ValueError if it is none."""
    head, program = text.split("\n", 1)
    told = json.loads(head)
    told.pop(_TENSORS, None)
    return as_json(told), program


def _failed_launches(settings: Settings) -> dict[str, str]:
    """Of launches that were saved because they failed: what happened, and the program. Not their memory."""
    found: dict[str, str] = {}
    for path in _newest(settings.save_failed, "launch_*") if settings.save_failed is not None else ():
        for name in (FILE, PROGRAM):
            try:
                found[f"failed/{path.name}/{name}"] = (path / name).read_text(encoding="utf-8")
            except (OSError, ValueError):
                continue
    return found


def _newest(directory: Path, pattern: str) -> list[Path]:
    dated = []
    for path in directory.glob(pattern):
        try:
            dated.append((path.stat().st_mtime_ns, path))
        except OSError:
            continue  # gone meanwhile
    return [path for _, path in sorted(dated, reverse=True)[:_NEWEST]]
