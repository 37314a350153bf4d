"""A bundle of documented fields alone: `sdsc_*.json` and `bundle.mlir`, of whichever front end wrote them.

Launch arguments go by segment: parameter i of the function (symbolic addresses), or addresses from i * 16 GiB on (plain numbers).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from openspyre.artifact.bundle_function import Address, Execute, Function, Node
from openspyre.artifact.directory import EXECUTION_LIST, InvalidBundle, is_directory, json_text, read_text
from openspyre.artifact.fields import Problem, Problems
from openspyre.artifact.json_types import Json
from openspyre.artifact.mlir_reader import read_function
from openspyre.artifact.mlir_writer import function_text
from openspyre.artifact.superdsc import Component, SuperDsc
from openspyre.artifact.superdsc_reader import read_superdsc
from openspyre.artifact.superdsc_writer import superdsc_json

SEGMENT_BYTES = 16 << 30
SEGMENTS = 7  # the eighth holds the program
_EARLIER = "manifest.json"


@dataclass(frozen=True)
class Bundle:
    """What runs: the function of `bundle.mlir`, and the op of every file it names."""

    name: str
    function: Function
    ops: dict[str, SuperDsc]

    @property
    def symbolic(self) -> bool:
        """Whether arguments are parameters; otherwise addresses are plain numbers in the segments."""
        return bool(self.function.parameters)

    @property
    def arguments(self) -> int:
        """How many arguments a launch takes, counting segments nothing uses."""
        if self.symbolic:
            return sum(not parameter.is_size for parameter in self.function.parameters)
        starts = [
            start
            for op in self.ops.values()
            for tensor in op.tensors
            if tensor.component is Component.MEMORY
            for start in tensor.starts
        ]
        return max((start // SEGMENT_BYTES + 1 for start in starts), default=0)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """What the arguments are called: by their parameters, or by their segments."""
        if self.symbolic:
            return tuple(parameter.short_name for parameter in self.function.parameters if not parameter.is_size)
        return tuple(f"segment_{number}" for number in range(self.arguments))

    @property
    def has_pool(self) -> bool:
        return any(parameter.is_pool for parameter in self.function.parameters)


def addresses(execute: Execute, iterations: tuple[int, ...] = ()) -> Callable[[int], Address]:
    """From the start of a tensor in memory to the argument and byte that it means in one execution."""
    symbols = dict(execute.symbols)

    def address(start: int) -> Address:
        if start >= 0:
            return Address(start // SEGMENT_BYTES, start % SEGMENT_BYTES)
        return symbols[start].at(iterations)

    return address


def bundle_texts(bundle: Bundle) -> dict[str, str]:
    """Every file of a bundle by name."""
    files = {file: json_text(superdsc_json(op)) for file, op in bundle.ops.items()}
    return files | {EXECUTION_LIST: function_text(bundle.function)}


def read_bundle(directory: Path) -> Bundle:
    """The bundle of a directory; InvalidBundle lists everything that keeps it from being one."""
    problems: list[Problem] = []
    found = parse_bundle(directory, problems)
    if found is None or problems:
        raise InvalidBundle(str(directory), problems)
    return found


def parse_bundle(directory: Path, problems: list[Problem]) -> Bundle | None:
    """As `read_bundle`, with the problems collected."""
    if not is_directory(directory):
        problems.append(Problem(str(directory), "", "no directory", f"a bundle with {EXECUTION_LIST} and sdsc_*.json"))
        return None
    if _is_of_earlier_form(directory):
        expected = "documented fields alone: compile the program again, or write it with torch_spyre.export_bundle"
        problems.append(Problem(_EARLIER, "", "a bundle of an earlier openspyre, which went by a manifest", expected))
        return None
    function = _function(directory, problems)
    if function is None:
        return None
    ops: dict[str, SuperDsc] = {}
    for file in function.files():
        op = _op(directory, file, problems)
        if op is not None:
            ops[file] = op
    if problems:
        return None
    bundle = Bundle(directory.resolve().name, function, ops)
    _check_symbols(bundle, problems)
    return bundle


def _is_of_earlier_form(directory: Path) -> bool:
    text, _ = read_text(directory, _EARLIER)
    return text is not None and '"openspyre bundle"' in text


def _function(directory: Path, problems: list[Problem]) -> Function | None:
    text, why = read_text(directory, EXECUTION_LIST)
    if text is None:
        problems.append(Problem(EXECUTION_LIST, "", str(why), "the list of executions"))
        return None
    found = Problems(EXECUTION_LIST)
    function = read_function(text, found)
    problems += found.found
    return function


def _op(directory: Path, file: str, problems: list[Problem]) -> SuperDsc | None:
    text, why = read_text(directory, file)
    if text is None:
        problems.append(Problem(file, "", str(why), f"the op that {EXECUTION_LIST} executes"))
        return None
    found = Problems(file)
    op = None
    try:
        tree: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        found.say("", f"no JSON ({error})", "JSON")
    else:
        op = read_superdsc(tree, found)
    problems += found.found
    return op


def _check_symbols(bundle: Bundle, problems: list[Problem]) -> None:
    """Every symbol a file uses has a value wherever the file is executed, and every value is an argument's address."""
    arguments = bundle.arguments if bundle.symbolic else SEGMENTS
    for file, op in bundle.ops.items():
        plain = [s for tensor in op.tensors if tensor.component is Component.MEMORY for s in tensor.starts if s >= 0]
        if plain and max(plain) // SEGMENT_BYTES >= arguments:
            found = f"{op.name}: byte {max(plain)}, in segment {max(plain) // SEGMENT_BYTES}"
            problems.append(Problem(file, "startAddressCoreCorelet_", found, f"one of the {arguments} segments"))
    for execute, counts in _executions(bundle.function.body, ()):
        given = dict(execute.symbols)
        for symbol in bundle.ops[execute.file].symbols:
            told = _wrong_symbol(symbol, given.get(symbol), counts, execute.file)
            if told is not None:
                problems.append(Problem(EXECUTION_LIST, f"line {execute.line}", *told))


def _executions(body: tuple[Node, ...], counts: tuple[int, ...]) -> Iterator[tuple[Execute, tuple[int, ...]]]:
    """Every execution once, with how often the loops around it go round."""
    for node in body:
        if isinstance(node, Execute):
            yield node, counts
        else:
            yield from _executions(node.body, (*counts, node.count))


def _wrong_symbol(symbol: int, address: Address | None, counts: tuple[int, ...], file: str) -> tuple[str, str] | None:
    """What was found and what is expected, if a symbol's value is none."""
    if address is None:
        return f"no value for symbol {symbol}", f"one, {file} uses it"
    if address.parameter is None:
        told = f"a number for symbol {symbol} (cores of a symbolic dim without an address, a known defect)"
        return told, "an argument's address"
    lowest = address.byte + sum(
        min(0, step * (count - 1)) for step, count in zip(address.advance, counts, strict=False) if count > 0
    )
    if lowest < 0:
        return f"byte {lowest} of an argument for symbol {symbol}", "a byte within it"
    return None
