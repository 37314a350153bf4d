"""Makes every access of a compute op legal: operands that do not meet the sticks are moved into temps that do.

An output that cannot be written along the sticks is computed into a temp and moved afterwards, and so is one whose last stick holds
elements of others, which an op of the hardware would write over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openspyre.compiler.emit.walk import fills_sticks
from openspyre.compiler.ir import Access, Buffer, Dim, Loop, Node, Op, Operand, Program, Role
from openspyre.compiler.legality import elements, fills_lanes, fits, lanes_of, misfit_places, runs_along
from openspyre.compiler.loops import ends, in_iteration, listed, moved
from openspyre.compiler.sticks import StickAccess, stick_access
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Indexing, Kind, OpClass

_SMALL_TABLE, _FEW = (
    1 << 20,
    16,
)  # elements; a large table is turned for an index that names one in so many of them, not for a few
_WRITE_STICKS = (Kind.POINTWISE, Kind.REDUCTION, Kind.CONTRACTION, Kind.SEARCH)


@dataclass(frozen=True, slots=True)
class InsertRelayouts:
    """`documented`: as in the documents, an operand is moved for each op that needs it, even if another needs it likewise."""

    documented: bool = False

    def run(self, program: Program) -> Program:
        work = _Work({buffer.name: buffer for buffer in program.buffers}, shares=not self.documented)
        work.add(program.body)
        return replace(program, buffers=tuple(work.buffers.values()), body=tuple(work.nodes))


class _Work:
    def __init__(self, buffers: dict[str, Buffer], shares: bool) -> None:
        self.buffers, self.shares = buffers, shares
        self.nodes: list[Node] = []
        self.moved: dict[
            str, dict[tuple[object, ...], Access]
        ] = {}  # by buffer: relayouts already made, for other consumers
        self.counts: tuple[int, ...] = ()  # of the loops around

    def add(self, body: tuple[Node, ...]) -> None:
        for node in body:
            match node:
                case Op():
                    self.legalise(node)
                case Loop():
                    self._loop(node)

    def _loop(self, loop: Loop) -> None:
        """What is moved in a loop serves it alone; what was moved before it serves it as long as nobody in it writes the source."""
        written = {access.buffer for op, _ in listed(loop.body) for access in op.outputs}
        before = {name: made for name, made in self.moved.items() if name not in written}
        outer, counts = self.nodes, self.counts
        self.nodes, self.counts = [], (*counts, loop.count)
        self.moved = {name: dict(made) for name, made in before.items()}
        self.add(loop.body)
        inner, self.nodes, self.moved, self.counts = self.nodes, outer, before, counts
        self.nodes.append(Loop(loop.count, tuple(inner)))

    def _iterations(self, op: Op) -> list[tuple[int, ...]]:
        """Those of the loops around that tell of all others."""
        return ends(self.counts) if any(any(access.advance) for access in op.accesses) else [()]

    def legalise(self, op: Op) -> None:
        row = TABLE[op.row]
        legal = not any(misfit_places(in_iteration(op, where), self.buffers) for where in self._iterations(op))
        if row.by_view:
            by_vector = row.kind is Kind.MOVEMENT and legal
            self._emit(replace(op, row="cast") if by_vector else op)
            return
        by_rows = self._lanes_of_rows(op) if row.indexing is Indexing.READ else None
        if legal and by_rows is None and not any(self._shares_a_stick(op, output) for output in op.outputs):
            self._emit(op)
            return
        lanes = iter(by_rows or self._lanes(op))
        inputs: list[Operand] = [
            self._legal_input(op, operand, next(lanes)) if isinstance(operand, Access) else operand
            for operand in op.inputs
        ]
        outputs, after = [], []
        for place, output in enumerate(op.outputs):
            lane = next(lanes)
            if self._fits(op, output, lane) and not self._shares_a_stick(op, output):
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

    def _lanes(self, op: Op) -> list[int | None]:
        """Per access the dim along its sticks; another than they ask for where what is written, and most of what is read, is moved anyway."""
        lanes = lanes_of(op, self.buffers)
        if TABLE[op.row].kind is not Kind.POINTWISE or not all(self._shares_a_stick(op, o) for o in op.outputs):
            return lanes
        others = [d for d, dim in enumerate(op.dims) if d != lanes[0] and dim.size > 1]
        read = [
            access for access in op.accesses[: -len(op.outputs)] if lanes[0] is not None and access.strides[lanes[0]]
        ]
        elsewhere = [access for access in read if not self._fits(op, access, lanes[0])]
        if not others or 2 * len(elsewhere) < len(read):
            return lanes
        return [max(others, key=lambda d: op.dims[d].size)] * len(lanes)

    def _lanes_of_rows(self, op: Op) -> list[int | None] | None:
        """A gather of elements takes whole rows instead, as the hardware does, if a dim can lie along them."""
        if len(op.accesses) != 3:
            return None
        table, index, _ = op.accesses
        rows = [d for d, dim in enumerate(op.dims[:-1]) if dim.size > 1 and table.strides[d] and not index.strides[d]]
        if not rows or lanes_of(op, self.buffers)[0] in rows:
            return None
        turned, found = elements(op, table), elements(op, op.outputs[0])
        if self.buffers[index.buffer].values is None and turned > max(_SMALL_TABLE, _FEW * found):
            return None
        if not all(fills_lanes(op, access, rows) for access in (table, op.outputs[0])):
            return None
        return [max(rows, key=lambda d: op.dims[d].size)] * len(op.accesses)

    def _shares_a_stick(self, op: Op, output: Access) -> bool:
        """Whether an op of the hardware, which writes whole sticks, would write over elements that are not its own."""
        row, buffer = TABLE[op.row], self.buffers[output.buffer]
        if row.op_class is not OpClass.HARDWARE or row.kind not in _WRITE_STICKS:
            return False
        found = stick_access(output, op.dims, buffer)
        lane = found.lane_dim if isinstance(found, StickAccess) else None
        return lane is not None and not fills_sticks(output, buffer, op.dims[lane].size)

    def _fits(self, op: Op, access: Access, lane: int | None) -> bool:
        return all(fits(op, moved(access, where), lane, self.buffers) for where in self._iterations(op))

    def _emit(self, op: Op) -> None:
        self.nodes.append(op)
        for access in op.outputs:
            self.moved.pop(access.buffer, None)

    def _legal_input(self, op: Op, access: Access, lane: int | None) -> Access:
        if self._fits(op, access, lane):
            return access
        sizes = tuple(dim.size for dim in op.dims)
        key = (access.offset, access.strides, access.advance, access.dtype, sizes, lane)
        temp = self.moved.get(access.buffer, {}).get(key)
        if temp is None or not self.shares:
            temp = self._temp(op, access, lane, f"{op.name}.in{len(self.nodes)}")
            self._emit(_relayout(f"{op.name}.load{len(self.nodes)}", op, access, temp))
            self.moved.setdefault(access.buffer, {})[key] = temp
        return temp

    def _temp(self, op: Op, like: Access, lane: int | None, name: str) -> Access:
        """A dense temp over the dims the access varies with; sparse (one value a stick) if it does not vary along the lanes."""
        walked = [d for d, dim in enumerate(op.dims) if like.strides[d] != 0 and dim.size > 1]
        kept = sorted({*walked, lane}) if lane is not None and runs_along(op, like, lane) else walked
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
        origin=op.origin.changed("clone", "InsertRelayouts", f"{op.row} takes no tensor that lies as this one"),
    )
