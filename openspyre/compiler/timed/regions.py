"""Some ops of a program as a program of their own, to be planned and timed by themselves, and what of it counts without names."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace

from openspyre.compiler.ir import Buffer, Op, Program, Role
from openspyre.compiler.passes.choose_layouts import default_layout
from openspyre.compiler.structure import without_names
from openspyre.compiler.timed.loop_growth import Flow
from openspyre.spec.ops import TABLE, Kind


def bytes_of(buffer: Buffer) -> int:
    """On the card; of a tensor without a layout yet, in the usual one."""
    return (buffer.layout or default_layout(buffer)).device_bytes


def region(flow: Flow, numbers: Collection[int]) -> Program:
    """What others make for it comes in, what others need goes out; the rest is its own."""
    ops = tuple(flow.ops[number] for number in sorted(numbers))
    own = set(numbers)
    names = dict.fromkeys(access.buffer for op in ops for access in op.accesses)
    return Program("region", tuple(_seen_from(flow, own, flow.buffers[name]) for name in names), ops)


def _seen_from(flow: Flow, own: set[int], buffer: Buffer) -> Buffer:
    made = own.issuperset(flow.writers[buffer.name]) and bool(flow.writers[buffer.name])
    if not made:
        role = Role.CONSTANT if buffer.role is Role.CONSTANT else Role.INPUT
        return replace(buffer, role=role, layout=buffer.layout or default_layout(buffer), unset=False)
    leaves = buffer.role is Role.OUTPUT or not own.issuperset(flow.readers[buffer.name])
    return replace(buffer, role=Role.OUTPUT if leaves else Role.TEMP)


def crossing(flow: Flow, numbers: Collection[int]) -> list[Buffer]:
    """Temporaries that come into some ops or leave them: without a loop they might have stayed in the scratchpads."""
    own = set(numbers)
    names = dict.fromkeys(access.buffer for number in sorted(own) for access in flow.ops[number].accesses)
    temps = [flow.buffers[name] for name in names if flow.buffers[name].role is Role.TEMP]
    return [b for b in temps if not own.issuperset([*flow.writers[b.name], *flow.readers[b.name]])]


def peak_bytes(program: Program) -> int:
    """The most that its own temporaries take at once; what a map reads for the last time makes room for what it writes."""
    last = {access.buffer: number for number, op in enumerate(program.ops) for access in op.accesses}
    live: dict[str, int] = {}
    peak = 0
    for number, op in enumerate(program.ops):
        left = {name: bytes_ for name, bytes_ in live.items() if last[name] > number}
        made = [program.buffer(access.buffer) for access in op.outputs]
        new = {buffer.name: bytes_of(buffer) for buffer in made if buffer.role is Role.TEMP}
        in_place = TABLE[op.row].kind is Kind.POINTWISE
        peak = max(peak, sum(live.values()), sum((left if in_place else live).values()) + sum(new.values()))
        live = left | new
    return peak


def key_of(program: Program, dims: Sequence[int]) -> Hashable:
    """All that a plan of it depends on, without names."""
    numbers = {buffer.name: number for number, buffer in enumerate(program.buffers)}
    buffers = tuple(replace(buffer, name="", named=()) for buffer in program.buffers)
    ops: list[tuple[Hashable, str]] = [(without_names(_plain(op), numbers), repr(op.attributes)) for op in program.ops]
    return buffers, tuple(ops), tuple(dims)


def _plain(op: Op) -> Op:
    return replace(op, dims=tuple(replace(dim, name="", named=()) for dim in op.dims))
