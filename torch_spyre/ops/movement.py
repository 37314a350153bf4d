"""Movement: clone, cat, roll. Pieces of tensors go to places in the result, unchanged or converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import torch

from openspyre.compiler.ir import Access, Dim, Op
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import DataFormats, get_device_dtype
from openspyre.spec.layout import MAX_RANK
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, aten_name, dtype_name
from torch_spyre.ops.plans import CallPlan


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of an operand and where its first element goes in the result."""

    source: Access
    start: tuple[int, ...]
    size: tuple[int, ...]
    target: tuple[int, ...]


def serves(binding: Binding) -> bool:
    return aten_name(binding) in _PIECES


def compile_call(call: Call) -> CallPlan | None:
    outcome = call.outcome
    if outcome.dim() > MAX_RANK or get_device_dtype(outcome.dtype) is DataFormats.INVALID:
        return None
    done = call.plan_without_work()
    if done is not None:
        return done
    builder = ProgramBuilder(call)
    result = builder.result()
    for number, piece in enumerate(_PIECES[aten_name(call.binding)](call, builder)):
        target = shifted(_along(result, piece), piece.target)
        move(builder, f"move{number}", piece.size, shifted(piece.source, piece.start), target)
    return builder.plan()


def _along(result: Access, piece: Piece) -> Access:
    """The (dense) result, as a vector if the piece is one."""
    return result if len(piece.size) == len(result.strides) else replace(result, strides=(1,))


def shifted(access: Access, start: tuple[int, ...]) -> Access:
    return replace(access, offset=access.offset + sum(i * s for i, s in zip(start, access.strides, strict=True)))


def move(builder: ProgramBuilder, name: str, size: tuple[int, ...], source: Access, target: Access) -> None:
    dims = tuple(Dim(f"d{i}", extent) for i, extent in enumerate(size))
    builder.add(Op(name, "relayout", dims, (source,), (target,)))


def flattened(builder: ProgramBuilder, name: str, x: torch.Tensor) -> str:
    """A temp of one dim with the tensor's elements in row-major order."""
    temp = builder.temp(name, dtype_name(x.dtype), (x.numel(),), (1,))
    target = Access(temp, 0, row_major(x.shape), dtype_name(x.dtype))
    move(builder, f"{name}.load", tuple(x.shape), builder.read(x, x.stride()), target)
    return temp


def _whole(builder: ProgramBuilder, x: torch.Tensor, target: tuple[int, ...]) -> Piece:
    return Piece(builder.read(x, x.stride()), (0,) * x.dim(), tuple(x.shape), target)


def _clone(call: Call, builder: ProgramBuilder) -> Iterator[Piece]:
    x = call.given["self"]
    yield _whole(builder, x, (0,) * x.dim())


def _cat(call: Call, builder: ProgramBuilder) -> Iterator[Piece]:
    rank = call.outcome.dim()
    dim = call.given["dim"] % max(rank, 1)
    place = 0
    for tensor in call.given["tensors"]:
        if tensor.numel():  # an empty vector fits everywhere, by torch's tradition
            yield _whole(builder, tensor, tuple(place if d == dim else 0 for d in range(rank)))
        place += tensor.shape[dim] if tensor.dim() == rank else 0


def _halves(extent: int, ahead: int) -> list[tuple[int, int, int]]:
    """(start, size, target) of what moves up by `ahead` and what comes round."""
    return [block for block in ((0, extent - ahead, ahead), (extent - ahead, ahead, 0)) if block[1]]


def _roll(call: Call, builder: ProgramBuilder) -> Iterator[Piece]:
    """Along every rolled dim the result is two blocks that changed places."""
    x, shifts, dims = call.given["self"], call.given["shifts"], call.given["dims"]
    if not dims:  # as one vector
        flat = Access(flattened(builder, "flat", x), 0, (1,), dtype_name(x.dtype))
        ahead = shifts[0] % x.numel()
        yield from (Piece(flat, (a,), (n,), (b,)) for a, n, b in _halves(x.numel(), ahead))
        return
    source = builder.read(x, x.stride())
    total = dict.fromkeys(range(x.dim()), 0)
    for shift, dim in zip(shifts, dims, strict=True):
        total[dim % x.dim()] += shift
    blocks = [_halves(extent, total[d] % extent) for d, extent in enumerate(x.shape)]
    for combination in product(*blocks):
        starts, sizes, targets = zip(*combination, strict=True)
        yield Piece(source, starts, sizes, targets)


_PIECES: dict[str, Callable[[Call, ProgramBuilder], Iterator[Piece]]] = {
    "clone": _clone,
    "cat": _cat,
    "roll": _roll,
}
