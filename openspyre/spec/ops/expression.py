"""The language in which the op table says what an op computes: expressions over 32-bit lanes.

A row's body is a Python function from `Value`s to a `Value`; `trace` runs it once and returns straight-line `Code` for the
card's vector unit. Arithmetic is fp32 or int32, each primitive rounded once (contract N3, N4); comparisons give predicates.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

MAX_REGISTERS = 32


class Lane(StrEnum):
    """What a register's 32 bits are."""

    FLOAT = "float"
    INT = "int"
    BOOL = "bool"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One primitive on registers; `opcode` names a row of `PRIMITIVES`, or select or copy."""

    opcode: str
    target: int
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Straight-line code: inputs in registers 0.., then constants, then results of the instructions."""

    inputs: tuple[Lane, ...]
    constants: tuple[int, ...]  # 32-bit patterns, preloaded behind the inputs
    instructions: tuple[Instruction, ...]
    results: tuple[int, ...]
    result_lanes: tuple[Lane, ...]


# name -> (lanes of the sources, lane of the result); the arity is the number of sources. Arithmetic and rounding are exact,
# functions within 2 ulp (N7), rsqrt and reciprocal within 1. The card's opcodes are made from this (csrc/generate.py).
_F, _I, _B = Lane.FLOAT, Lane.INT, Lane.BOOL
PRIMITIVES: dict[str, tuple[tuple[Lane, ...], Lane]] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), ((_F, _F), _F)),
    **dict.fromkeys(("min", "max"), ((_F, _F), _F)),  # NaN if either is, as torch.minimum
    **dict.fromkeys(("pow", "fmod", "atan2"), ((_F, _F), _F)),
    "fma": ((_F, _F, _F), _F),
    **dict.fromkeys(
        ("sqrt", "neg", "abs", "floor", "ceil", "round", "trunc", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2",
         "log10", "log1p", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos", "atan", "erf", "erfc", "sigmoid"),
        ((_F,), _F)),  # round: half to even
    "round_sen169": ((_F,), _F),  # to the SEN169 grid and back: rounding inside a fused chain
    **dict.fromkeys(("lt_f", "le_f", "eq_f", "ne_f"), ((_F, _F), _B)),
    **dict.fromkeys(("lt_i", "le_i", "eq_i", "ne_i"), ((_I, _I), _B)),
    **dict.fromkeys(("is_nan", "is_inf", "sign_bit"), ((_F,), _B)),
    # wrapping; div and mod floor, tdiv and tmod truncate, division by 0 gives 0; mul_high: the upper 32 bits of the unsigned product
    **dict.fromkeys(
        ("add_i", "sub_i", "mul_i", "div_i", "mod_i", "tdiv_i", "tmod_i", "min_i", "max_i", "and", "or", "xor", "shl", "shr",
         "mul_high"),
        ((_I, _I), _I)),
    **dict.fromkeys(("neg_i", "abs_i", "not"), ((_I,), _I)),
    "float_to_bool": ((_F,), _B),  # NaN is true
    "float_to_int": ((_F,), _I),  # truncates, saturates, NaN gives 0 (N8)
    "int_to_float": ((_I,), _F),  # nearest even
    "int_to_bool": ((_I,), _B),
    "bool_to_float": ((_B,), _F),
    "philox": ((_I, _I, _I, _I, _I), _I),  # place, seed low, high, offset low, high -> a word of the seed's stream
    "normal": ((_I,), _F),  # the quantile that a word stands for
}  # fmt: skip


class Tracer:
    def __init__(self, lanes: tuple[Lane, ...]) -> None:
        self.lanes: list[Lane] = list(lanes)
        self.inputs = len(lanes)
        self.constants: dict[int, int] = {}  # 32-bit pattern -> value number
        self.steps: list[tuple[str, int, tuple[int, ...]]] = []
        self.known: dict[tuple[str, tuple[int, ...]], int] = {}

    def constant(self, bits: int, lane: Lane) -> Value:
        if bits not in self.constants:
            self.lanes.append(lane)
            self.constants[bits] = len(self.lanes) - 1
        return Value(self, self.constants[bits], lane)

    def emit(self, opcode: str, sources: tuple[Value, ...], lane: Lane) -> Value:
        key = (opcode, tuple(source.number for source in sources))
        if key not in self.known:
            self.lanes.append(lane)
            self.known[key] = len(self.lanes) - 1
            self.steps.append((opcode, self.known[key], key[1]))
        return Value(self, self.known[key], lane)


@dataclass(frozen=True, slots=True)
class Value:
    """A value of an expression while it is traced. Python numbers mix in as constants."""

    tracer: Tracer
    number: int
    lane: Lane

    def _lift(self, other: Value | float) -> Value:
        return other if isinstance(other, Value) else constant(self, other, self.lane)

    def _both(self, other: Value | float, real: str, integer: str) -> Value:
        other = self._lift(other)
        if Lane.FLOAT in (self.lane, other.lane):
            return call(real, to_float(self), to_float(other))
        return call(integer, to_int(self), to_int(other))

    def __add__(self, other: Value | float) -> Value:
        return self._both(other, "add", "add_i")

    def __radd__(self, other: float) -> Value:
        return self._lift(other) + self

    def __sub__(self, other: Value | float) -> Value:
        return self._both(other, "sub", "sub_i")

    def __rsub__(self, other: float) -> Value:
        return self._lift(other) - self

    def __mul__(self, other: Value | float) -> Value:
        return self._both(other, "mul", "mul_i")

    def __rmul__(self, other: float) -> Value:
        return self._lift(other) * self

    def __truediv__(self, other: Value | float) -> Value:
        return call("div", to_float(self), to_float(self._lift(other)))

    def __rtruediv__(self, other: float) -> Value:
        return self._lift(other) / self

    def __neg__(self) -> Value:
        return call("neg", self) if self.lane is Lane.FLOAT else call("neg_i", to_int(self))

    def __lt__(self, other: Value | float) -> Value:
        return self._both(other, "lt_f", "lt_i")

    def __le__(self, other: Value | float) -> Value:
        return self._both(other, "le_f", "le_i")

    def __gt__(self, other: Value | float) -> Value:
        return self._lift(other) < self

    def __ge__(self, other: Value | float) -> Value:
        return self._lift(other) <= self

    def equals(self, other: Value | float) -> Value:
        return self._both(other, "eq_f", "eq_i")

    def differs(self, other: Value | float) -> Value:
        return self._both(other, "ne_f", "ne_i")


def constant(like: Value, number: float, lane: Lane) -> Value:
    """A number as a constant of the expression that `like` belongs to."""
    if lane is Lane.FLOAT or isinstance(number, float):
        return like.tracer.constant(struct.unpack("<I", struct.pack("<f", number))[0], Lane.FLOAT)
    return like.tracer.constant(int(number) & 0xFFFFFFFF, Lane.INT)


def call(opcode: str, *sources: Value) -> Value:
    """Apply a primitive; its sources must already be of the lanes it takes."""
    wanted, result = PRIMITIVES[opcode]
    given = tuple(source.lane for source in sources)
    if given != wanted and not all(
        g is w or (w is Lane.INT and g is Lane.BOOL) for g, w in zip(given, wanted, strict=True)
    ):
        raise TypeError(f"{opcode} takes {[str(w) for w in wanted]}, not {[str(g) for g in given]}")
    return sources[0].tracer.emit(opcode, sources, result)


def select(condition: Value, yes: Value | float, no: Value | float) -> Value:
    """`yes` where the condition holds, else `no`; both become the wider of their two lanes."""
    anchor = next((v for v in (yes, no) if isinstance(v, Value)), condition)
    first, second = anchor._lift(yes), anchor._lift(no)
    if first.lane is not second.lane:
        widen = to_float if Lane.FLOAT in (first.lane, second.lane) else to_int
        first, second = widen(first), widen(second)
    return condition.tracer.emit("select", (to_bool(condition), first, second), first.lane)


def to_float(value: Value) -> Value:
    match value.lane:
        case Lane.FLOAT:
            return value
        case Lane.INT:
            return call("int_to_float", value)
        case Lane.BOOL:
            return call("bool_to_float", value)


def to_int(value: Value) -> Value:
    """Predicates already are 0 or 1."""
    return call("float_to_int", value) if value.lane is Lane.FLOAT else value


def to_bool(value: Value) -> Value:
    match value.lane:
        case Lane.FLOAT:
            return call("float_to_bool", value)
        case Lane.INT:
            return call("int_to_bool", value)
        case Lane.BOOL:
            return value


def convert(value: Value, lane: Lane) -> Value:
    return {Lane.FLOAT: to_float, Lane.INT: to_int, Lane.BOOL: to_bool}[lane](value)


def trace(body: Callable[..., Value | tuple[Value, ...]], inputs: tuple[Lane, ...]) -> Code:
    """Run a body once on symbolic values; dead steps are dropped and registers are used again."""
    tracer = Tracer(inputs)
    returned = body(*(Value(tracer, number, lane) for number, lane in enumerate(inputs)))
    results = returned if isinstance(returned, tuple) else (returned,)
    return _allocate(tracer, results)


def _allocate(tracer: Tracer, results: tuple[Value, ...]) -> Code:
    needed = {value.number for value in results}
    live: list[tuple[str, int, tuple[int, ...]]] = []
    for step in reversed(tracer.steps):
        if step[1] in needed:
            needed.update(step[2])
            live.append(step)
    live.reverse()
    constants = [(number, bits) for bits, number in tracer.constants.items() if number in needed]
    register = {number: number for number in range(tracer.inputs)}
    register |= {number: tracer.inputs + place for place, (number, _) in enumerate(constants)}
    last_use = {source: place for place, (_, _, sources) in enumerate(live) for source in sources}
    last_use |= {value.number: len(live) for value in results}
    pinned = len(register)
    free: list[int] = []
    instructions = []
    for place, (opcode, number, sources) in enumerate(live):
        taken = tuple(register[source] for source in sources)
        free += [register[s] for s in dict.fromkeys(sources) if last_use[s] == place and register[s] >= pinned]
        register[number] = free.pop() if free else max(register.values(), default=-1) + 1
        instructions.append(Instruction(opcode, register[number], taken))
    if instructions and max(i.target for i in instructions) >= MAX_REGISTERS:
        raise ValueError(f"an expression needs more than {MAX_REGISTERS} registers; split it into two ops")
    return Code(
        inputs=tuple(tracer.lanes[: tracer.inputs]),
        constants=tuple(bits for _, bits in constants),
        instructions=tuple(instructions),
        results=tuple(register[value.number] for value in results),
        result_lanes=tuple(value.lane for value in results),
    )
