"""`manifest.json`: what a caller must know to run a bundle, and the hashes that hold its files together."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from openspyre.artifact.extension import op_extension, tensor_extension
from openspyre.artifact.fields import Fields, Problems
from openspyre.artifact.json_types import Json
from openspyre.artifact.model import FORMAT_VERSION, Buffer, Bundle, Role, Scalar
from openspyre.spec.errors import SpyreError
from openspyre.spec.formats import TENSOR_DTYPES, DataFormats, ElementArrangement, formats_of
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.packing import packed, unpacked, value_bytes

FILE = "manifest.json"
FORMAT = "openspyre bundle"
_ROLES = {"inputs": Role.INPUT, "outputs": Role.OUTPUT, "updates": Role.UPDATE, "constants": Role.CONSTANT}
_ROLES |= {"temps": Role.TEMP}

FIELDS: dict[str, str] = {
    "format": f'always "{FORMAT}"',
    "version": "version of the format",
    "name": "the bundle's name",
    "inputs": "tensors the bundle reads",
    "outputs": "tensors it writes",
    "updates": "tensors it reads and writes",
    "constants": "tensors it reads, whose values it brings",
    "temps": "tensors inside the pool, each with its first byte (`place`)",
    "scalars": "numbers a launch supplies, in order: name and dtype",
    "pool_bytes": "memory the temps share",
    "files": "SHA-256 of every other file",
    "content_hash": "SHA-256 of what the bundle states, whatever its files look like: key of caches",
}
BUFFER_FIELDS: dict[str, str] = {
    "name": "the tensor's name",
    "argument": "its number among the arguments (`%arg_<i>_base_addr`); null for a temp",
    "dtype": "torch's name of its dtype",
    "host_format": "how the host writes an element",
    "size": "host size",
    "stride": "host strides",
    "device_size": "layout: sizes, the stick last",
    "stride_map": "layout: host stride of each device dim",
    "format": "layout: how the card writes an element",
    "arrangement": "layout: order of the elements in a stick",
    "device_bytes": "memory it takes on the card",
    "place": "first byte in the pool; null for an argument",
    "values": "of a constant alone: what the host would store, gaps included; zlib, then base64",
}


@dataclass(frozen=True, slots=True)
class Manifest:
    name: str
    buffers: tuple[Buffer, ...]  # arguments in their order, then temps
    scalars: tuple[Scalar, ...]
    pool_bytes: int
    files: dict[str, str]
    content_hash: str


def manifest_of(bundle: Bundle, texts: dict[str, str]) -> Manifest:
    files = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    ordered = (*bundle.arguments, *bundle.temps)
    return Manifest(bundle.name, ordered, bundle.scalars, bundle.pool_bytes, files, content_hash(bundle))


def content_hash(bundle: Bundle) -> str:
    """Of the facts alone, so that it is known without writing a single file."""
    facts = [
        FORMAT_VERSION,
        bundle.name,
        [_buffer(buffer, None) | {"role": buffer.role.value} for buffer in (*bundle.arguments, *bundle.temps)],
        [[scalar.name, scalar.dtype] for scalar in bundle.scalars],
        [[op_extension(d), [tensor_extension(tensor) for tensor in d.tensors]] for d in bundle.descriptions],
        [
            [e.name, e.description, [[p.buffer, p.byte] for p in e.places], list(e.scalars), e.origin]
            for e in bundle.executions
        ],
        bundle.pool_bytes,
    ]
    return hashlib.sha256(json.dumps(facts, separators=(",", ":")).encode()).hexdigest()


def manifest_json(manifest: Manifest) -> dict[str, Json]:
    numbers = {b.name: i for i, b in enumerate(b for b in manifest.buffers if b.role is not Role.TEMP)}
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "name": manifest.name,
        **{
            field: [_buffer(buffer, numbers.get(buffer.name)) for buffer in manifest.buffers if buffer.role is role]
            for field, role in _ROLES.items()
        },
        "scalars": [{"name": scalar.name, "dtype": scalar.dtype} for scalar in manifest.scalars],
        "pool_bytes": manifest.pool_bytes,
        "files": dict(manifest.files),
        "content_hash": manifest.content_hash,
    }


def _buffer(buffer: Buffer, argument: int | None) -> dict[str, Json]:
    layout = buffer.layout
    return {
        "name": buffer.name,
        "argument": argument,
        "dtype": buffer.dtype,
        "host_format": formats_of(buffer.dtype).host.name,
        "size": list(buffer.size),
        "stride": list(buffer.stride),
        "device_size": list(layout.device_size),
        "stride_map": list(layout.stride_map),
        "format": layout.device_dtype.name,
        "arrangement": layout.element_arrangement.name,
        "device_bytes": layout.device_bytes,
        "place": buffer.place,
        **({} if buffer.values is None else {"values": packed(buffer.values)}),
    }


def parse_manifest(tree: Json, problems: Problems) -> Manifest | None:
    fields = Fields(tree, "", problems)
    fields.only(*FIELDS)
    for name, wanted in (("format", FORMAT), ("version", FORMAT_VERSION)):
        if fields.values.get(name) != wanted:
            problems.add(name, fields.values.get(name), f"{wanted!r}, what this build reads")
    if problems.found:
        return None
    numbered: list[tuple[int, Buffer]] = []
    for field, role in _ROLES.items():
        for inner in fields.inners(field):
            buffer = _parse_buffer(inner, role)
            number = 0 if role is Role.TEMP else inner.integer("argument", 0, 999_999)
            if role is Role.TEMP and inner.values.get("argument") is not None:
                problems.add(f"{inner.path}.argument", inner.values["argument"], "null, as a temp is no argument")
            if buffer is not None:
                numbered.append((number, buffer))
    scalars = tuple(_parse_scalar(inner) for inner in fields.inners("scalars", 4096))
    files = fields.inner("files")
    hashes = {name: files.text(name) for name in files.values}
    pool_bytes = fields.integer("pool_bytes", 0)
    parsed_hash = fields.text("content_hash")
    _check_numbers(numbered, problems)
    if problems.found:
        return None
    arguments = sorted((pair for pair in numbered if pair[1].role is not Role.TEMP), key=lambda pair: pair[0])
    temps = [buffer for _, buffer in numbered if buffer.role is Role.TEMP]
    buffers = (*(buffer for _, buffer in arguments), *temps)
    return Manifest(fields.text("name"), buffers, scalars, pool_bytes, hashes, parsed_hash)


def _check_numbers(numbered: list[tuple[int, Buffer]], problems: Problems) -> None:
    numbers = sorted(number for number, buffer in numbered if buffer.role is not Role.TEMP)
    if numbers != list(range(len(numbers))):
        problems.add("argument", numbers, "the numbers of the arguments, each once, from 0")
    names = [buffer.name for _, buffer in numbered]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.add("name", name, "a name no other tensor has")


def _parse_scalar(fields: Fields) -> Scalar:
    fields.only("name", "dtype")
    return Scalar(fields.text("name"), fields.choice("dtype", list(TENSOR_DTYPES)))


def _parse_buffer(fields: Fields, role: Role) -> Buffer | None:
    before = len(fields.problems.found)
    fields.only(*(name for name in BUFFER_FIELDS if name != "values" or role is Role.CONSTANT))
    size = fields.integers("size", 0)
    stride = fields.integers("stride", 0, len(size))
    device_size = fields.integers("device_size", 0)
    stride_map = fields.integers("stride_map", -1, len(device_size))
    dtype = fields.choice("dtype", list(TENSOR_DTYPES))
    form = DataFormats[fields.choice("format", [f.name for f in DataFormats if f.bits])]
    arrangement = ElementArrangement[fields.choice("arrangement", [a.name for a in ElementArrangement])]
    place = fields.integer("place", 0) if role is Role.TEMP else None
    name = fields.text("name")
    fields.text("host_format")
    fields.integer("device_bytes", 0)
    if len(fields.problems.found) > before:
        return None
    try:
        layout = SpyreTensorLayout(device_size, stride_map, form, arrangement)
        layout.addressing(size, stride)
    except SpyreError as error:
        fields.problems.say(f"{fields.path}.device_size", str(error), "a layout with a place for every element")
        return None
    values = _parse_values(fields, value_bytes(size, stride, dtype)) if role is Role.CONSTANT else None
    buffer = Buffer(name, dtype, size, stride, role, layout, place, values)
    for field, expected in _buffer(buffer, None).items():
        if field not in fields.values:
            fields.problems.say(f"{fields.path}.{field}", "nothing", repr(expected))
        elif field not in ("argument", "values") and fields.values[field] != expected:
            fields.problems.add(f"{fields.path}.{field}", fields.values[field], repr(expected))
    return buffer


def _parse_values(fields: Fields, length: int) -> bytes:
    found = fields.values.get("values")
    try:
        if not isinstance(found, str):
            raise ValueError("no text")
        return unpacked(found, length)
    except ValueError as error:
        fields.problems.say(f"{fields.path}.values", str(error), f"{length} bytes of values, packed")
        return b""
