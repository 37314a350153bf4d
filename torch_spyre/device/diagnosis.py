"""`torch.spyre.diagnostic_report`: the archive of a bug report, with what this process has compiled, counted and met."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import strftime
from typing import Any

from openspyre import backend
from openspyre.artifact.bundle import bundle_texts
from openspyre.artifact.directory import json_text
from openspyre.artifact.emitted import Emitted
from openspyre.artifact.launch_spec import FILE, launch_spec_json
from openspyre.backend.text_cache import TextCache
from openspyre.card.cards import settings_in_force
from openspyre.program.text import print_program
from openspyre.spec.errors import SpyreError
from openspyre.tools.diagnosing.archive import write_archive
from openspyre.tools.diagnosing.discretion import variables
from openspyre.tools.diagnosing.report import as_json, kept_program, report_texts
from torch_spyre import _torch
from torch_spyre.device import api
from torch_spyre.device.registration import logs_as_given
from torch_spyre.inductor.graph import to_text
from torch_spyre.inductor.reporting.compile_observer import LastGraph, last_graphs
from torch_spyre.inductor.reporting.report import compile_report
from torch_spyre.ops.compilations import compilation_stats
from torch_spyre.ops.fallbacks import fallback_stats
from torch_spyre.ops.programs import refused_fusions

_MOST_FILES = 400  # of one bundle


def diagnostic_report(path: str | Path | None = None) -> Path:
    """As `torch.spyre.diagnostic_report` tells."""
    place = Path(strftime("spyre_report_%Y%m%d_%H%M%S.zip")) if path is None else Path(path)
    texts = report_texts() | {
        "environment.json": as_json(variables(os.environ | logs_as_given)),
        "compile_reports.txt": "\n".join(map(str, compile_report())) + "\n",
        "counters.json": as_json(_counters()),
    }
    for number, seen in enumerate(last_graphs()):
        texts |= _graph(f"graphs/{number}_{seen.key[:12]}", seen)
    return write_archive(place, texts)


def _graph(folder: str, seen: LastGraph) -> dict[str, str]:
    """The graph, the program that this process ran, and its bundle if it was compiled here."""
    hushed = replace(seen.graph, constants=tuple((value, "") for value, _ in seen.graph.constants))
    found = {f"{folder}/graph.json": to_text(hushed)}
    kept = TextCache.of(settings_in_force(), "graph").find(seen.request) if seen.request else None
    if kept is not None:
        found[f"{folder}/facts.json"], found[f"{folder}/card.program"] = kept_program(kept)
    return found | (_bundle(folder, seen.emitted) if seen.emitted is not None else {})


def _bundle(folder: str, emitted: Emitted) -> dict[str, str]:
    """As files, without values of the constants; a bundle of very many ops as its program alone."""
    found = {f"{folder}/unfused.program": print_program(backend.compile_emitted(emitted))}
    if len(emitted.executions) > _MOST_FILES:
        return found
    arguments = tuple(replace(argument, file=None, values=None) for argument in emitted.arguments)
    files = bundle_texts(emitted.bundle) | {FILE: json_text(launch_spec_json(arguments))}
    return found | {f"{folder}/bundle/{name}": text for name, text in files.items()}


def _counters() -> dict[str, Any]:
    """Everything that is counted; what cannot be asked now says why."""
    questions: dict[str, Callable[[], Any]] = {
        "fallbacks": fallback_stats,
        "compilations": compilation_stats,
        "refused_fusions": refused_fusions,
        "eager_launches_compilations_programs": _torch.eager_counts,
        "graph_launches_specialisations_programs": _torch.graph_counts,
        "memory": lambda: [api.memory_stats(card) for card in range(api.device_count())],
        "counters": getattr(api, "counters", dict),
    }
    return {name: _answer(question) for name, question in questions.items()}


def _answer(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except (SpyreError, RuntimeError) as error:
        return f"not known: {error}"
