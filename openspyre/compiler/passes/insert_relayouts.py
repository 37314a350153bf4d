"""Makes every access of a compute op legal: operands that do not meet the sticks are moved into temps that do.

Per op, one dim runs along the lanes. Operands that vary along it must be vectors there, the others splats; an output that
cannot be written so is computed into a temp and moved afterwards.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Operand, Program, Role
from openspyre.compiler.sticks import Misfit, StickAccess, stick_access
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Kind


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
        kind = TABLE[op.row].kind
        if kind is Kind.MOVEMENT:
            self._emit(op)
            return
        lane_of = _contraction_lanes(op) if kind is Kind.CONTRACTION else [self._lane_dim(op)] * len(op.accesses)
        lanes = iter(lane_of)
        inputs: list[Operand] = [
            self._legal_input(op, operand, next(lanes)) if isinstance(operand, Access) else operand for operand in op.inputs
        ]
        outputs, after = [], []
        for place, output in enumerate(op.outputs):
            lane = next(lanes)
            if self._fits(op, output, lane):
                outputs.append(output)
                continue
            temp = self._temp(op, output, lane, f"{op.name}.out{place}")
            outputs.append(temp)
            after.append(_relayout(f"{op.name}.store{place}", op, temp, output))
        self._emit(replace(op, inputs=tuple(inputs), outputs=tuple(outputs)))
        for move in after:
            self._emit(move)

    def _emit(self, op: Op) -> None:
        self.ops.append(op)
        written = {access.buffer for access in op.outputs}
        self.moved = {key: access for key, access in self.moved.items() if key[0] not in written}

    def _lane_dim(self, op: Op) -> int | None:
        """The dim most operands already have on their sticks; the output's counts twice, as it cannot be shared."""
        votes: Counter[int] = Counter()
        for weight, accesses in ((2, op.outputs), (1, op.inputs)):
            for access in accesses:
                if isinstance(access, Access):
                    found = stick_access(access, op.dims, self.buffers[access.buffer])
                    if isinstance(found, StickAccess) and found.lane_dim is not None:
                        votes[found.lane_dim] += weight
        if votes:
            return votes.most_common(1)[0][0]
        varying = [d for d, dim in enumerate(op.dims) if dim.size > 1 and any(a.strides[d] for a in op.accesses)]
        return varying[-1] if varying else None

    def _fits(self, op: Op, access: Access, lane: int | None) -> bool:
        found = stick_access(access, op.dims, self.buffers[access.buffer])
        if isinstance(found, Misfit):
            return False
        varies = lane is not None and access.strides[lane] != 0 and op.dims[lane].size > 1
        return found.lane_dim == lane if varies else found.lane_dim is None

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
        kept = [d for d, dim in enumerate(op.dims) if like.strides[d] != 0 and dim.size > 1]
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
