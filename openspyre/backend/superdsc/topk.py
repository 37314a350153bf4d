"""`topkvalue` and `topkindex`: the k largest along a dim, one step per rank: the largest of what comes after the one before it.

Values are compared as integers in their order, NaN the largest: what is out of the race is smaller than any of them.
"""

from __future__ import annotations

from dataclasses import replace

from openspyre.artifact.superdsc import Component
from openspyre.backend.superdsc.instance import Access, Instance, Workspace
from openspyre.backend.superdsc.nest import Nest, nest_of
from openspyre.backend.superdsc.pointwise import fold_over
from openspyre.program.model import Operand, OperandKind, Reduce, Step
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import DataFormats
from openspyre.spec.hardware import MOST_RANKS  # each is a step
from openspyre.spec.ops.expression import Lane, Value, call, constant, convert, select, trace
from openspyre.spec.ops.row import Fold

_OUT_OF_THE_RACE = -(1 << 31)
_KEY_BITS = {DataFormats.SEN169_FP16: (0x7FFF, 0x7FFE, 0x8000), DataFormats.IEEE_FP32: (0x7FFFFFFF, None, 0x7FFFFFFF)}


def lower_topk(instance: Instance, workspace: Workspace) -> list[Step]:
    op = instance.op
    source, target = instance.accesses[op.inputs[0]], instance.accesses[op.outputs[0]]
    searched, ranks = _dims(instance)
    if target.tensor.component is not Component.MEMORY or source.tensor.format not in _KEY_BITS:
        raise InvalidArgument(f"{op.name}: values are SEN169_FP16 or IEEE_FP32, and the result lies in memory")
    if target.tensor.stick in (searched, ranks) or source.tensor.stick == searched:
        raise InvalidArgument(f"{op.name}: the searched dim {searched} must lie outside the sticks")
    if instance.size(ranks) > MOST_RANKS:
        raise InvalidArgument(
            f"{op.name}: {instance.size(ranks)} ranks of {searched}; the op finds {MOST_RANKS} at most"
        )
    axes = tuple(
        replace(axis, split=1) if axis.label == searched else axis for axis in instance.axes if axis.label != ranks
    )
    core_of = _cores(instance, ranks)
    steps: list[Step] = []
    held: _Winners | None = None
    for rank in range(instance.size(ranks)):
        part = Instance(op, axes, instance.first, instance.accesses, core_of)
        moved = replace(target, byte=target.byte + rank * target.strides[ranks] * target.tensor.bytes_per_element)
        nest = nest_of(part, (source, moved), frozenset((searched,)), lane=source.tensor.stick)
        if nest.lane is None:
            raise InvalidArgument(f"{op.name}: input and result must have the same dim along their sticks")
        held = held or _Winners(nest, searched, workspace)
        steps.append(_rank(nest, source, moved, searched, rank, held))
    return steps


def _dims(instance: Instance) -> tuple[str, str]:
    op = instance.op
    source, target = instance.accesses[op.inputs[0]], instance.accesses[op.outputs[0]]
    searched = [a.label for a in instance.axes if source.moves(a.label) and not target.moves(a.label)]
    ranks = [a.label for a in instance.axes if target.moves(a.label) and not source.moves(a.label)]
    if len(searched) != 1 or len(ranks) != 1:
        raise InvalidArgument(
            f"{op.name}: one dim is searched and one counts the results, found {searched} and {ranks}"
        )
    return searched[0], ranks[0]


def _cores(instance: Instance, ranks: str) -> dict[tuple[int, ...], int]:
    """The core of each slice where the ranks are not divided: who has the first ranks has them all."""
    place = next(i for i, axis in enumerate(instance.axes) if axis.label == ranks)
    found: dict[tuple[int, ...], int] = {}
    for slices, core in instance.core_of.items():
        found.setdefault((*slices[:place], *slices[place + 1 :]), core)
    return found


class _Winners:
    """Key and place of each row's last winner, twice: one pair is read while the other is written."""

    def __init__(self, nest: Nest, searched: str, workspace: Workspace) -> None:
        self.strides, blocks = [], 1
        for part in nest.parts:
            self.strides.append(0 if part.label == searched else blocks * nest.lanes)
            blocks *= 1 if part.label == searched else part.extent
        self.elements = blocks * nest.lanes
        self.symbol, self.first = workspace.symbol, workspace.take(4 * 4 * self.elements) // 4

    def operand(self, number: int) -> Operand:
        return Operand(
            OperandKind.VECTOR, self.symbol, self.first + number * self.elements, tuple(self.strides), 32, "int32", "IEEE_INT32"
        )  # fmt: skip


def _rank(nest: Nest, source: Access, target: Access, searched: str, rank: int, held: _Winners) -> Reduce:
    form = source.tensor.format
    indices = nest.instance.op.op == "topkindex"

    def candidate(x: Value, place: Value, *before: Value) -> Value:
        key = _key(x, form)
        if not before:
            return key
        last, at = before
        after = either(key < last, both(key.equals(last), at < place))
        return select(after, key, constant(key, _OUT_OF_THE_RACE, Lane.INT))

    def finish(key: Value, place: Value) -> tuple[Value, ...]:
        result = convert(place, _lane(target)) if indices else _bits(key, form)
        return result, key, place

    counter = nest.counter(searched)
    before = () if rank == 0 else tuple(held.operand(2 * ((rank - 1) % 2) + i) for i in range(2))
    kept = tuple(held.operand(2 * (rank % 2) + i) for i in range(2))
    code = trace(candidate, (Lane.INT,) * (2 + len(before)))
    inputs = (nest.operand(source, bits=True), counter, *before)
    outputs = (nest.operand(target, bits=not indices), *kept)
    finished = trace(finish, (Lane.INT, Lane.INT))
    return fold_over(nest, inputs, outputs, code, Fold.ARG_MAX, finished)


def _lane(target: Access) -> Lane:
    return Lane.FLOAT if target.tensor.format in _KEY_BITS else Lane.INT


def both(a: Value, b: Value) -> Value:
    return call("int_to_bool", call("and", a, b))


def either(a: Value, b: Value) -> Value:
    return call("int_to_bool", call("or", a, b))


def _key(bits: Value, form: DataFormats) -> Value:
    """Sign and magnitude as one number; NaN above all."""
    mask, nan, top = _KEY_BITS[form]
    magnitude = call("and", bits, constant(bits, mask, Lane.INT))
    key = select(bits < 0, -magnitude, magnitude)
    is_nan = magnitude.equals(nan) if nan is not None else constant(bits, 0x7F800000, Lane.INT) < magnitude
    return select(is_nan, constant(bits, top, Lane.INT), key)


def _bits(key: Value, form: DataFormats) -> Value:
    mask, nan, top = _KEY_BITS[form]
    sign = -(mask + 1) if mask < 0x7FFFFFFF else -(1 << 31)
    negative = call("or", -key, constant(key, sign, Lane.INT))
    bits = select(key < 0, negative, key)
    return select(key.equals(top), constant(key, nan, Lane.INT), bits) if nan is not None else bits
