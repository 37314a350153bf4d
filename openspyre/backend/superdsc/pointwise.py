"""Pointwise ops of the card, casts and copies among them: the op's expression over every element, masked ones replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from openspyre.artifact.superdsc import PRESENT, Constant, SuperDsc
from openspyre.backend.superdsc.instance import Access, Instance, Workspace
from openspyre.backend.superdsc.nest import VALUES, Nest, nest_of
from openspyre.program.model import Map, Operand, Reduce, Step
from openspyre.spec.encodings import sen169_decode
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import DataFormats
from openspyre.spec.hardware import HARDWARE, Shape
from openspyre.spec.ops.expression import Code, Lane, Value, constant, convert, select, trace
from openspyre.spec.ops.row import Fold, Row

CASTS = ("identity", "dl16tofp32", "fp32todl16", "fp8todl16", "qfp8ch")
MASK_VALUE = "samv-maskvalue"


def lower_copy(instance: Instance, workspace: Workspace) -> list[Step]:
    """Elements to other places, their bits unchanged; with a conversion where formats differ."""
    source, target = (instance.accesses[n] for n in (instance.op.inputs[0], instance.op.outputs[0]))
    nest = nest_of(instance, (source, target), lane=target.tensor.stick)
    # Else it is a number, which the launch may bring.
    moves = any(axis.size > 1 and source.moves(axis.label) for axis in instance.axes)
    same = (
        moves
        and source.tensor.format.bits == target.tensor.format.bits
        and HARDWARE[instance.op.op].shape is Shape.MOVEMENT
    )
    inputs = (nest.operand(source, bits=same),)
    lane = Lane.INT if same or VALUES[source.tensor.format].startswith("int") else Lane.FLOAT
    code = trace(lambda x: convert(x, lane), (lane,))
    step = map_over(nest, inputs, (nest.operand(target, bits=same),), code)
    padded = target.tensor.stick in source.rows and instance.op.axis[target.tensor.stick].valid is None
    if padded:  # what is not in memory becomes zeros, where it may be elements
        step = replace(step, lane=replace(step.lane, store_padding=True))
    return [step]


def lower_pointwise(instance: Instance, workspace: Workspace, row: Row) -> list[Step]:
    op = instance.op
    inputs = tuple(instance.accesses[number] for number in op.inputs)
    target = instance.accesses[op.outputs[0]]
    nest = nest_of(instance, (*inputs, target), lane=target.tensor.stick)
    operands = tuple(nest.operand(access) for access in inputs)
    return [_map(nest, row, operands, nest.operand(target))]


def _map(nest: Nest, row: Row, operands: tuple[Operand, ...], target: Operand) -> Map:
    masked = Masked(nest)
    extra = values_of(nest.instance.op, row, len(operands))

    def body(*values: Value) -> Value:
        given = [masked(value, values[len(operands) :]) for value in values[: len(operands)]]
        numbers = [constant(values[0], number, Lane.FLOAT) for number in extra]
        assert row.body is not None
        return convert(row.body(*given, *numbers), Lane.FLOAT)

    code = trace(body, (*(Lane.FLOAT,) * len(operands), *(Lane.INT,) * len(masked.counters)))
    return map_over(nest, (*operands, *masked.counters), (target,), code)


class Masked:
    """Reads coordinates beyond a mask as the mask value: a counter per masked dim joins the operands."""

    def __init__(self, nest: Nest) -> None:
        op = nest.instance.op
        # Along the lanes, what is known to be padding is not walked.
        self.masks = tuple(
            mask for mask in op.masks if mask.label != nest.lane or mask.valid < op.axis[mask.label].elements
        )
        self.counters = tuple(nest.counter(mask.label) for mask in self.masks)
        found = op.constant(MASK_VALUE)
        self.value = number(found) if found is not None else 0.0

    def __call__(self, value: Value, counters: tuple[Value, ...]) -> Value:
        for mask, counter in zip(self.masks, counters, strict=True):
            value = select(counter < mask.valid, value, constant(value, self.value, Lane.FLOAT))
        return value


def number(found: Constant) -> float:
    """A constant's bits as a number."""
    if found.format is DataFormats.IEEE_FP32:
        return float(np.array([found.bits], dtype=np.uint32).view(np.float32)[0])
    return float(sen169_decode(np.array([found.bits & 0xFFFF], dtype=np.uint16))[0])


def values_of(op: SuperDsc, row: Row, operands: int) -> list[float]:
    """The numbers an op's expression takes behind its operands, from its constants by name."""
    names = CONSTANTS.get(op.op, row.constants)
    found = [op.constant(name) for name in names]
    if missing := [name for name, value in zip(names, found, strict=True) if value is None]:
        raise InvalidArgument(f"{op.name}: constantInfo_ lacks {', '.join(missing)}")
    wanted = row.operands + len(row.scalars)
    if operands + len(found) != wanted:
        raise InvalidArgument(f"{op.name}: {operands} inputs and {len(found)} constants, {op.op} takes {wanted} values")
    return [number(value) for value in found if value is not None]


CONSTANTS = {"clip": ("clipMin", "clipMax")}


def map_over(nest: Nest, inputs: tuple[Operand, ...], outputs: tuple[Operand, ...], code: Code) -> Map:
    return Map(*nest.head(inputs, outputs), code, cores=nest.cores())


def fold_over(
    nest: Nest, inputs: tuple[Operand, ...], outputs: tuple[Operand, ...], code: Code, combine: Fold, finish: Code
) -> Reduce:
    return Reduce(*nest.head(inputs, outputs), code, combine, finish, cores=nest.cores())


def reduced_labels(op: SuperDsc, target: Access) -> frozenset[str]:
    """Dims that some input moves along and the output does not."""
    return frozenset(
        axis.label
        for axis in op.axes
        if target.tensor.scale(axis.label) != PRESENT
        and any(op.tensors[n].scale(axis.label) == PRESENT for n in op.inputs if n not in op.outputs)
    )


Lowering = Callable[[Instance, Workspace], list[Step]]
