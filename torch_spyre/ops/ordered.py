"""cumsum, cumprod, sort, topk: along a dim that is first moved to where its elements lie one behind the other."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch

from openspyre.compiler.ir import Access, Dim, Op
from openspyre.compiler.legality import fills_sticks
from openspyre.compiler.planner.constraints import slices_of_ranks
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import DataFormats, get_device_dtype
from openspyre.spec.hardware import MOST_RANKS
from openspyre.spec.layout import MAX_RANK
from openspyre.spec.ops import Fold, Kind
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, aten_name, dtype_name, on_card
from torch_spyre.ops.movement import move
from torch_spyre.ops.plans import CallPlan
from torch_spyre.ops.programs import planned_machine, planning

_KNOWN = {"self", "dim", "dtype", "out", "stable", "descending", "k", "largest", "sorted"}


_MOST_DIMS = 5  # of a tensor that is searched: the documents have names for one more, which counts the ranks
_FAST_SEARCH = 1 << 21  # elements times ranks


def serves(binding: Binding) -> bool:
    return {argument.name for argument in binding.arguments} <= _KNOWN


def compile_call(call: Call) -> CallPlan | None:
    x = call.given["self"]
    formats = [get_device_dtype(outcome.dtype) for outcome in call.outcomes]
    if not on_card(x) or x.dim() > MAX_RANK or DataFormats.INVALID in formats:
        return None
    done = call.plan_without_work()
    if done is not None:
        return done
    builder = ProgramBuilder(call)
    if call.binding.rows[0].kind is Kind.SCAN:
        _scan(call, builder, x)
    elif _is_search(call, x):
        _search(call, builder, x)
    else:
        _sort(call, builder, x)
    return builder.plan()


class _Rows:
    """A tensor's elements as rows along one dim, in a flat temp."""

    def __init__(self, shape: tuple[int, ...], dim: int, length: int | None = None) -> None:
        self.dim = dim % max(len(shape), 1)
        self.shape = tuple(length if d == self.dim and length is not None else n for d, n in enumerate(shape)) or (1,)
        self.length = self.shape[self.dim]
        self.count = prod(self.shape) // max(self.length, 1)

    def temp(self, builder: ProgramBuilder, name: str, dtype: str) -> str:
        return builder.temp(name, dtype, (prod(self.shape),), (1,))

    def along(self, temp: str, dtype: str) -> Access:
        """The temp's elements in the order of the tensor's own dims."""
        order = [d for d in range(len(self.shape)) if d != self.dim] + [self.dim]
        dense = row_major([self.shape[d] for d in order])
        return Access(temp, 0, tuple(dense[order.index(d)] for d in range(len(self.shape))), dtype)


def _loaded(builder: ProgramBuilder, rows: _Rows, x: torch.Tensor, dtype: str) -> str:
    temp = rows.temp(builder, "rows", dtype)
    move(builder, "rows.load", rows.shape, builder.read(x, x.stride() or (1,)), rows.along(temp, dtype))
    return temp


def _scan(call: Call, builder: ProgramBuilder, x: torch.Tensor) -> None:
    row = call.binding.rows[0].name
    dtype = dtype_name(call.outcome.dtype if call.written is None else call.written.dtype)
    rows = _Rows(tuple(x.shape), call.given["dim"])
    source, target = _loaded(builder, rows, x, dtype), rows.temp(builder, "running", dtype)
    dims = (Dim("rows", rows.count), Dim("row", rows.length))
    accesses = [Access(temp, 0, (rows.length, 1), dtype) for temp in (source, target)]
    builder.add(Op(aten_name(call.binding), row, dims, (accesses[0],), (accesses[1],)))
    move(builder, "store", rows.shape, rows.along(target, dtype), _result(builder, 0))


def _sort(call: Call, builder: ProgramBuilder, x: torch.Tensor) -> None:
    down = call.given["largest"] if "largest" in call.given else call.given["descending"]
    row = next(row for row in call.binding.rows if (row.fold is Fold.MAX) == bool(down))
    rows = _Rows(tuple(x.shape), call.given["dim"])
    kept = _Rows(tuple(x.shape), call.given["dim"], call.given.get("k", rows.length))
    dtype = dtype_name(x.dtype)
    source = Access(_loaded(builder, rows, x, dtype), 0, (rows.length, 1, 0), dtype)
    dims = (Dim("rows", rows.count), Dim("row", rows.length), Dim("kept", kept.length))
    temps = [(kept.temp(builder, name, kind), kind) for name, kind in (("values", dtype), ("places", "int64"))]
    outputs = tuple(Access(temp, 0, (kept.length, 0, 1), kind) for temp, kind in temps)
    builder.add(Op(aten_name(call.binding), row.name, dims, (source,), outputs))
    for number, (temp, kind) in enumerate(temps):
        move(builder, f"store{number}", kept.shape, kept.along(temp, kind), _result(builder, number))


def _is_search(call: Call, x: torch.Tensor) -> bool:
    """Whether the hardware finds the k largest: few enough, divided evenly, and with another dim to lie along the sticks.

    Every rank is a search of its own: where there are many, this card sorts faster.
    """
    k = call.given.get("k")
    if k is None or not call.given["largest"] or not x.is_floating_point() or not 1 <= k <= MOST_RANKS:
        return False
    if k * x.numel() > _FAST_SEARCH and planning().strategy != "documented":
        return False
    if slices_of_ranks(k, planned_machine().cores) is None:
        return False
    dim = call.given["dim"] % max(x.dim(), 1)
    longest = max((n for d, n in enumerate(x.shape) if d != dim), default=1)
    return x.dim() <= _MOST_DIMS and longest > 1 and x.shape[dim] > 1 and fills_sticks(longest, x.numel())


def _search(call: Call, builder: ProgramBuilder, x: torch.Tensor) -> None:
    """Values and places, each by an op of its own: whoever needs one alone has one alone computed."""
    dim, shape = call.given["dim"] % x.dim(), tuple(x.shape)
    source = builder.read(x, x.stride())
    if source.offset or source.strides != row_major(shape):
        dense = Access(builder.temp("rows", source.dtype, shape, row_major(shape)), 0, row_major(shape), source.dtype)
        move(builder, "rows.load", shape, source, dense)
        source = dense
    sizes = [call.given["k"] if d == dim else n for d, n in enumerate(shape)]
    dims = (*(Dim(f"d{d}", n) for d, n in enumerate(sizes)), Dim("row", shape[dim], reduced=True))
    read = replace(source, strides=(*(0 if d == dim else s for d, s in enumerate(source.strides)), source.strides[dim]))
    for number, row in enumerate(("topkvalue", "topkindex")):
        result = builder.result(number=number)
        builder.add(
            Op(
                f"{aten_name(call.binding)}{number}",
                row,
                dims,
                (read,),
                (replace(result, strides=(*result.strides, 0)),),
            )
        )


def _result(builder: ProgramBuilder, number: int) -> Access:
    access = builder.result(number=number)
    return access if access.strides else Access(access.buffer, access.offset, (1,), access.dtype)
