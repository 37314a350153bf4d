"""Numbers that are known when a program is made: constants of a step's code instead of operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openspyre.artifact.emitted import Number
from openspyre.program.model import Map, Operand, OperandKind, Reduce, Space, Step
from openspyre.spec.encodings import float_bits, sen169_decode, sen169_encode
from openspyre.spec.errors import InternalError
from openspyre.spec.formats import DataFormats
from openspyre.spec.ops.expression import PRIMITIVES, Code, Lane, Value, trace


def with_known_numbers(step: Step, known: Sequence[Number | None]) -> Step:
    """The step without those of its inputs whose symbol is a known number."""
    numbers = {
        place: found
        for place, operand in enumerate(step.inputs)
        if _is_of_base(operand) and operand.symbol < len(known) and (found := known[operand.symbol]) is not None
    }
    if not numbers:
        return step
    if not isinstance(step, Map | Reduce):
        raise InternalError(f"{step.name}: a number among the tensors of a step that is no map")
    left = tuple(operand for place, operand in enumerate(step.inputs) if place not in numbers)
    if not left:  # a step has inputs; nobody looks at this one
        left = (Operand(OperandKind.IOTA, 0, 0, (0,) * len(step.dims), 0, "int32", "IEEE_INT32"),)
    code = _without_inputs(step.code, {place: _bits(number) for place, number in numbers.items()})
    return replace(step, inputs=left, code=code)


def _is_of_base(operand: Operand) -> bool:
    """Whether its symbol is a base: what lies in scratchpads has none."""
    return operand.kind.in_memory and operand.space is Space.MEMORY


def _bits(number: Number) -> tuple[int, Lane]:
    """As an operand of the number's format would be loaded."""
    if number.format in (DataFormats.IEEE_INT32, DataFormats.SENUINT32):
        return int(number.value) & 0xFFFFFFFF, Lane.INT
    narrow = number.format is DataFormats.SEN169_FP16
    value = float(sen169_decode(sen169_encode(np.float32(number.value)))) if narrow else number.value
    return float_bits(value), Lane.FLOAT


def _without_inputs(code: Code, known: dict[int, tuple[int, Lane]]) -> Code:
    lanes = tuple(lane for place, lane in enumerate(code.inputs) if place not in known)

    def body(*values: Value) -> tuple[Value, ...]:
        tracer, given = values[0].tracer, iter(values)
        registers = {
            place: tracer.constant(*known[place]) if place in known else next(given)
            for place in range(len(code.inputs))
        }
        for place, bits in enumerate(code.constants, len(code.inputs)):
            registers[place] = tracer.constant(bits, Lane.FLOAT)
        for instruction in code.instructions:
            sources = tuple(registers[source] for source in instruction.sources)
            lane = sources[1 if instruction.opcode == "select" else 0].lane
            lane = PRIMITIVES[instruction.opcode][1] if instruction.opcode in PRIMITIVES else lane
            registers[instruction.target] = tracer.emit(instruction.opcode, sources, lane)
        return tuple(
            Value(tracer, registers[result].number, lane)
            for result, lane in zip(code.results, code.result_lanes, strict=True)
        )

    return trace(body, lanes or (Lane.INT,))
