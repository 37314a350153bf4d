"""The iteration space of an op of the IR, once layouts are chosen. Dims of size 1 are no part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from openspyre.compiler.ir import Access, Buffer, Op
from openspyre.compiler.planner.space import Coordinate, Space, SpaceKind, Symbol, Tensor, Term
from openspyre.compiler.spans import chosen_from
from openspyre.compiler.sticks import GroupWalk, walks_of
from openspyre.spec.formats import STICK_BYTES, DataFormats
from openspyre.spec.ops import TABLE, Fold, Kind

Buffers = Mapping[str, Buffer]
_SUMS = (Kind.REDUCTION, Kind.CONTRACTION, Kind.MOMENTS)


@dataclass(frozen=True, slots=True)
class OpSpace:
    """A space, and which dim of the op each of its symbols is."""

    space: Space
    dims: tuple[int, ...]


@dataclass(slots=True)
class _Walked:
    """An access in device coordinates: terms by device dim, and the dims that run along the sticks."""

    access: Access
    buffer: Buffer
    terms: dict[int, list[Term]] = field(default_factory=dict)
    along_sticks: set[int] = field(default_factory=set)

    @property
    def lanes(self) -> int:
        assert self.buffer.layout is not None
        return self.buffer.layout.elems_per_stick()


def op_space(op: Op, buffers: Buffers) -> OpSpace:
    """What an op's tensors lie in decides what is counted in sticks; names and addresses decide nothing."""
    dims = tuple(d for d in sorted(range(len(op.dims)), key=lambda d: op.dims[d].reduced) if op.dims[d].size != 1)
    walked = [_walk(op, dims, access, buffers[access.buffer]) for access in op.accesses]
    written = walked[len(walked) - len(op.outputs) :]
    symbols = tuple(_symbol(op, d, number, walked, written) for number, d in enumerate(dims))
    table = chosen_from(op)
    tensors = tuple(_tensor(w, dims, walks=w.access is not table) for w in walked)
    first = len(tensors) - len(op.outputs)
    kind = _kind(op, buffers)
    searched = next((n for n, d in enumerate(dims) if op.dims[d].reduced), None) if kind is SpaceKind.TOPK else None
    ranks = next((n for n, d in enumerate(dims) if not op.accesses[0].strides[d]), None)
    ranks = ranks if TABLE[op.row].kind is Kind.SEARCH else None
    strides = tuple(abs(op.outputs[0].strides[d]) for d in dims)
    return OpSpace(Space(op.name, symbols, tensors[:first], tensors[first:], kind, strides, searched, ranks), dims)


def _kind(op: Op, buffers: Buffers) -> SpaceKind:
    row = TABLE[op.row]
    if row.kind is Kind.INDEXED:
        return SpaceKind.INDIRECT
    if row.kind is Kind.CONTRACTION:
        return SpaceKind.MATMUL if _in_16_bits(op, buffers) else SpaceKind.PLAIN
    search = row.kind is Kind.SEARCH or row.fold in (Fold.ARG_MAX, Fold.ARG_MIN)
    return SpaceKind.TOPK if search else SpaceKind.PLAIN


def _in_16_bits(op: Op, buffers: Buffers) -> bool:
    layouts = [buffers[access.buffer].layout for access in op.accesses]
    return all(layout is not None and layout.device_dtype is DataFormats.SEN169_FP16 for layout in layouts)


def _symbol(op: Op, d: int, number: int, walked: Sequence[_Walked], written: Sequence[_Walked]) -> Symbol:
    dim = op.dims[d]
    lanes = max((w.lanes for w in walked if w.along_sticks == {number}), default=1)
    moves = all(any(term.symbol == number for terms in w.terms.values() for term in terms) for w in written)
    kind, padded = TABLE[op.row].kind, dim.size % lanes != 0
    # Where outputs do not move, cores would meet in one place; a restickify's last stick has rows that memory lacks.
    divisible = kind in _SUMS if dim.reduced else moves and not (op.row == "restickify" and padded)
    return Symbol(
        dim.name, dim.size, lanes, not moves, divisible, dim.named, dim.reduced and not _sums_over_cores(op, walked)
    )


def _sums_over_cores(op: Op, walked: Sequence[_Walked]) -> bool:
    """Whether the hardware has the sum: this card's own keep the order in which one core adds."""
    row = TABLE[op.row]
    slim = all(w.lanes == DataFormats.SEN169_FP16.elems_per_stick() for w in walked)
    return row.documented and (slim or row.kind is not Kind.CONTRACTION)


def _walk(op: Op, dims: Sequence[int], access: Access, buffer: Buffer) -> _Walked:
    found = _Walked(access, buffer)
    assert buffer.layout is not None
    stick = len(buffer.layout.device_size) - 1
    for walk in walks_of(access, op.dims, buffer) or ():
        for number, d in enumerate(dims):
            _along(found, walk, number, walk.steps[d], op.dims[d].size, stick)
    return found


def _along(found: _Walked, walk: GroupWalk, number: int, step: int, size: int, stick: int) -> None:
    """One symbol through the digits of a group, from the outermost to the innermost."""
    for digit in walk.group.digits:
        whole, rest = divmod(step, digit.step)
        if digit.device_dim == stick:
            if rest or whole:
                found.along_sticks.add(number)
        elif whole:
            found.terms.setdefault(digit.device_dim, []).append(Term(number, size, whole))
        elif rest * (size - 1) >= digit.step:
            found.terms.setdefault(digit.device_dim, []).append(Term(number, -(-rest * size // digit.step)))
        step = rest


def _tensor(walked: _Walked, dims: Sequence[int], walks: bool) -> Tensor:
    layout = walked.buffer.layout
    assert layout is not None
    sizes = layout.device_size[:-1]
    terms = walked.terms if walks else {}
    coordinates = tuple(Coordinate(size, tuple(terms.get(d, ()))) for d, size in enumerate(sizes))
    moves = frozenset(number for number, d in enumerate(dims) if walked.access.strides[d])
    return Tensor(walked.buffer.name, coordinates, moves, STICK_BYTES)
