"""Which accesses of an op meet the sticks, and what it costs to move those that do not.

Per op, one dim runs along the lanes. Operands that vary along it must be vectors there, the others splats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from math import prod

from openspyre.compiler.ir import Access, Buffer, Op
from openspyre.compiler.sticks import Misfit, StickAccess, stick_access
from openspyre.compiler.structure import per_structure
from openspyre.spec.errors import InternalError
from openspyre.spec.formats import STICK_BYTES, require_supported
from openspyre.spec.ops import TABLE, Fold, Indexing, Kind

Buffers = Mapping[str, Buffer]


def lanes_of(op: Op, buffers: Buffers) -> list[int | None]:
    """Per access, inputs first, the dim that runs along its sticks."""
    kind = TABLE[op.row].kind
    if kind is Kind.CONTRACTION:
        return [*contraction_lanes(op, buffers)]
    if kind is Kind.INDEXED:
        return _indexed_lanes(op, buffers)
    return [_lane_dim(op, _lane_dims(op), buffers)] * len(op.accesses)


_SPREAD_OUT = 1 << 20  # bytes a tensor may take whose sticks are mostly empty
_ENOUGH_LANES = 16


def fills_lanes(op: Op, access: Access, among: Collection[int]) -> bool:
    """Whether one of these dims could run along an access's sticks: it fills them, or what it wastes is little."""
    longest = max((op.dims[d].size for d in among), default=0)
    return longest > 0 and fills_sticks(longest, elements(op, access))


def fills_sticks(lanes: int, count: int) -> bool:
    """Whether a dim of so many lanes fills the sticks of a tensor of so many elements, or wastes little."""
    return lanes >= _ENOUGH_LANES or count // lanes * STICK_BYTES <= _SPREAD_OUT


def _lane_dims(op: Op) -> Collection[int]:
    """Where an op's lanes may run: where it says so, if it does; two statistics are found along the sticks, the place of the largest across them."""
    row = TABLE[op.row]
    said = [d for d, dim in enumerate(op.dims) if dim.lanes]
    if said:
        return said
    if row.kind is Kind.MOMENTS:
        return [d for d, dim in enumerate(op.dims) if dim.reduced]
    if row.kind is Kind.SEARCH:
        return [d for d, dim in enumerate(op.dims) if op.accesses[0].strides[d] and not dim.reduced and dim.size > 1]
    if row.documented and row.fold is Fold.ARG_MAX:
        kept = [d for d, dim in enumerate(op.dims) if not dim.reduced and dim.size > 1]
        return kept if fills_lanes(op, op.accesses[0], kept) else range(len(op.dims))
    return range(len(op.dims))


def contraction_lanes(op: Op, buffers: Buffers) -> tuple[int, int, int]:
    """A contraction reads its first operand along k and writes along n; the second may run along k, if it already does."""
    n, k = len(op.dims) - 2, len(op.dims) - 1
    if len(op.dims) < 3 or not op.dims[k].reduced:
        raise InternalError(f"{op.name}: a contraction's dims end in m, n and a reduced k, not {op.dims}")
    second = op.inputs[1]
    found = stick_access(second, op.dims, buffers[second.buffer]) if isinstance(second, Access) else None
    along_k = isinstance(found, StickAccess) and found.lane_dim == k
    return k, k if along_k else n, n


def turned(op: Op, buffers: Buffers) -> Access | None:
    """The second operand of a contraction that reads it along k: it turns it, block by block, wherever it needs one."""
    if TABLE[op.row].kind is not Kind.CONTRACTION or contraction_lanes(op, buffers)[1] != len(op.dims) - 1:
        return None
    second = op.inputs[1]
    return second if isinstance(second, Access) else None


def _indexed_lanes(op: Op, buffers: Buffers) -> list[int | None]:
    """Whole rows where the lanes run along them; else the lanes have an index each, and the table lies along its last dim.

    So the lanes run where either the table moves or the index does: where neither does, one value would be read.
    """
    index_dim = len(op.dims) - 1
    reads = TABLE[op.row].indexing is Indexing.READ
    table, index = (op.accesses[0] if reads else op.outputs[0]), op.accesses[1]
    walked = [d for d in range(index_dim) if bool(table.strides[d]) != bool(index.strides[d])]
    rows = [d for d in walked if table.strides[d] and op.dims[d].size > 1]
    lane = _lane_dim(op, walked if reads or not rows else rows, buffers)
    own = lane if lane in rows else index_dim
    return [own, lane, lane] if reads else [lane, lane, own]


def _lane_dim(op: Op, among: Collection[int], buffers: Buffers) -> int | None:
    """The dim most elements already lie along; those of an output count twice, as its relayout cannot be shared."""
    votes: Counter[int] = Counter()
    single = True  # every operand has one element a stick
    for weight, accesses in ((2, op.outputs), (1, op.inputs)):
        for access in accesses:
            if isinstance(access, Access):
                found = stick_access(access, op.dims, buffers[access.buffer])
                single = single and isinstance(found, StickAccess) and found.lane_dim is None
                if isinstance(found, StickAccess) and found.lane_dim is not None and found.lane_dim in among:
                    votes[found.lane_dim] += weight * elements(op, access)
    if votes:
        return votes.most_common(1)[0][0]
    if single and TABLE[op.row].kind is Kind.POINTWISE:
        return None
    varying = [d for d in among if op.dims[d].size > 1 and any(a.strides[d] for a in op.accesses)]
    return varying[-1] if varying else None


def fits(op: Op, access: Access, lane: int | None, buffers: Buffers) -> bool:
    found = stick_access(access, op.dims, buffers[access.buffer])
    if isinstance(found, Misfit):
        return False
    return found.lane_dim == (lane if runs_along(op, access, lane) else None)


def runs_along(op: Op, access: Access, lane: int | None) -> bool:
    """Whether an access must be a vector along the lanes: if it varies there, and always in the matrix unit."""
    if lane is None or op.dims[lane].size == 1:
        return False
    return access.strides[lane] != 0 or TABLE[op.row].kind is Kind.CONTRACTION


def elements(op: Op, access: Access) -> int:
    return prod(dim.size for dim, stride in zip(op.dims, access.strides, strict=True) if stride)


def moves_whole_sticks(op: Op, buffers: Buffers) -> bool:
    """Whether a movement is work for the vector unit: both sides along the same sticks, in one format."""
    found = [stick_access(access, op.dims, buffers[access.buffer]) for access in op.accesses]
    lanes = {each.lane_dim for each in found if isinstance(each, StickAccess)}
    formats = {_format(access, buffers[access.buffer]) for access in op.accesses}
    fit = all(isinstance(each, StickAccess) for each in found)
    return fit and len(lanes) == len(formats) == 1 and None not in lanes


def _format(access: Access, buffer: Buffer) -> tuple[object, ...]:
    return access.dtype, buffer.dtype, None if buffer.layout is None else buffer.layout.device_dtype


def misfits(op: Op, buffers: Buffers) -> list[Access]:
    """The accesses of an op that need a relayout."""
    accesses = op.accesses
    return [accesses[place] for place in misfit_places(op, buffers)]


@per_structure
def misfit_places(op: Op, buffers: Buffers) -> tuple[int, ...]:
    """Which of an op's accesses, inputs first, need a relayout."""
    accesses = op.accesses
    if TABLE[op.row].by_view:
        moved = TABLE[op.row].kind is Kind.MOVEMENT and not moves_whole_sticks(op, buffers)
        return (len(accesses) - len(op.outputs),) if moved else ()
    lanes = lanes_of(op, buffers)
    return tuple(k for k, access in enumerate(accesses) if not fits(op, access, lanes[k], buffers))


def reason_of(op: Op, access: Access, buffers: Buffers) -> str:
    """Why an access needs a relayout."""
    found = stick_access(access, op.dims, buffers[access.buffer])
    if isinstance(found, Misfit):
        return found.reason
    if TABLE[op.row].by_view:
        return "the two sides of the copy run along different sticks"
    lane = lanes_of(op, buffers)[op.accesses.index(access)]
    return f"its sticks run along {_dim_name(op, found.lane_dim)}, {op.row} wants them along {_dim_name(op, lane)}"


def _dim_name(op: Op, dim: int | None) -> str:
    return "no dim" if dim is None else f"{op.dims[dim].name} ({op.dims[dim].size})"


def moved_bytes(op: Op, access: Access) -> int:
    """What a relayout of an access moves."""
    return elements(op, access) * STICK_BYTES // require_supported(access.dtype).device.elems_per_stick()


# Turning blocks in the cache costs about this part of a relayout, which reads and writes memory.
_TURNED_PART = 8


@per_structure
def layout_cost(op: Op, buffers: Buffers) -> int:
    """What the relayouts an op needs would move, in bytes, and what it costs it to turn an operand itself."""
    aside = turned(op, buffers)
    own = 0 if aside is None else moved_bytes(op, aside) // _TURNED_PART
    return own + sum(moved_bytes(op, access) for access in misfits(op, buffers))
