"""The address of every element, from dim order, stick, sizes, gaps and the start of each core."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from .errors import BundleError
from .memory import Memory
from .sdsc import Operation, Tensor

Extents = dict[str, np.ndarray]
ABSENT_PADDING = frozenset({"ReStickifyOpHBM"})  # ops whose gap may mean rows that memory does not have


@dataclass(frozen=True)
class Places:
    """Byte addresses over (core, dims of the op), 1 long where the tensor does not walk; `present` where they exist."""

    cores: np.ndarray
    addresses: np.ndarray
    present: np.ndarray | None


def places(operation: Operation, tensor: Tensor, memory: Memory) -> Places:
    cores = sorted(operation.owners(tensor))
    extents, rows = _extents(operation, tensor, memory, cores)
    strides = _strides(tensor, extents)
    rank = 1 + len(operation.dims)
    start = np.array([tensor.starts[core] for core in cores], dtype=np.int64)
    word = tensor.format.word.itemsize
    # A core may start inside a stick: its elements run on into the next stick from there.
    lead = start % 128 // word if len(tensor.sticks) == 1 else np.zeros_like(start)
    addresses = _column(start, rank)
    present = None
    for dim in tensor.order:
        if not tensor.walks(dim):
            continue
        position = _positions(operation, tensor, dim, memory)
        if dim in rows:
            size, owners = operation.per_core(tensor, dim), operation.owners(tensor)
            first = np.array([size * owners[core].get(dim, 0) for core in cores])
            here = position + _column(first, rank) < rows[dim]
            present = here if present is None else present & here
        stick = tensor.sticks.get(dim, 1)
        if dim in tensor.sticks:
            position = position + _column(lead, rank)
            addresses = addresses - _column(lead, rank) * word
        lane = position % stick
        lane = tensor.lanes[dim][lane] if dim in tensor.lanes else lane
        elements = position // stick * _column(strides[dim], rank) + lane * _lane_stride(tensor, dim)
        addresses = addresses + elements * word
    if present is not None:
        present = np.broadcast_to(present, addresses.shape)
    if tensor is operation.output and tensor.component == "hbm" and tensor.indexed is None:
        memory.filled[min(tensor.starts.values())] = 128 * int(np.prod([extents[dim][0] for dim in tensor.order]))
    return Places(_column(np.array(cores), rank), addresses, present)


def _positions(operation: Operation, tensor: Tensor, dim: str, memory: Memory) -> np.ndarray:
    """Coordinates within each core's part; in the indexed dim of a table, those that the index tensor holds."""
    if dim == tensor.indexed:
        index = operation.indices[tensor.index]
        where = places(operation, index, memory)
        codes = memory.load(index, where.cores, where.addresses, np.dtype(np.int32)).astype(np.int64)
        if (codes < 0).any():
            rows = _table_rows(operation, tensor, _sizes(operation, tensor, sorted(tensor.starts)), memory)
            codes = np.where(codes < 0, codes + rows, codes)
            if (codes < 0).any():
                raise BundleError(f"an index of {tensor.name} is below -{rows}, the rows it has")
        return codes
    shape = [1] * (1 + len(operation.dims))
    shape[operation.axis(dim)] = operation.per_core(tensor, dim)
    return np.arange(operation.per_core(tensor, dim), dtype=np.int64).reshape(shape)


def _extents(operation: Operation, tensor: Tensor, memory: Memory, cores: list[int]) -> tuple[Extents, dict[str, int]]:
    """Sticks or rows that memory has of each dim, per core; and the dims of which it has fewer than are walked."""
    sizes = _sizes(operation, tensor, cores)
    if tensor.indexed not in (None, *tensor.gaps, tensor.order[-1]):
        sizes[tensor.indexed] = sizes[tensor.indexed] * 0 + _table_rows(operation, tensor, sizes, memory)
    rows = _absent_rows(operation, tensor, sizes, memory, cores)
    for dim, there in rows.items():
        sizes[dim] = sizes[dim] * 0 + there
    return _in_sticks(tensor, sizes), rows


def _sizes(operation: Operation, tensor: Tensor, cores: list[int]) -> Extents:
    sizes: Extents = {}
    for dim in tensor.order:
        walked = operation.sizes[dim] if tensor.component == "hbm" else operation.per_core(tensor, dim)
        gaps = np.array([tensor.gap(dim, core) for core in cores], dtype=np.int64)
        sizes[dim] = (walked if tensor.walks(dim) else 1) + gaps
    return sizes


def _absent_rows(
    operation: Operation, tensor: Tensor, sizes: Extents, memory: Memory, cores: list[int]
) -> dict[str, int]:
    """The gap of a restickify is memory not walked or rows not in memory: start addresses or the length tell."""
    if operation.name not in ABSENT_PADDING or tensor.component != "hbm":
        return {}
    # Only a dim that another tensor has along its sticks is padded, to whole sticks of that; one row at least is there.
    others = {d: lanes for other in (*operation.inputs, operation.output) for d, lanes in other.sticks.items()}
    gaps = {d: tensor.gap(d, -1) for d in tensor.order if tensor.walks(d) and d not in tensor.sticks and d in others}
    unsure = [d for d, gap in gaps.items() if 0 < gap < min(others[d], operation.sizes[d])]
    best: tuple[list[bool], dict[str, int]] | None = None
    for absent in product([True, False], repeat=len(unsure)):
        fewer = zip(unsure, absent, strict=True)
        rows = {d: operation.sizes[d] - tensor.gap(d, -1) for d, away in fewer if away}
        extents = _in_sticks(tensor, sizes | {d: np.full(len(cores), n) for d, n in rows.items()})
        span = 128 * int(np.prod([extents[d][0] for d in tensor.order]))
        length = memory.buffer_length(tensor.starts[cores[0]])
        fits = length is None or span <= length
        verdict = [_distances_agree(operation, tensor, extents, cores), span == length, fits]
        if best is None or verdict > best[0]:
            best = verdict, rows
    return best[1] if best else {}


def _distances_agree(operation: Operation, tensor: Tensor, extents: Extents, cores: list[int]) -> bool:
    strides, owners = _strides(tensor, extents), operation.owners(tensor)
    for core in cores:
        expected = sum(
            (owners[core][d] - owners[cores[0]][d])
            * (operation.per_core(tensor, d) // tensor.sticks.get(d, 1))
            * int(strides[d][0])
            for d in tensor.order
            if tensor.walks(d) and d in owners[core]
        )
        if tensor.starts[core] - tensor.starts[cores[0]] != expected * tensor.format.word.itemsize:
            return False
    return True


def _table_rows(operation: Operation, tensor: Tensor, sizes: Extents, memory: Memory) -> int:
    """No field holds the extent of an indexed table: it follows from the length of its buffer."""
    others = _in_sticks(tensor, sizes)
    rest = 128 * int(np.prod([others[d][0] for d in tensor.order if d != tensor.indexed]))
    length = memory.room(min(tensor.starts.values())) if tensor.component == "hbm" else None
    if length is None or length < rest:
        raise BundleError(f"the extent of {tensor.name} in {tensor.indexed} stands in no field")
    return length // rest * tensor.sticks.get(tensor.indexed, 1)


def _in_sticks(tensor: Tensor, sizes: Extents) -> Extents:
    return {dim: -(-size // tensor.sticks.get(dim, 1)) for dim, size in sizes.items()}


def _strides(tensor: Tensor, extents: Extents) -> Extents:
    """Elements from one stick or row of a dim to the next: a stick times what is walked inside it."""
    strides, stride = {}, np.full_like(extents[tensor.order[0]], int(np.prod(list(tensor.sticks.values()))))
    for dim in tensor.order:
        strides[dim] = stride
        stride = stride * extents[dim]
    return strides


def _lane_stride(tensor: Tensor, dim: str) -> int:
    """Within a stick of several dims the first one listed runs fastest, as in the order of dims."""
    stride = 1
    for other, size in tensor.sticks.items():
        if other == dim:
            return stride
        stride *= size
    return 0


def _column(per_core: np.ndarray, rank: int) -> np.ndarray:
    return per_core.reshape((-1,) + (1,) * (rank - 1))
