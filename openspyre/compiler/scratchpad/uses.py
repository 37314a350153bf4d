"""A program as the planner sees it: ops of the hardware in order, and of every tensor who uses it when, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from openspyre.compiler.emit.operation import Operand, Operation
from openspyre.compiler.emit.shared import template_anywhere
from openspyre.compiler.ir import Access, Buffer, Loop, Node, Op, Program
from openspyre.compiler.loops import ends, in_iteration
from openspyre.compiler.scratchpad.views import View, view_of
from openspyre.spec.ops import TABLE, Kind

_NOWHERE = "it takes it by elements"


@dataclass(frozen=True, slots=True)
class Work:
    """An op at its place in the order; `operation` None if the hardware has none. `loops`: first and last op of each loop around it."""

    when: int
    op: Op
    operation: Operation | None
    loops: tuple[tuple[int, int], ...] = ()

    @property
    def is_pointwise(self) -> bool:
        return TABLE[self.op.row].kind is Kind.POINTWISE

    @property
    def is_copy(self) -> bool:
        return self.operation is not None and self.operation.op == "identity"

    @property
    def is_restickify(self) -> bool:
        return self.operation is not None and self.operation.op == "ReStickifyOpHBM"


@dataclass(frozen=True, slots=True)
class Use:
    """One access of an op to a tensor. `view`: how the op divides it, or why it cannot be said."""

    work: Work
    access: Access
    writes: bool
    operand: Operand | None
    view: View | str

    @property
    def when(self) -> int:
        return self.work.when


def works_of(program: Program) -> tuple[Work, ...]:
    buffers = {buffer.name: buffer for buffer in program.buffers}
    return tuple(_works(program.body, buffers, 0, (), ()))


def _works(
    body: tuple[Node, ...],
    buffers: Mapping[str, Buffer],
    when: int,
    loops: tuple[tuple[int, int], ...],
    counts: tuple[int, ...],
) -> Iterator[Work]:
    for node in body:
        match node:
            case Op():
                yield Work(when, node, _operation(node, buffers, counts), loops)
                when += 1
            case Loop(times, inner):
                count = _count(inner)
                yield from _works(inner, buffers, when, (*loops, (when, when + count - 1)), (*counts, times))
                when += count


def _operation(op: Op, buffers: Mapping[str, Buffer], counts: tuple[int, ...]) -> Operation | None:
    """The hardware's op, in the first iteration; None if in some iteration there is none."""
    first = template_anywhere(op, buffers).operation
    if first is None or not any(any(access.advance) for access in op.accesses):
        return first
    others = (template_anywhere(in_iteration(op, where), buffers).operation for where in ends(counts))
    return first if all(other is not None for other in others) else None


def _count(body: tuple[Node, ...]) -> int:
    return sum(_count(node.body) if isinstance(node, Loop) else 1 for node in body)


def uses_of(works: tuple[Work, ...], buffers: Mapping[str, Buffer], *, k_fast: bool = True) -> dict[str, list[Use]]:
    """Of every tensor its uses in order, an op's reads before its writes."""
    found: dict[str, list[Use]] = {}
    known: dict[tuple[int, tuple[int, ...]], list[_Seen]] = {}  # ops of one structure have one operation
    for work in works:
        accesses, first_output = work.op.accesses, len(work.op.accesses) - len(work.op.outputs)
        numbers = tuple([accesses.index(access) for access in accesses])  # which of them are the same
        seen = known.get((id(work.operation), numbers))
        if seen is None:
            lies = [buffers[access.buffer] for access in accesses]
            seen = known[id(work.operation), numbers] = [
                _seen(work.operation, number, lies[place], writes=place >= first_output, k_fast=k_fast)
                for place, number in enumerate(numbers)
            ]
        for place, (access, (operand, view)) in enumerate(zip(accesses, seen, strict=True)):
            found.setdefault(access.buffer, []).append(Use(work, access, place >= first_output, operand, view))
    return found


_Seen = tuple[Operand | None, View | str]


def _seen(operation: Operation | None, number: int, buffer: Buffer, *, writes: bool, k_fast: bool) -> _Seen:
    """The operand of the hardware's op that an access is, None if it is none of them or goes by an index, and how it is divided."""
    if operation is None:
        return None, _NOWHERE
    among = operation.targets if writes else operation.inputs
    operand = next((operand for operand in among if operand.access == number), None)
    return operand, _NOWHERE if operand is None else view_of(operation, operand, buffer, k_fast=k_fast)


def reads_all(access: Access, op: Op, buffer: Buffer) -> bool:
    """Whether an access covers every element of a tensor, each once or the same for some dims."""
    moved = prod(dim.size for dim, stride in zip(op.dims, access.strides, strict=True) if stride)
    return access.offset == 0 and moved == prod(buffer.size)


def walks_all(operand: Operand, buffer: Buffer) -> bool:
    """Whether what an op walks is the whole device tensor, with no gap: then a core's slice has no gap either."""
    walk = operand.walk
    assert buffer.layout is not None
    return (
        walk is not None
        and not walk.gaps
        and walk.skipped == 1
        and walk.offset == 0
        and walk.span == prod(buffer.layout.device_size)
    )
