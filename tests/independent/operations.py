"""One execution of one SDSC: every core reads, then every core writes."""

from collections.abc import Callable
from functools import partial

import numpy as np

from .errors import BundleError, UnknownOperation
from .geometry import places
from .memory import Memory
from .pointwise import FUNCTIONS, STATISTICS
from .reduction import IDENTITIES, contract, fold, moments, ranking
from .sdsc import MASK, Operation, Tensor


def execute(operation: Operation, memory: Memory) -> None:
    if operation.name not in _RUNNERS:
        raise UnknownOperation(f"{operation.file}: no operation is called {operation.name!r}")
    with np.errstate(all="ignore"):
        _RUNNERS[operation.name](operation, memory)


def _move(operation: Operation, memory: Memory) -> None:
    """Codes go as they are; where the two tensors divide their dims differently, between cores."""
    (source,) = operation.inputs
    if source.format.word != operation.output.format.word:
        raise BundleError("the words of source and result are not of one length")
    codes = _load(operation, source, memory)
    if source.own or operation.output.own:
        codes = _redistribute(operation, source, codes)
    _store(operation, codes, memory)


def _redistribute(operation: Operation, source: Tensor, codes: np.ndarray) -> np.ndarray:
    whole = np.zeros([operation.sizes[d] if source.walks(d) else 1 for d in operation.dims], dtype=codes.dtype)
    held = np.zeros(whole.shape, dtype=bool)
    for core, part in zip(sorted(operation.owners(source)), codes, strict=True):
        whole[_part(operation, source, core)] = part
        held[_part(operation, source, core)] = True
    if not held.all():
        raise BundleError(f"no core holds a part of {source.name}")
    target = operation.output
    whole = np.broadcast_to(whole, [operation.sizes[d] for d in operation.dims])
    return np.stack([whole[_part(operation, target, core)] for core in sorted(operation.owners(target))])


def _part(operation: Operation, tensor: Tensor, core: int) -> tuple[slice, ...]:
    parts = []
    for dim in operation.dims:
        size = operation.per_core(tensor, dim)
        first = operation.owners(tensor)[core].get(dim, 0) * size
        parts.append(slice(first, first + size) if tensor.walks(dim) else slice(None))
    return tuple(parts)


def _map(operation: Operation, memory: Memory) -> None:
    operands = [_values(operation, tensor, memory) for tensor in operation.inputs]
    _write(operation, FUNCTIONS[operation.name](operation.constants, *operands), memory)


def _normalise(operation: Operation, memory: Memory) -> None:
    """layernormnorm: its second operand is what exx2 left, of which it takes the mean."""
    operands = [_values(operation, tensor, memory) for tensor in operation.inputs]
    operands[1] = _statistics(operation, operation.inputs[1], memory)[..., 0]
    _write(operation, FUNCTIONS[operation.name](operation.constants, *operands), memory)


def _of_statistics(operation: Operation, memory: Memory) -> None:
    pair = _statistics(operation, operation.inputs[0], memory)
    _write(operation, STATISTICS[operation.name](operation.constants, pair[..., 0], pair[..., 1]), memory)


def _reduce(name: str, operation: Operation, memory: Memory) -> None:
    combine, identity = IDENTITIES[name]
    values = _values(operation, operation.inputs[0], memory)
    total = fold(operation, values, combine, identity)
    if name == "mean":
        total = total * np.float32(operation.constants["scaling_factor"])
    _write(operation, total, memory)


def _moments(operation: Operation, memory: Memory) -> None:
    """The two statistics are the first words of the result's stick, in the format it is labelled with."""
    pair = moments(operation, _values(operation, operation.inputs[0], memory))
    where = places(operation, operation.output, memory)
    for i in range(2):
        codes = operation.output.format.encode(np.broadcast_to(pair[..., i], where.addresses.shape))
        memory.store(operation.output, where.cores, where.addresses + i * codes.itemsize, codes)


def _contract(operation: Operation, memory: Memory) -> None:
    left, right = (_values(operation, tensor, memory) for tensor in operation.inputs)
    _write(operation, contract(operation, left, right), memory)


def _rank(which: int, operation: Operation, memory: Memory) -> None:
    _write(operation, ranking(operation, _values(operation, operation.inputs[0], memory))[which], memory)


def _load(operation: Operation, tensor: Tensor, memory: Memory) -> np.ndarray:
    where = places(operation, tensor, memory)
    if where.present is None:
        return memory.load(tensor, where.cores, where.addresses, tensor.format.word)
    cores = np.broadcast_to(where.cores, where.addresses.shape)
    codes = np.zeros(where.addresses.shape, dtype=tensor.format.word)
    codes[where.present] = memory.load(tensor, cores[where.present], where.addresses[where.present], tensor.format.word)
    return codes


def _values(operation: Operation, tensor: Tensor, memory: Memory) -> np.ndarray:
    """Decoded elements, the masked coordinates replaced by the mask's value, which goes by its name."""
    values = tensor.format.decode(_load(operation, tensor, memory))
    for dim, pairs in operation.masks.items():
        if not tensor.walks(dim):
            continue
        size = operation.per_core(tensor, dim)
        owners = operation.owners(tensor)
        first = np.array([owners[core][dim] * size for core in sorted(owners)])
        shape = [1] * values.ndim
        shape[0], shape[operation.axis(dim)] = len(first), size
        hidden = _hidden(pairs)[first[:, None] + np.arange(size)].reshape(shape)
        values = np.where(hidden, values.dtype.type(operation.constants[MASK]), values)
    return values


def _hidden(pairs: list[list[int]]) -> np.ndarray:
    """Pairs of sizes, shown and padded, one after the other."""
    return np.concatenate([np.repeat([False, True], pair) for pair in pairs])


def _statistics(operation: Operation, tensor: Tensor, memory: Memory) -> np.ndarray:
    where = places(operation, tensor, memory)
    steps = (0, tensor.format.word.itemsize)
    words = [memory.load(tensor, where.cores, where.addresses + step, tensor.format.word) for step in steps]
    return tensor.format.decode(np.stack(words, axis=-1))


def _write(operation: Operation, values: np.ndarray, memory: Memory) -> None:
    _store(operation, operation.output.format.encode(values), memory)


def _store(operation: Operation, codes: np.ndarray, memory: Memory) -> None:
    """A result that does not walk a dim keeps that dim's first element: lane 0 of a sparse stick."""
    result = operation.output
    where = places(operation, result, memory)
    for dim in operation.dims:
        if not result.walks(dim):
            codes = codes.take([0], axis=operation.axis(dim))
    shape = np.broadcast_shapes(codes.shape, where.addresses.shape)
    cores, addresses, codes = (np.broadcast_to(a, shape) for a in (where.cores, where.addresses, codes))
    if where.present is not None:
        present = np.broadcast_to(where.present, shape)
        cores, addresses, codes = cores[present], addresses[present], codes[present]
    memory.store(result, cores, addresses, np.ascontiguousarray(codes))


_RUNNERS: dict[str, Callable[[Operation, Memory], None]] = {
    **dict.fromkeys(FUNCTIONS, _map),
    **dict.fromkeys(STATISTICS, _of_statistics),
    **dict.fromkeys(("identity", "ReStickifyOpHBM", "shuffle"), _move),
    **{name + end: partial(_reduce, name) for name in IDENTITIES for end in ("", "nonstick")},
    **dict.fromkeys(("batchmatmul", "batchmatmulfp8"), _contract),
    "layernormnorm": _normalise,
    "exx2": _moments,
    "topkvalue": partial(_rank, 0),
    "topkindex": partial(_rank, 1),
}
