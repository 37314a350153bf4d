"""The documented name of a kernel: what a trace calls a bundle's launches, and how to find the bundle again.

`spyre_kernel_v1_fused_<operators>_<key>#<step>`; the key is of what the bundle computes, where, and from which lines.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import NamedTuple

from openspyre.artifact.emitted import Emitted, Execution, Loop, Node, Shared

PREFIX = "spyre_kernel_v1_"
NAME_BYTES = 127
_STEP_BYTES = 21  # "#" and the digits of a 64-bit number
_KEY_LETTERS = 16
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_EVENT = re.compile(rf"{PREFIX}(\w+)_([{_BASE32}]{{{_KEY_LETTERS}}})(?:#(\d+))?")


class KernelEvent(NamedTuple):
    """What the name of an event says."""

    operators: str
    key: str
    step: int | None


def kernel_key(emitted: Emitted) -> str:
    """The first 16 letters, base32, of SHA-256 over the bundle's tree: ops, their spaces, tensors and places, and handles."""
    known: dict[int, str] = {}  # equal ops share their text
    digest = hashlib.sha256(_text(emitted.body, known).encode()).digest()
    number = int.from_bytes(digest[: _KEY_LETTERS * 5 // 8], "big")
    return "".join(_BASE32[number >> shift & 31] for shift in range(5 * (_KEY_LETTERS - 1), -1, -5))


def _text(body: Iterable[Node], known: dict[int, str]) -> str:
    return "[" + ",".join([_node(node, known) for node in body]) + "]"


def _node(node: Node, known: dict[int, str]) -> str:
    match node:
        case Loop(count, body):
            return f'{{"count":{count},"body":{_text(body, known)}}}'
        case Execution(_, shared, bases, provenance):
            spec = known.get(id(shared))
            if spec is None:
                spec = known[id(shared)] = _spec(shared)
            places = [[base.parameter, base.byte, *base.advance] for base in bases]
            return f'{{"spec":{spec},"places":{json.dumps(places)},"handle":"{provenance.id}"}}'


def _spec(shared: Shared) -> str:
    op = shared.op
    tensors = [[t.role, t.format.name, t.order, t.scales, t.component, t.gaps] for t in op.tensors]
    constants = [[constant.name, constant.format.name, constant.bits] for constant in op.constants]
    dims = [[axis.label, axis.size, axis.split] for axis in op.axes]
    return json.dumps([op.op, op.unit, dims, tensors, shared.offsets, constants], separators=(",", ":"))


def kernel_name(operators: Iterable[str | None], key: str) -> str:
    """Operators in order, each once, without namespace and overload; as many as there is room for."""
    names = list(
        dict.fromkeys(operator.split(".")[1] if "." in operator else operator for operator in operators if operator)
    )
    room = NAME_BYTES - _STEP_BYTES - len(PREFIX) - len("fused_") - 1 - len(key)
    while len("_".join(names)) > room:
        names.pop()
    return f"{PREFIX}fused_{'_'.join(names) or 'unknown'}_{key}"


def event_name(kernel: str, step: int) -> str:
    return f"{kernel}#{step}"


def read_event_name(name: str) -> KernelEvent | None:
    """None if it is no kernel's."""
    found = _EVENT.fullmatch(name)
    return None if found is None else KernelEvent(found[1], found[2], int(found[3]) if found[3] else None)
