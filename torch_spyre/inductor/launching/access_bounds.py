"""Whether a program reads no more of an input's buffer than the input itself: then it can be moved to another offset."""

from __future__ import annotations

import torch

from openspyre.compiler.ir import Access, Op, Program
from openspyre.spec.addressing import along, joined

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
    dims = joined((n, s) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if s > 0)
    box, start = [(stride, extent) for extent, stride in dims], int(tensor.storage_offset())
    return all(_walks_in(access, op, start, box) for op, access in accesses.get(buffer, ()))


def _walks_in(access: Access, op: Op, start: int, box: list[tuple[int, int]]) -> bool:
    lowest = access.offset + sum(min(s, 0) * (dim.size - 1) for s, dim in zip(access.strides, op.dims, strict=True))
    return along(lowest - start, [abs(s) for s in access.strides], [dim.size for dim in op.dims], box)[1]
