"""`launch_spec.json`: what the arguments of a bundle's launch are. It lies beside the bundle; nobody needs it who brings images."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from openspyre.artifact.directory import InvalidBundle, read_text
from openspyre.artifact.fields import Fields, Problems
from openspyre.artifact.json_types import Json
from openspyre.spec.addressing import row_major
from openspyre.spec.errors import SpyreError
from openspyre.spec.formats import DTYPES, DataFormats, ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout

FILE = "launch_spec.json"
HostBytes = bytes  # `bytes` is a field's name below
FORMAT_VERSION = 1
FIELDS: dict[str, str] = {
    "segment": "its number, in the order of the bundle's parameters",
    "name": "what `openspyre run --input` and `--set` call it, and the file of its results",
    "role": "input, output, update (read and written), pool, number (the launch brings it), or constant (its values are known)",
    "bytes": "of a pool alone: its length",
    "dtype": "torch's name of its dtype",
    "size": "host size",
    "stride": "host strides, where they are not row by row",
    "layout": "how it lies on the card",
    "value": "of a number or a constant: the number itself; inf, -inf and nan as text",
    "file": "an .npy file beside the spec with its host values; bfloat16 and fp8 as their bits",
}
LAYOUT_FIELDS: dict[str, str] = {
    "device_size": "sizes, the stick last",
    "stride_map": "host stride of each device dim, -1 where there is none",
    "device_dtype": "format of an element",
    "element_arrangement": "order of the elements in a stick",
}
ROLES = ["input", "output", "update", "pool", "number", "constant"]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a launch. A pool has bytes alone; `file` is an .npy with its host values, beside the spec.

    A number is lane 0 of one stick; a constant is a number that has its `value` already, or a tensor whose values are known: a `file`
    beside the spec, `values` (what the host would store) in memory. `stride`: of the host, where not row by row.
    """

    name: str
    role: str
    bytes: int
    dtype: str = ""
    size: tuple[int, ...] = ()
    layout: SpyreTensorLayout | None = None
    file: str | None = None
    value: float | None = None
    stride: tuple[int, ...] | None = None
    values: HostBytes | None = None


def read_launch_spec(directory: Path) -> tuple[Argument, ...] | None:
    """The arguments in order of their segments; None where there is no such file. InvalidBundle lists its problems."""
    problems = Problems(FILE)
    found = parse_launch_spec(directory, problems)
    if problems.found:
        raise InvalidBundle(str(directory), problems.found)
    return found


def parse_launch_spec(directory: Path, problems: Problems) -> tuple[Argument, ...] | None:
    """As `read_launch_spec`, with the problems collected."""
    if not (directory / FILE).exists():
        return None
    text, why = read_text(directory, FILE)
    if text is None:
        problems.say("", str(why), "a readable file")
        return None
    try:
        tree: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        problems.say("", f"no JSON ({error})", "JSON")
        return None
    return _arguments(Fields(tree, "", problems))


def _arguments(top: Fields) -> tuple[Argument, ...]:
    top.integer("format", FORMAT_VERSION, FORMAT_VERSION)
    found = []
    for number, entry in enumerate(top.inners("arguments", 4096)):
        if entry.integer("segment", 0) != number:
            entry.problems.say(
                f"{entry.path}.segment", str(entry.values.get("segment")), f"{number}: arguments in order"
            )
        role = entry.choice("role", ROLES)
        name = entry.text("name")
        if role == "pool":
            found.append(Argument(name, role, entry.integer("bytes", 0)))
            continue
        layout = _layout(entry.inner("layout"))
        size = entry.integers("size", 0)
        dtype = entry.choice("dtype", sorted(DTYPES))
        file = entry.text("file") if entry.values.get("file") is not None else None
        stride = entry.integers("stride", 0, len(size)) if "stride" in entry.values else None
        value = _value(entry) if (role == "constant" and file is None) or "value" in entry.values else None
        bytes_ = layout.device_bytes if layout else 0
        found.append(Argument(name, role, bytes_, dtype, size, layout, file, value, stride))
    return tuple(found)


def _value(entry: Fields) -> float | None:
    """A number, or the text of one that JSON has none for."""
    found = entry.values.get("value")
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        return float(found)
    if found in ("inf", "-inf", "nan"):
        return float(str(found))
    entry.problems.add(f"{entry.path}.value", found, "a number, or inf, -inf or nan as text")
    return None


def _layout(entry: Fields) -> SpyreTensorLayout | None:
    sizes, strides = entry.integers("device_size", 1), entry.integers("stride_map", -1)
    form = entry.choice("device_dtype", list(DataFormats.__members__))
    arrangement = entry.choice("element_arrangement", list(ElementArrangement.__members__))
    try:
        return SpyreTensorLayout(list(sizes), list(strides), DataFormats[form], ElementArrangement[arrangement])
    except SpyreError as error:
        entry.problems.say(entry.path, f"device_size {list(sizes)}", f"a layout ({error})")
        return None


def launch_spec_json(arguments: tuple[Argument, ...]) -> dict[str, Json]:
    entries: list[Json] = []
    for number, argument in enumerate(arguments):
        entry: dict[str, Json] = {"segment": number, "name": argument.name, "role": argument.role}
        if argument.layout is None:
            entry["bytes"] = argument.bytes
        else:
            entry |= {
                "dtype": argument.dtype,
                "size": list(argument.size),
                "layout": {
                    "device_size": list(argument.layout.device_size),
                    "stride_map": list(argument.layout.stride_map),
                    "device_dtype": argument.layout.device_dtype.name,
                    "element_arrangement": argument.layout.element_arrangement.name,
                },
            }
        if argument.stride is not None and argument.stride != row_major(argument.size):
            entry["stride"] = list(argument.stride)
        if argument.value is not None:
            entry["value"] = argument.value if isfinite(argument.value) else repr(argument.value)
        if argument.file is not None:
            entry["file"] = argument.file
        entries.append(entry)
    return {"format": FORMAT_VERSION, "arguments": entries}
