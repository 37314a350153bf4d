"""Ops that copy a whole tensor as a view divides it: into the scratchpads, out of them, or from one division to another."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from openspyre.compiler.emit.shared import template_of
from openspyre.compiler.ir import Access, Attribute, Buffer, Dim, Op, Role
from openspyre.compiler.scratchpad.uses import walks_all
from openspyre.compiler.scratchpad.views import View, view_of
from openspyre.compiler.sticks import StickAccess, stick_access
from openspyre.spec.origin import NOWHERE, Origin


def copy_op(
    source: Buffer, target: Buffer, view: View, *, name: str, origin: Origin = NOWHERE, held: View | None = None
) -> Op:
    """`held`: the source's own division, where that is another one: then the hardware's op is a shuffle."""
    dims, strides = _dims(source, view)
    accesses = [Access(buffer.name, 0, strides, buffer.dtype) for buffer in (source, target)]
    attributes: tuple[tuple[str, Attribute], ...] = ()
    if held is not None:
        steps = _steps(source, dims, strides)
        owned = {one.stride: one for one in held.slices}
        attributes = (
            ("held_splits", tuple(owned[step].split if step in owned else 1 for step in steps)),
            ("held_apart", tuple(owned[step].apart if step in owned else 1 for step in steps)),
        )
    row = "identity" if held is None else "shuffle"
    return Op(name, row, dims, (accesses[0],), (accesses[1],), attributes, origin)


def copies_whole(buffer: Buffer, view: View) -> bool:
    """Whether the hardware's identity copies all of a tensor, divided so."""
    dims, strides = _dims(buffer, view)
    if prod(dim.split for dim in dims) != view.cores or prod(dim.size for dim in dims) != prod(buffer.size):
        return False
    twin = replace(buffer, name="copy", role=Role.TEMP, place=None, values=None)
    accesses = [Access(name, 0, strides, buffer.dtype) for name in (buffer.name, twin.name)]
    op = Op("copy", "identity", dims, (accesses[0],), (accesses[1],))
    operation = template_of(op, {buffer.name: buffer, twin.name: twin}).operation
    if operation is None or operation.op != "identity":
        return False
    target = operation.targets[0]
    return walks_all(target, twin) and view_of(operation, target, twin) == view


def _dims(buffer: Buffer, view: View) -> tuple[tuple[Dim, ...], tuple[int, ...]]:
    """The tensor's own dims, divided as the view has it: those that are, in the order in which cores count them."""
    kept = [d for d, size in enumerate(buffer.size) if size != 1] or [0][: len(buffer.size)]
    plain = tuple(Dim(f"d{number}", buffer.size[d]) for number, d in enumerate(kept))
    strides = tuple(buffer.stride[d] for d in kept)
    splits = {one.stride: one for one in view.slices}
    steps = _steps(buffer, plain, strides)
    dims = [replace(d, split=splits[s].split if s in splits else 1) for d, s in zip(plain, steps, strict=True)]
    divided = [d for d, step in enumerate(steps) if step in splits]
    counted = iter(sorted(divided, key=lambda d: splits[steps[d]].apart))
    order = [next(counted) if d in divided else d for d in range(len(dims))]
    return tuple(dims[d] for d in order), tuple(strides[d] for d in order)


def _steps(buffer: Buffer, dims: tuple[Dim, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Device elements per step of each dim, per stick where lanes run; none of a tensor whose dims are no sticks' dims."""
    found = stick_access(Access(buffer.name, 0, strides, buffer.dtype), dims, buffer)
    return found.strides if isinstance(found, StickAccess) else (0,) * len(dims)
