"""Reads a bundle from a directory, or says everything that is wrong with it. No input makes it fail otherwise."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from openspyre.artifact.checks import check_description, check_executions, check_pool, execution_fits
from openspyre.artifact.differences import compare
from openspyre.artifact.directory import EXECUTION_LIST, InvalidBundle, is_directory, read_text
from openspyre.artifact.extension_parse import parse_description
from openspyre.artifact.fields import Problem, Problems
from openspyre.artifact.geometry import Geometry, geometry
from openspyre.artifact.json_types import Json
from openspyre.artifact.listing import POOL, Address, Entry, Listing, file_name, first_symbols, listing
from openspyre.artifact.manifest import FILE as MANIFEST
from openspyre.artifact.manifest import Manifest, content_hash, parse_manifest
from openspyre.artifact.mlir import parse_listing
from openspyre.artifact.model import Bundle, Description, Execution, Place, Role
from openspyre.artifact.sdsc import sdsc_json
from openspyre.spec.machine import SPYRE, Machine

_MODEL = "bundle"


def verify(bundle: Bundle | Path, machine: Machine = SPYRE) -> list[Problem]:
    """All problems of a bundle, in memory or in a directory; none if it can be run."""
    return check(bundle, machine) if isinstance(bundle, Bundle) else examine(bundle, machine)[1]


def read(directory: Path, machine: Machine = SPYRE) -> Bundle:
    """The bundle in a directory; InvalidBundle lists all problems."""
    bundle, problems = examine(directory, machine)
    if bundle is None or problems:
        raise InvalidBundle(str(directory), problems)
    return bundle


def check(bundle: Bundle, machine: Machine = SPYRE) -> list[Problem]:
    """Problems of a bundle in memory. Its documented fields need no check: they are derived."""
    problems = Problems(_MODEL)
    names = {buffer.name for buffer in bundle.buffers}
    for number, description in enumerate(bundle.descriptions):
        own = Problems(file_name(number))
        check_description(description, own, machine)
        problems.found += own.found
    for number, execution in enumerate(bundle.executions):
        _check_references(bundle.descriptions, execution, number, names, problems)
    if not problems.found:
        check_executions(bundle, problems)
        check_pool(bundle, problems)
    return problems.found


def _check_references(
    descriptions: tuple[Description, ...], execution: Execution, number: int, names: set[str], problems: Problems
) -> None:
    field = f"execution {number} ({execution.name})"
    if not 0 <= execution.description < len(descriptions):
        problems.add(field, file_name(execution.description), "a file of the bundle")
    elif not execution_fits(execution, descriptions[execution.description]):
        found = f"{len(execution.places)} tensors, {len(execution.scalars)} scalars"
        problems.say(field, found, f"as many as {file_name(execution.description)} has")
    for place in execution.places:
        if place.buffer not in names:
            problems.add(f"{field}.openspyre_buffers", place.buffer, "a tensor of the manifest")


def examine(directory: Path, machine: Machine = SPYRE) -> tuple[Bundle | None, list[Problem]]:
    """What could be read, and all problems: the bundle may be there in spite of some."""
    if not is_directory(directory):
        return None, [Problem(str(directory), "", "no directory", "a bundle directory")]
    found: list[Problem] = []
    manifest = _read_manifest(directory, found)
    if manifest is None:
        return None, found
    contents = _read_files(directory, manifest, found)
    trees = _read_descriptions(contents, manifest, found)
    entries = _read_listing(contents, found)
    descriptions = [description for _, description in trees]
    known = [description for description in descriptions if description is not None]
    if entries is None or len(known) < len(descriptions):
        return None, found
    bundle = _assemble(manifest, tuple(known), entries, found, machine)
    if bundle is None:
        return None, found
    found += check(bundle, machine)
    if not found:
        found += _compare_documented(bundle, [tree for tree, _ in trees], entries, manifest)
    return bundle, found


def _read_json(text: str, problems: Problems) -> Json:
    try:
        tree: Json = json.loads(text, parse_constant=lambda name: f"<{name}>")
    except (ValueError, RecursionError) as error:
        problems.say("", str(error)[:200], "JSON")
        return None
    return tree


def _read_manifest(directory: Path, found: list[Problem]) -> Manifest | None:
    problems = Problems(MANIFEST)
    text, reason = read_text(directory, MANIFEST)
    manifest = None
    if text is None:
        problems.say("", reason or "nothing", "a readable file")
    else:
        tree = _read_json(text, problems)
        manifest = None if problems.found else parse_manifest(tree, problems)
    found += problems.found
    return manifest


def _read_files(directory: Path, manifest: Manifest, found: list[Problem]) -> dict[str, str]:
    """Texts of the files the manifest names; every name must be one this format has."""
    contents: dict[str, str] = {}
    problems = Problems(MANIFEST)
    wanted = [file_name(number) for number in range(len(manifest.files) - 1)] + [EXECUTION_LIST]
    if sorted(manifest.files) != sorted(wanted):
        problems.add("files", sorted(manifest.files), f"{EXECUTION_LIST} and sdsc_<i>.json, numbered from 0")
    for name in wanted:
        text, reason = read_text(directory, name)
        if text is None:
            found.append(Problem(name, "", reason or "nothing", "a readable file"))
            continue
        contents[name] = text
        digest = hashlib.sha256(text.encode()).hexdigest()
        if name in manifest.files and digest != manifest.files[name]:
            problems.say(f"files.{name}", manifest.files[name], f"{digest}, the file's SHA-256")
    found += problems.found
    return contents


def _read_descriptions(
    contents: dict[str, str], manifest: Manifest, found: list[Problem]
) -> list[tuple[Json, Description | None]]:
    trees: list[tuple[Json, Description | None]] = []
    for number in range(len(manifest.files) - 1):
        problems = Problems(file_name(number))
        text = contents.get(file_name(number))
        tree = None if text is None else _read_json(text, problems)
        parsed = None if text is None or problems.found else parse_description(tree, problems)
        trees.append((tree, parsed))
        found += problems.found
    return trees


def _read_listing(contents: dict[str, str], found: list[Problem]) -> Listing | None:
    problems = Problems(EXECUTION_LIST)
    text = contents.get(EXECUTION_LIST)
    parsed = None if text is None else parse_listing(text, problems)
    found += problems.found
    return parsed


def _assemble(
    manifest: Manifest,
    descriptions: tuple[Description, ...],
    entries: Listing,
    found: list[Problem],
    machine: Machine,
) -> Bundle | None:
    problems = Problems(EXECUTION_LIST)
    for number, description in enumerate(descriptions):
        own = Problems(file_name(number))
        check_description(description, own, machine)
        found += own.found
    if found:
        return None
    shapes = [geometry(description) for description in descriptions]
    starts = _starts(manifest)
    executions = [_execution(entry, number, starts, shapes, problems) for number, entry in enumerate(entries.entries)]
    found += problems.found
    known = tuple(execution for execution in executions if execution is not None)
    if len(known) < len(executions):
        return None
    return Bundle(manifest.name, manifest.buffers, descriptions, known, manifest.scalars, manifest.pool_bytes)


def _starts(manifest: Manifest) -> dict[str, Address]:
    """Where each tensor begins: an argument at its own base, a temp in the pool."""
    arguments = [buffer for buffer in manifest.buffers if buffer.role is not Role.TEMP]
    starts = {buffer.name: Address(number, 0) for number, buffer in enumerate(arguments)}
    return starts | {b.name: Address(POOL, b.place or 0) for b in manifest.buffers if b.role is Role.TEMP}


def _execution(
    entry: Entry, number: int, starts: dict[str, Address], shapes: list[Geometry], problems: Problems
) -> Execution | None:
    """The execution an entry stands for: of each tensor the address of core 0 tells the place."""
    field = f"execution {number}"
    index = int(entry.file.removeprefix("sdsc_").removesuffix(".json"))
    if index >= len(shapes) or entry.file != file_name(index):
        problems.add(f"{field}.sdsc_filename", entry.file, "a file of the bundle")
        return None
    shape = shapes[index]
    counts = [len(set(tensor.core_bytes)) for tensor in shape.tensors]
    if len(entry.addresses) != sum(counts) or len(entry.buffers) != len(counts):
        text = f"{len(entry.addresses)} addresses, {len(entry.buffers)} tensors"
        problems.say(field, text, f"{sum(counts)} addresses, {len(counts)} tensors")
        return None
    places, position = [], 0
    for name, tensor, count in zip(entry.buffers, shape.tensors, counts, strict=True):
        address = entry.addresses[position]
        position += count
        if name not in starts or address.base != starts[name].base:
            problems.add(f"{field}.openspyre_buffers", name, "the tensor its address belongs to")
            return None
        places.append(Place(name, address.byte - starts[name].byte - tensor.core_bytes[0]))
    return Execution(entry.name, index, tuple(places), entry.scalars, entry.origin)


def _compare_documented(bundle: Bundle, trees: list[Json], entries: Listing, manifest: Manifest) -> list[Problem]:
    """The files say most things twice: what can be derived is derived again and must agree."""
    found: list[Problem] = []
    shapes = [geometry(description) for description in bundle.descriptions]
    firsts = first_symbols(shapes)
    for number, (tree, description) in enumerate(zip(trees, bundle.descriptions, strict=True)):
        problems = Problems(file_name(number))
        compare(tree, sdsc_json(description, number, firsts[number]), "", problems)
        found += problems.found
    problems = Problems(EXECUTION_LIST)
    expected = listing(bundle, shapes)
    if (entries.arguments, entries.has_pool) != (expected.arguments, expected.has_pool):
        text = f"{entries.arguments} arguments, pool: {entries.has_pool}"
        problems.say("@sdsc_bundle", text, f"{expected.arguments} arguments, pool: {expected.has_pool}")
    for number, (entry, wanted) in enumerate(zip(entries.entries, expected.entries, strict=True)):
        field = f"execution {number} ({entry.name})"
        if entry.symbol_ids != wanted.symbol_ids:
            problems.add(f"{field}.symbol_ids", list(entry.symbol_ids), repr(list(wanted.symbol_ids)))
        for symbol, address, right in zip(wanted.symbol_ids, entry.addresses, wanted.addresses, strict=True):
            if address != right:
                problems.say(f"{field}.address of symbol {symbol}", str(address), str(right))
    found += problems.found
    digest = content_hash(bundle)
    if manifest.content_hash != digest:
        found.append(Problem(MANIFEST, "content_hash", manifest.content_hash[:80], digest))
    return found
