"""How much of a tensor one core reaches, from the first to the last byte it touches: hardware sets a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openspyre.compiler.ir import Access, Buffer, Op
from openspyre.compiler.sticks import StickAccess, stick_access
from openspyre.spec.formats import STICK_BYTES
from openspyre.spec.ops import TABLE, Indexing, Kind

Buffers = Mapping[str, Buffer]


def positions(op: Op, buffers: Buffers) -> list[int]:
    """Per dim, how many places a core can stop at: whole blocks of lanes where sticks run along it."""
    counts = [dim.size for dim in op.dims]
    for access in op.accesses:
        buffer = buffers[access.buffer]
        found = stick_access(access, op.dims, buffer)
        if isinstance(found, StickAccess) and found.lane_dim is not None and buffer.layout is not None:
            lanes = buffer.layout.elems_per_stick()
            counts[found.lane_dim] = min(counts[found.lane_dim], -(-op.dims[found.lane_dim].size // lanes))
    return counts


def steps_of(op: Op, access: Access, buffers: Buffers) -> list[int]:
    """Bytes an access moves per dim from a core's first to its last place, were the dim not divided; empty if it goes by elements."""
    buffer = buffers[access.buffer]
    found = stick_access(access, op.dims, buffer)
    if (
        TABLE[op.row].by_element
        or access is chosen_from(op)
        or not isinstance(found, StickAccess)
        or buffer.layout is None
    ):
        return []
    lanes, counts = buffer.layout.elems_per_stick(), []
    for d, dim in enumerate(op.dims):
        counts.append(-(-dim.size // lanes) if d == found.lane_dim else dim.size)
    bytes_each = STICK_BYTES // lanes
    return [abs(stride) * (count - 1) * bytes_each for stride, count in zip(found.strides, counts, strict=True)]


def chosen_from(op: Op) -> Access | None:
    """The table that an index chooses from or writes to: reached a row at a time, where the index says, it may be of any size."""
    row = TABLE[op.row]
    if row.kind is not Kind.INDEXED:
        return None
    return op.accesses[0] if row.indexing is Indexing.READ else op.outputs[0]


def span(steps: Sequence[int], splits: Sequence[int]) -> int:
    """Bytes one core reaches (at most), with the dims divided so."""
    return sum(step // split for step, split in zip(steps, splits, strict=True)) + STICK_BYTES


def widest(op: Op, buffers: Buffers, splits: Sequence[int]) -> tuple[int, list[int]]:
    """The largest span of an op's tensors, and that tensor's steps."""
    found = [steps for access in op.accesses if (steps := steps_of(op, access, buffers))]
    return max(((span(steps, splits), steps) for steps in found), default=(0, []), key=lambda pair: pair[0])
