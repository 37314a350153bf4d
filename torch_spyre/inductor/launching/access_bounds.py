"""Whether a program reads no more of an input's buffer than the input itself: then it can be moved to another offset."""

from __future__ import annotations

import torch

from openspyre.compiler.ir import Access, Op, Program

Accesses = dict[str, list[tuple[Op, Access]]]


def accesses_of(program: Program) -> Accesses:
    """Per buffer, who reads and writes it."""
    found: Accesses = {}
    for op in program.ops:
        for access in op.accesses:
            found.setdefault(access.buffer, []).append((op, access))
    return found


def stays_inside(accesses: Accesses, buffer: str, tensor: torch.Tensor) -> bool:
    """True if every access to the buffer walks over elements of the tensor; as_strided may reach others."""
    box, start = _merged(tensor), int(tensor.storage_offset())
    return all(_walks_in(access, op, start, box) for op, access in accesses.get(buffer, ()))


def _merged(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """(stride, extent) of the tensor, largest stride first, dims that follow each other without a gap as one."""
    dims = sorted(((s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1 and s > 0), reverse=True)
    merged: list[tuple[int, int]] = []
    for stride, extent in dims:
        if merged and merged[-1][0] == stride * extent:
            stride, extent = stride, extent * merged.pop()[1]
        merged.append((stride, extent))
    return merged


def _walks_in(access: Access, op: Op, start: int, box: list[tuple[int, int]]) -> bool:
    lowest = access.offset + sum(min(s, 0) * (dim.size - 1) for s, dim in zip(access.strides, op.dims, strict=True))
    rest, steps = lowest - start, [(abs(s), dim.size) for s, dim in zip(access.strides, op.dims, strict=True)]
    if rest < 0:
        return False
    for stride, extent in box:
        reach = rest // stride + sum(step // stride * (size - 1) for step, size in steps)
        if reach >= extent:
            return False
        rest %= stride
        steps = [(step % stride, size) for step, size in steps]
    return rest == 0 and all(step == 0 or size == 1 for step, size in steps)
