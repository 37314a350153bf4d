"""`bundle.mlir`: prints the execution list and reads it back. Exactly our subset of MLIR, one operation per line."""

from __future__ import annotations

import json
import re

from openspyre.artifact.fields import MAX_INT, Problems
from openspyre.artifact.listing import POOL, Address, Entry, Listing

_ARGUMENT_TYPE = "!sdscbundle.input_arg<index>"
_EXTRACT = "sdscbundle.input_arg_extract value from"


def print_listing(listing: Listing) -> str:
    bases = ([POOL] if listing.has_pool else []) + list(range(listing.arguments))
    parameters = ", ".join(f"%{_base_name(base)}_base_addr: {_ARGUMENT_TYPE}" for base in bases)
    lines = ["module {", f"  func.func @sdsc_bundle({parameters}) {{"]
    for base in bases:
        name = _base_name(base)
        lines.append(f"    %{name} = {_EXTRACT} %{name}_base_addr : {_ARGUMENT_TYPE} -> index")
    constants: dict[int, None] = {}
    derived: dict[Address, None] = {}
    for entry in listing.entries:
        for address in entry.addresses:
            if address.byte or address.base == POOL:
                constants.setdefault(address.byte)
                derived.setdefault(address)
    lines += [f"    %c{byte} = arith.constant {byte} : index" for byte in constants]
    for address in derived:
        lines.append(f"    {_value(address)} = arith.addi %{_base_name(address.base)}, %c{address.byte} : index")
    lines += [f"    {_print_entry(entry)}" for entry in listing.entries]
    return "\n".join([*lines, "    return", "  }", "}", ""])


def _base_name(base: int) -> str:
    return "pool" if base == POOL else f"arg_{base}"


def _value(address: Address) -> str:
    if address.base == POOL:
        return f"%pool_addr_{address.byte}"
    return f"%arg_{address.base}_addr_{address.byte}" if address.byte else f"%arg_{address.base}"


def _print_entry(entry: Entry) -> str:
    operands = ", ".join(_value(address) for address in entry.addresses)
    attributes = {
        "symbol_ids": json.dumps(list(entry.symbol_ids)),
        "openspyre_name": json.dumps(entry.name),
        "openspyre_buffers": json.dumps(list(entry.buffers)),
        "openspyre_scalars": json.dumps(list(entry.scalars)),
        "openspyre_origin": json.dumps(entry.origin),
    }
    text = ", ".join(f'"{name}"={value}' for name, value in attributes.items())
    return f'sdscbundle.sdsc_execute ({operands}) {{sdsc_filename="{entry.file}", {text}}}'


_FUNCTION = re.compile(r"func\.func @sdsc_bundle\((.*)\) \{")
_PARAMETER = re.compile(r"%(pool|arg_\d{1,6})_base_addr: " + re.escape(_ARGUMENT_TYPE))
_EXTRACTED = re.compile(rf"%(pool|arg_\d{{1,6}}) = {_EXTRACT} %\1_base_addr : {re.escape(_ARGUMENT_TYPE)} -> index")
_CONSTANT = re.compile(r"%(c\d+) = arith\.constant (\d{1,19}) : index")
_ADDED = re.compile(r"%(\w+) = arith\.addi %(pool|arg_\d{1,6}), %(c\d+) : index")
_EXECUTE = re.compile(r'sdscbundle\.sdsc_execute \((.*?)\) \{sdsc_filename="(sdsc_\d{1,7}\.json)", (.*)\}')
_ATTRIBUTE = re.compile(r'(?:, )?"(\w+)"=')
_DECODER = json.JSONDecoder()


def parse_listing(text: str, problems: Problems) -> Listing | None:
    """The listing a file states; None, with problems that name lines, if it states none."""
    return _Parser(problems).run(text)


class _Parser:
    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.line = 0
        self.values: dict[str, Address] = {}
        self.constants: dict[str, int] = {}
        self.parameters: list[str] = []
        self.entries: list[Entry] = []

    def run(self, text: str) -> Listing | None:
        lines = [line.strip() for line in text.split("\n")]
        body = lines[2:-4]
        frame = [*lines[:1], *lines[-4:]]
        if frame != ["module {", "return", "}", "}", ""] or not self._header(lines[1]):
            self.problems.say("", "another shape", "module { func.func @sdsc_bundle(...) { ... return } }")
            return None
        for number, line in enumerate(body, 3):
            self.line = number
            self._statement(line)
        if self.problems.found:
            return None
        arguments = [name for name in self.parameters if name != "pool"]
        return Listing(len(arguments), "pool" in self.parameters, tuple(self.entries))

    def _header(self, line: str) -> bool:
        found = _FUNCTION.fullmatch(line)
        if not found:
            return False
        for part in found[1].split(", ") if found[1] else []:
            parameter = _PARAMETER.fullmatch(part)
            if not parameter:
                return False
            self.parameters.append(parameter[1])
        arguments = [name for name in self.parameters if name != "pool"]
        pool = self.parameters[:1] == ["pool"]
        wanted = (["pool"] if pool else []) + [f"arg_{i}" for i in range(len(arguments))]
        return self.parameters == wanted

    def _statement(self, line: str) -> None:
        if found := _EXTRACTED.fullmatch(line):
            if found[1] not in self.parameters:
                self._wrong(f"%{found[1]}", "a parameter of the function")
            self.values[found[1]] = Address(POOL if found[1] == "pool" else int(found[1][4:]), 0)
        elif found := _CONSTANT.fullmatch(line):
            if int(found[2]) > MAX_INT:
                self._wrong(found[2], f"a number of at most {MAX_INT}")
            self.constants[found[1]] = int(found[2])
        elif found := _ADDED.fullmatch(line):
            base, byte = self.values.get(found[2]), self.constants.get(found[3])
            if base is None or byte is None:
                self._wrong(line, "values that were defined before")
            else:
                self.values[found[1]] = Address(base.base, byte)
        elif found := _EXECUTE.fullmatch(line):
            self._execute(found[1], found[2], found[3])
        else:
            self._wrong(line, "an operation of this format")

    def _execute(self, operands: str, file: str, attributes: str) -> None:
        addresses = []
        for name in operands.split(", ") if operands else []:
            address = self.values.get(name.removeprefix("%"))
            if address is None:
                self._wrong(name, "an address that was defined before")
                return
            addresses.append(address)
        found = self._attributes(attributes)
        if found is None:
            return
        ids, name, buffers, scalars, origin = found
        self.entries.append(Entry(file, tuple(addresses), ids, name, buffers, scalars, origin))

    def _attributes(self, text: str) -> tuple[tuple[int, ...], str, tuple[str, ...], tuple[str, ...], str] | None:
        parsed: dict[str, object] = {}
        position = 0
        while match := _ATTRIBUTE.match(text, position):
            try:
                parsed[match[1]], position = _DECODER.raw_decode(text, match.end())
            except (ValueError, RecursionError):
                self._wrong(text[match.end() :], "a JSON value")
                return None
        match parsed:
            case {
                "symbol_ids": list(ids),
                "openspyre_name": str(name),
                "openspyre_buffers": list(buffers),
                "openspyre_scalars": list(scalars),
                "openspyre_origin": str(origin),
            } if position == len(text) and len(parsed) == 5:
                if all(type(i) is int for i in ids) and all(isinstance(s, str) for s in (*buffers, *scalars)):
                    return tuple(ids), name, tuple(buffers), tuple(scalars), origin
        self._wrong(text, "symbol_ids, openspyre_name, openspyre_buffers, openspyre_scalars and openspyre_origin")
        return None

    def _wrong(self, found: str, expected: str) -> None:
        self.problems.add(f"line {self.line}", found, expected)
