"""An op without names. What an op's dims, accesses and layouts decide is found out once for all ops of a structure.

Every memory of the compiler's goes by this one description; it adds to the key what else its own question depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import wraps
from typing import TypeVar

from openspyre.compiler.ir import Access, Buffer, Constant, Iota, Op, Operand, Scalar
from openspyre.spec.ops import TABLE
from openspyre.spec.sharing import Memo

Result = TypeVar("Result")


def structure_of(op: Op, buffers: Mapping[str, Buffer]) -> Hashable:
    """Equal where ops differ in nothing but names, origins, attributes, and numbers that are no part of the hardware's op."""
    return without_names(op, {access.buffer: _facts(buffers[access.buffer]) for access in op.accesses})


def without_names(op: Op, stands_for: Mapping[str, Hashable]) -> Hashable:
    """An op with what counts of its buffers in the place of their names."""
    operands = (*op.inputs, *op.outputs)
    words = [operand.word for operand in op.inputs if isinstance(operand, Scalar)] if TABLE[op.row].constants else ()
    return (op.row, op.dims, op.hints, len(op.inputs), *words, *[_plain(operand, stands_for) for operand in operands])


def _facts(buffer: Buffer) -> Hashable:
    return buffer.dtype, buffer.size, buffer.stride, buffer.layout


def _plain(operand: Operand, stands_for: Mapping[str, Hashable]) -> Hashable:
    if isinstance(operand, Access):
        return stands_for[operand.buffer], operand.offset, operand.strides, operand.dtype
    if isinstance(operand, Iota):
        return operand.offset, operand.strides
    return operand if isinstance(operand, Constant) else operand.dtype


def per_structure(ask: Callable[[Op, Mapping[str, Buffer]], Result]) -> Callable[[Op, Mapping[str, Buffer]], Result]:
    """A question that names and attributes cannot answer otherwise. Its answer is shared, so it must not be changed."""
    known: Memo[Result] = Memo()

    @wraps(ask)
    def asked(op: Op, buffers: Mapping[str, Buffer]) -> Result:
        return known.get(structure_of(op, buffers), lambda: ask(op, buffers))

    return asked
