"""Codes put behind each other: what a store and a load would have done to a value is done to it in a register."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from openspyre.program.model import Operand
from openspyre.spec.ops.expression import PRIMITIVES, Code, Instruction, Lane, Value, convert, trace

INPUT = -1  # in place of a piece: an input of the whole


class Link(Enum):
    """What a value meets on its way through memory."""

    NONE = "none"
    SEN169 = "sen169"
    TRUTH = "truth"


@dataclass(frozen=True, slots=True)
class Source:
    """Result `place` of a piece, or input `place` of the whole, as it is read behind a link."""

    piece: int
    place: int
    link: Link = Link.NONE


@dataclass(frozen=True, slots=True)
class Piece:
    code: Code
    sources: tuple[Source, ...]


_FLOATS = ("float16", "bfloat16", "float32")
_WORDS = ("int32", "int64")
# From values on the SEN169 grid these give values on it: rounding them again changes nothing.
_GRID_KEEPING = {"neg": (0,), "abs": (0,), "min": (0, 1), "max": (0, 1), "select": (1, 2), "copy": (0,)}


def link_between(stored: Operand, read: Operand) -> Link | None:
    """What storing and reading again does; None: no code of ours does the same."""
    if stored.data_format != read.data_format:
        return None
    pair = (stored.dtype, read.dtype)
    match stored.data_format:
        case "SEN169_FP16" if all(dtype in _FLOATS for dtype in pair):
            return Link.SEN169
        case "SEN169_FP16" if pair[0] in _FLOATS and pair[1] == "bool":
            return Link.SEN169  # who reads truth values asks whether they are 0
        case "SEN169_FP16" if pair == ("bool", "bool"):
            return Link.TRUTH
        case "IEEE_FP32" if all(dtype in _FLOATS for dtype in pair):
            return Link.NONE
        case "IEEE_INT32" if all(dtype in _WORDS for dtype in pair):
            return Link.NONE
    return None


def sees_signs_of_nan(code: Code) -> bool:
    """A stored NaN has no sign; in a register it has, and this code would see it."""
    return any(instruction.opcode == "sign_bit" for instruction in code.instructions)


@lru_cache(maxsize=4096)
def weave(
    inputs: tuple[Lane, ...], grid: tuple[bool, ...], pieces: tuple[Piece, ...], results: tuple[Source, ...]
) -> Code | None:
    """One code of many. `grid` tells which inputs are loaded from SEN169. None if the registers do not suffice."""
    if not inputs:
        return None

    def body(*values: Value) -> tuple[Value, ...]:
        woven = _Woven({value.number for value, on_grid in zip(values, grid, strict=True) if on_grid})
        done: list[tuple[Value, ...]] = []

        def take(source: Source) -> Value:
            value = values[source.place] if source.piece == INPUT else done[source.piece][source.place]
            return woven.linked(value, source.link)

        for piece in pieces:
            done.append(woven.replayed(piece.code, [take(source) for source in piece.sources], values[0]))
        return tuple(take(source) for source in results)

    try:
        return trace(body, inputs)
    except ValueError:
        return None


def written(code: Code) -> Code:
    """The same code, its only result the work of an instruction: a stage that writes nothing is none (csrc/card/program/program.h)."""
    (result,) = code.results
    first_free = len(code.inputs) + len(code.constants)
    if result >= first_free:
        return code
    return replace(code, instructions=(Instruction("copy", first_free, (result,)),), results=(first_free,))


class _Woven:
    """Emits instructions, and leaves out those that a value's history makes needless."""

    def __init__(self, grid: set[int]) -> None:
        self.grid = grid
        self.truths: dict[int, Value] = {}  # 0.0 or 1.0 in a register -> the predicate it was made of

    def replayed(self, code: Code, given: list[Value], anchor: Value) -> tuple[Value, ...]:
        tracer = anchor.tracer
        registers = dict(enumerate([*given, *(tracer.constant(bits, Lane.FLOAT) for bits in code.constants)]))
        for instruction in code.instructions:
            sources = tuple(registers[source] for source in instruction.sources)
            registers[instruction.target] = self._emit(instruction.opcode, sources)
        return tuple(
            Value(tracer, registers[register].number, lane)
            for register, lane in zip(code.results, code.result_lanes, strict=True)
        )

    def linked(self, value: Value, link: Link) -> Value:
        match link:
            case Link.SEN169:
                return value if value.number in self.grid else self._emit("round_sen169", (value,))
            case Link.TRUTH:
                return self._emit(
                    "bool_to_float",
                    (
                        convert(value, Lane.BOOL)
                        if value.lane is not Lane.FLOAT
                        else self._emit("float_to_bool", (value,)),
                    ),
                )
            case Link.NONE:
                return value

    def _emit(self, opcode: str, sources: tuple[Value, ...]) -> Value:
        if opcode == "float_to_bool" and sources[0].number in self.truths:
            return self.truths[sources[0].number]
        if opcode in PRIMITIVES:
            lane = PRIMITIVES[opcode][1]
        else:
            lane = sources[1 if opcode == "select" else 0].lane
        made = sources[0].tracer.emit(opcode, sources, lane)
        if opcode == "bool_to_float":
            self.truths[made.number] = sources[0]
        kept = _GRID_KEEPING.get(opcode, ())
        if opcode in ("round_sen169", "bool_to_float") or (kept and all(sources[k].number in self.grid for k in kept)):
            self.grid.add(made.number)
        return made
