"""Writes a bundle that the compiler emitted as files: SuperDSCs, their order, what the arguments are, and values of those that have any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openspyre.artifact.directory import json_text
from openspyre.artifact.documented import documented_texts
from openspyre.artifact.emitted import Emitted
from openspyre.artifact.launch_spec import FILE, Argument, launch_spec_json
from openspyre.spec.packing import elements_of


def write_launch(
    emitted: Emitted,
    place: Path,
    values: Mapping[str, NDArray[Any]] | None = None,
    numbers: Mapping[str, float] | None = None,
) -> None:
    """Into a directory of its own, which must not exist; `values` of tensors and `numbers` by the names of their arguments."""
    place.mkdir(parents=True)
    arguments = [_with_values(argument, place, values or {}, numbers or {}) for argument in emitted.arguments]
    files = documented_texts(emitted.bundle) | {FILE: json_text(launch_spec_json(tuple(arguments)))}
    for name, text in files.items():
        (place / name).write_text(text, encoding="utf-8")


def _with_values(
    argument: Argument, place: Path, values: Mapping[str, NDArray[Any]], numbers: Mapping[str, float]
) -> Argument:
    if argument.role == "number":
        return replace(argument, value=numbers.get(argument.name))
    found = values.get(argument.name)
    if argument.values is not None:
        found = elements_of(argument.values, argument.size, argument.stride or (), argument.dtype)
    if found is None:
        return argument
    file = f"{argument.name}.npy"
    np.save(place / file, found)
    return replace(argument, file=file)
