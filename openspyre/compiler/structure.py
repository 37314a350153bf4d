"""An op without names. What an op's dims, accesses and layouts decide is found out once for all ops of a structure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import wraps
from typing import TypeVar

from openspyre.compiler.ir import Access, Buffer, Constant, Iota, Op, Operand, Scalar
from openspyre.spec.ops import TABLE
from openspyre.spec.sharing import shares_work

Result = TypeVar("Result")
_LIMIT = 1 << 14  # structures remembered per question; a model has some dozens


def structure_of(op: Op, buffers: Mapping[str, Buffer]) -> Hashable:
    """Equal where ops differ in nothing but their names, origins, attributes, and numbers that are no part of the hardware's op."""
    operands = (*op.inputs, *op.outputs)
    words = [operand.word for operand in op.inputs if isinstance(operand, Scalar)] if TABLE[op.row].constants else ()
    return (op.row, op.dims, op.hints, len(op.inputs), *words, *[_plain(operand, buffers) for operand in operands])


def _plain(operand: Operand, buffers: Mapping[str, Buffer]) -> Hashable:
    if isinstance(operand, Access):
        buffer = buffers[operand.buffer]
        lies = (buffer.dtype, buffer.size, buffer.stride, buffer.layout)
        return (operand.offset, operand.strides, operand.dtype, *lies)
    if isinstance(operand, Iota):
        return operand.offset, operand.strides
    return operand if isinstance(operand, Constant) else operand.dtype


def per_structure(ask: Callable[[Op, Mapping[str, Buffer]], Result]) -> Callable[[Op, Mapping[str, Buffer]], Result]:
    """A question that names and attributes cannot answer otherwise. Its answer is shared, so it must not be changed."""
    known: dict[Hashable, Result] = {}

    @wraps(ask)
    def asked(op: Op, buffers: Mapping[str, Buffer]) -> Result:
        if not shares_work():
            return ask(op, buffers)
        key = structure_of(op, buffers)
        try:
            return known[key]
        except KeyError:
            answer = ask(op, buffers)
        if len(known) >= _LIMIT:
            known.clear()
        known[key] = answer
        return answer

    return asked
