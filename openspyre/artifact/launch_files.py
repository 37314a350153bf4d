"""Writes a bundle that the compiler emitted as files: SuperDSCs, their order, what the arguments are, and values of those that have any."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openspyre.artifact.bundle import bundle_texts
from openspyre.artifact.directory import json_text
from openspyre.artifact.emitted import Emitted
from openspyre.artifact.launch_spec import FILE, Argument, launch_spec_json
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.packing import elements_of

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_IMAGE = re.compile(r"segment_\d+")


def file_of(name: str, number: int) -> str:
    """The file of an argument's values: its name, where that leads nowhere else and is not that of a segment's image."""
    plain = _PLAIN.fullmatch(name) and not _IMAGE.fullmatch(name)
    return f"{name if plain else f'argument_{number}'}.npy"


def write_launch(
    emitted: Emitted,
    place: Path,
    values: Mapping[str, NDArray[Any]] | None = None,
    numbers: Mapping[str, float] | None = None,
) -> None:
    """All files beside the place, moved there in one step; InvalidArgument if something is there.

    `values` of tensors and `numbers` go by the names of their arguments.
    """
    if place.exists() or place.is_symlink():
        raise InvalidArgument(f"{place} exists already; give the bundle a directory of its own, or remove this one")
    place.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        write_launch_files(emitted, building, values or {}, numbers or {})
        building.chmod(0o755)
        building.rename(place)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def write_launch_files(
    emitted: Emitted, place: Path, values: Mapping[str, NDArray[Any]], numbers: Mapping[str, float]
) -> None:
    """The same into a directory that somebody is building."""
    arguments = [
        _with_values(argument, place / file_of(argument.name, number), values, numbers)
        for number, argument in enumerate(emitted.arguments)
    ]
    files = bundle_texts(emitted.bundle) | {FILE: json_text(launch_spec_json(tuple(arguments)))}
    for name, text in files.items():
        (place / name).write_text(text, encoding="utf-8")


def _with_values(
    argument: Argument, file: Path, values: Mapping[str, NDArray[Any]], numbers: Mapping[str, float]
) -> Argument:
    if argument.role == "number":
        return replace(argument, value=numbers.get(argument.name))
    found = values.get(argument.name)
    if argument.values is not None:
        found = elements_of(argument.values, argument.size, argument.stride or (), argument.dtype)
    if found is None:
        return argument
    np.save(file, found)
    return replace(argument, file=file.name)
