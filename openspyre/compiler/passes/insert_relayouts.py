"""Makes every access of a compute op legal: operands that do not meet the sticks are moved into temps that do.

Per op, one dim runs along the lanes. Operands that vary along it must be vectors there, the others splats; an output that
cannot be written so is computed into a temp and moved afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Operand, Program, Role
from openspyre.compiler.sticks import Misfit, StickAccess, stick_access
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Indexing, Kind


@dataclass(frozen=True, slots=True)
class InsertRelayouts:
    """No options."""

    def run(self, program: Program) -> Program:
        work = _Work({buffer.name: buffer for buffer in program.buffers})
        for op in program.ops:
            work.legalise(op)
        return replace(program, buffers=tuple(work.buffers.values()), ops=tuple(work.ops))


class _Work:
    def __init__(self, buffers: dict[str, Buffer]) -> None:
        self.buffers = buffers
        self.ops: list[Op] = []
        self.moved: dict[tuple[object, ...], Access] = {}  # relayouts already made, shared between consumers

    def legalise(self, op: Op) -> None:
        row = TABLE[op.row]
        if row.by_view:
            self._emit(op)
            return
        lanes = iter(self._lanes(op, row.kind))
        inputs: list[Operand] = [
            self._legal_input(op, operand, next(lanes)) if isinstance(operand, Access) else operand
            for operand in op.inputs
        ]
        outputs, after = [], []
        for place, output in enumerate(op.outputs):
            lane = next(lanes)
            if self._fits(op, output, lane):
                outputs.append(output)
                continue
            temp = self._temp(op, output, lane, f"{op.name}.out{place}")
            outputs.append(temp)
            if row.indexing is not None and row.indexing is not Indexing.READ:  # what no index names stays as it is
                self._emit(_relayout(f"{op.name}.keep{place}", op, output, temp))
            after.append(_relayout(f"{op.name}.store{place}", op, temp, output))
        self._emit(replace(op, inputs=tuple(inputs), outputs=tuple(outputs)))
        for move in after:
            self._emit(move)

    def _emit(self, op: Op) -> None:
        self.ops.append(op)
        written = {access.buffer for access in op.outputs}
        self.moved = {key: access for key, access in self.moved.items() if key[0] not in written}

    def _lanes(self, op: Op, kind: Kind) -> list[int | None]:
        """Per access, the dim that runs along its sticks."""
        if kind is Kind.CONTRACTION:
            return _contraction_lanes(op)
        if kind is Kind.INDEXED:
            return self._indexed_lanes(op)
        return [self._lane_dim(op, range(len(op.dims)))] * len(op.accesses)

    def _indexed_lanes(self, op: Op) -> list[int | None]:
        """Whole rows where the lanes run along them; else the lanes have an index each, and the table lies along its last dim."""
        index_dim = len(op.dims) - 1
        reads = TABLE[op.row].indexing is Indexing.READ
        table, index = (op.accesses[0] if reads else op.outputs[0]), op.accesses[1]
        walked = [d for d in range(index_dim) if not (table.strides[d] and index.strides[d])]
        rows = [d for d in walked if table.strides[d] and op.dims[d].size > 1]
        lane = self._lane_dim(op, walked if reads else rows)
        own = lane if lane in rows else index_dim
        return [own, lane, lane] if reads else [lane, lane, own]

    def _lane_dim(self, op: Op, among: Collection[int]) -> int | None:
        """The dim most elements already lie along; those of an output count twice, as its relayout cannot be shared."""
        votes: Counter[int] = Counter()
        for weight, accesses in ((2, op.outputs), (1, op.inputs)):
            for access in accesses:
                if isinstance(access, Access):
                    found = stick_access(access, op.dims, self.buffers[access.buffer])
                    if isinstance(found, StickAccess) and found.lane_dim is not None and found.lane_dim in among:
                        votes[found.lane_dim] += weight * _elements(op, access)
        if votes:
            return votes.most_common(1)[0][0]
        varying = [d for d in among if op.dims[d].size > 1 and any(a.strides[d] for a in op.accesses)]
        return varying[-1] if varying else None

    def _fits(self, op: Op, access: Access, lane: int | None) -> bool:
        found = stick_access(access, op.dims, self.buffers[access.buffer])
        if isinstance(found, Misfit):
            return False
        return found.lane_dim == (lane if _runs_along(op, access, lane) else None)

    def _legal_input(self, op: Op, access: Access, lane: int | None) -> Access:
        if self._fits(op, access, lane):
            return access
        sizes = tuple(dim.size for dim in op.dims)
        key = (access.buffer, access.offset, access.strides, access.dtype, sizes, lane)
        if key not in self.moved:
            temp = self._temp(op, access, lane, f"{op.name}.in{len(self.ops)}")
            self._emit(_relayout(f"{op.name}.load{len(self.ops)}", op, access, temp))
            self.moved[key] = temp
        return self.moved[key]

    def _temp(self, op: Op, like: Access, lane: int | None, name: str) -> Access:
        """A dense temp over the dims the access varies with; sparse (one value a stick) if it does not vary along the lanes."""
        walked = [d for d, dim in enumerate(op.dims) if like.strides[d] != 0 and dim.size > 1]
        kept = sorted({*walked, lane}) if lane is not None and _runs_along(op, like, lane) else walked
        size = tuple(op.dims[d].size for d in kept)
        stride = row_major(size)
        if lane in kept:
            order = [place for place, d in enumerate(kept) if d != lane] + [kept.index(lane)]
        else:
            order = [*range(len(kept)), -1]
        layout = SpyreTensorLayout(list(size), list(stride), like.dtype, order)
        self.buffers[name] = Buffer(name, like.dtype, size, stride, Role.TEMP, layout)
        strides = [0] * len(op.dims)
        for place, d in enumerate(kept):
            strides[d] = stride[place]
        return Access(name, 0, tuple(strides), like.dtype)


def _runs_along(op: Op, access: Access, lane: int | None) -> bool:
    """Whether an access must be a vector along the lanes: if it varies there, and always in the matrix unit."""
    if lane is None or op.dims[lane].size == 1:
        return False
    return access.strides[lane] != 0 or TABLE[op.row].kind is Kind.CONTRACTION


def _elements(op: Op, access: Access) -> int:
    return prod(dim.size for dim, stride in zip(op.dims, access.strides, strict=True) if stride)


def _contraction_lanes(op: Op) -> list[int | None]:
    """A contraction reads its first operand along k, its second and its result along n."""
    k = next(d for d, dim in enumerate(op.dims) if dim.reduced)
    return [k, len(op.dims) - 2, len(op.dims) - 2]


def _relayout(name: str, op: Op, source: Access, target: Access) -> Op:
    """Only the dims the moved elements vary with; broadcasting stays with the consumer."""
    kept = [d for d, dim in enumerate(op.dims) if dim.size > 1 and (source.strides[d] or target.strides[d])]
    dims = tuple(Dim(op.dims[d].name, op.dims[d].size) for d in kept)
    return Op(
        name,
        "relayout",
        dims,
        (replace(source, strides=tuple(source.strides[d] for d in kept)),),
        (replace(target, strides=tuple(target.strides[d] for d in kept)),),
        origin=op.origin,
    )
