"""What a step's registers hold: types followed through vector code, and which elements can be loaded and stored.

Twin of `csrc/card/program/code_check.cpp`. Lanes of truth values are int32 registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from openspyre.program.model import Operand, OperandKind
from openspyre.spec.formats import HELD_IN, TENSOR_DTYPES
from openspyre.spec.ops.expression import MAX_REGISTERS, PRIMITIVES, Code, Lane
from openspyre.spec.ops.row import Fold


class Register(StrEnum):
    FLOAT = "fp32"
    INT = "int32"
    ANY = "any"  # a constant or a scalar of the launch: 32 bits that tell nobody what they are


OF_LANE = {Lane.FLOAT: Register.FLOAT, Lane.INT: Register.INT, Lane.BOOL: Register.INT}
_SHARED = "shared"  # the same type in all places where it stands, whichever
SIGNATURES: dict[str, tuple[tuple[str, ...], str]] = {
    name: (tuple(OF_LANE[lane] for lane in lanes), OF_LANE[result]) for name, (lanes, result) in PRIMITIVES.items()
} | {"select": ((Register.INT, _SHARED, _SHARED), _SHARED), "copy": ((_SHARED,), _SHARED)}

_HELD_IN = {dtype: frozenset(form.name for form in forms) for dtype, forms in HELD_IN.items()}
_FLOATS = tuple(name for name in TENSOR_DTYPES if "float" in name)


def loaded_type(operand: Operand) -> Register:
    """What loading an operand gives; truth values come as 0.0 or 1.0."""
    match operand.kind:
        case OperandKind.SCALAR:
            return Register.ANY
        case OperandKind.IOTA:
            return Register.INT
    return Register.FLOAT if operand.dtype == "bool" or operand.dtype in _FLOATS else Register.INT


def has_codec(operand: Operand) -> bool:
    return not operand.kind.in_memory or operand.data_format in _HELD_IN.get(operand.dtype, ())


def can_store(operand: Operand, kind: Register) -> bool:
    fits = operand.dtype == "bool" or kind in (Register.ANY, loaded_type(operand))
    return fits and has_codec(operand)


def folded_type(combine: Fold | None, kind: Register) -> Register:
    if combine in (Fold.ANY, Fold.ALL):
        return Register.INT
    return Register.FLOAT if kind is Register.ANY else kind


def result_types(code: Code, inputs: Sequence[Register], where: str, problems: list[str]) -> list[Register]:
    """Types of a code's results; appends whatever it reads before it is set, or takes for what it is not."""
    follow = _Types(where, problems)
    if len(code.inputs) != len(inputs):
        follow.complain(f"takes {len(code.inputs)} inputs, there are {len(inputs)}")
    for register, kind in enumerate(inputs):
        follow.set(register, kind, "an input")
    for place in range(len(code.constants)):
        follow.set(len(code.inputs) + place, Register.ANY, "a constant")
    for place, instruction in enumerate(code.instructions):
        follow.step(place, instruction.opcode, instruction.target, instruction.sources)
    found = [follow.get(register, "a result") for register in code.results]
    if len(code.result_lanes) != len(found):
        follow.complain(f"{len(code.result_lanes)} types for {len(found)} results")
    for place, lane in enumerate(code.result_lanes[: len(found)]):
        if not _agree(found[place], OF_LANE[lane]):
            follow.complain(f"result {place} is said to be {OF_LANE[lane]}, found {found[place]}")
        if found[place] is Register.ANY:
            found[place] = OF_LANE[lane]
    return found


def is_written(code: Code) -> bool:
    """Whether instructions make all results, and none is an input or a constant as it was."""
    targets = {instruction.target for instruction in code.instructions}
    return all(result in targets for result in code.results)


def _agree(have: str, want: str) -> bool:
    return have == want or Register.ANY in (have, want)


class _Types:
    def __init__(self, where: str, problems: list[str]) -> None:
        self.where, self.problems = where, problems
        self.known: dict[int, Register] = {}

    def complain(self, what: str) -> None:
        self.problems.append(f"{self.where}: {what}")

    def set(self, register: int, kind: Register, what: str) -> None:
        if not 0 <= register < MAX_REGISTERS:
            self.complain(f"{what} writes r{register}, the last register is r{MAX_REGISTERS - 1}")
        self.known[register] = kind

    def get(self, register: int, what: str) -> Register:
        if register not in self.known:
            self.complain(f"{what} reads r{register}, which nothing has set")
        return self.known.get(register, Register.ANY)

    def step(self, place: int, opcode: str, target: int, sources: tuple[int, ...]) -> None:
        what = f"instruction {place} ({opcode})"
        if opcode not in SIGNATURES:
            self.complain(f"{what} is no primitive of the vector unit")
            return
        wanted, result = SIGNATURES[opcode]
        if len(sources) != len(wanted):
            self.complain(f"{what} takes {len(wanted)} registers, found {len(sources)}")
        shared = Register.ANY
        for source, want in zip(sources, wanted, strict=False):
            have = self.get(source, what)
            needed = shared if want == _SHARED else Register(want)
            if not _agree(have, needed):
                self.complain(f"{what} needs {needed} in r{source}, found {have}")
            if want == _SHARED and have is not Register.ANY:
                shared = have
        self.set(target, shared if result == _SHARED else Register(result), what)
