"""What an op computes from values that are known now: the row's own expression, on the host, rounded as the card stores it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from openspyre.compiler.ir import Access, Buffer, Constant, Dim, Iota, Op, Operand, Scalar
from openspyre.compiler.primitives import Lanes, computable, run
from openspyre.spec.addressing import host_elements
from openspyre.spec.encodings import sen169_decode, sen169_encode, to_device, to_host
from openspyre.spec.formats import require_supported
from openspyre.spec.ops import TABLE, Kind
from openspyre.spec.ops.expression import Code, Lane, Value, convert, trace

_HALVES = ("float16", "bfloat16", "bool")
_WRAPPED = {"uint8": np.uint8, "int8": np.int8, "int16": np.int16}
DTYPES = (*_HALVES, "float32", "int32", "int64", *_WRAPPED)  # of tensors whose values can be known
_KINDS = (Kind.POINTWISE, Kind.CREATION, Kind.MOVEMENT)


class KnownValues:
    """A buffer's elements by host offset, as the registers of an op would load them, and which of them are known."""

    def __init__(self, buffer: Buffer, values: bytes | None = None) -> None:
        """With the `values` that the host stores, or none."""
        elements = host_elements(buffer.size, buffer.stride)
        whole = "int" in buffer.dtype
        self.values: Lanes = np.zeros(elements, np.int32 if whole else np.float32)
        self.known = np.full(elements, values is not None, np.bool_)
        if values is not None:
            codes = to_device(np.frombuffer(values, require_supported(buffer.dtype).numpy), buffer.dtype)
            self.values[:] = sen169_decode(codes) if buffer.dtype in _HALVES else codes


def host_bytes(values: Lanes, dtype: str) -> bytes | None:
    """Values of a tensor as the host stores them; None if its format does not hold what the card's does."""
    codes = sen169_encode(values) if dtype in _HALVES else values
    host = to_host(codes, dtype)
    there = to_device(host, dtype)
    return host.tobytes() if there.tobytes() == codes.astype(there.dtype).tobytes() else None


def computed(op: Op, known: Mapping[str, KnownValues]) -> Lanes | None:
    """An op's only result over its dims; None if something of it is not known, or is for the card to compute."""
    row = TABLE[op.row]
    dtypes = {access.dtype for access in op.accesses}
    if row.kind not in _KINDS or len(op.outputs) != 1 or not dtypes <= set(DTYPES) or any(d.reduced for d in op.dims):
        return None
    if not all(dim.size for dim in op.dims) or not all(_is_known(operand, op.dims, known) for operand in op.inputs):
        return None
    target = op.outputs[0].dtype
    if row.kind is Kind.MOVEMENT:
        source = op.inputs[0]
        if not isinstance(source, Access) or source.dtype != target:
            return None
        return np.broadcast_to(_loaded(source, op.dims, known), [dim.size for dim in op.dims])  # it may stretch it
    code = _code(op.row, tuple(_kinds(operand) for operand in op.inputs), _lane(target))
    if code is None:
        return None
    results = run(code, [_loaded(operand, op.dims, known) for operand in op.inputs], wraps=target != "int64")
    if results is None:
        return None
    return np.broadcast_to(_stored(results[0], target), [dim.size for dim in op.dims])


def places(access: Access, dims: tuple[Dim, ...]) -> Lanes:
    """The host offsets that an access touches, over the op's dims."""
    return _counted(access.offset, access.strides, dims)


def _counted(offset: int, strides: tuple[int, ...], dims: tuple[Dim, ...]) -> Lanes:
    found = np.asarray(np.int64(offset))
    for stride, dim in zip(strides, dims, strict=True):
        found = found[..., None] + (stride * np.arange(dim.size, dtype=np.int64) if stride else np.zeros(1, np.int64))
    return np.asarray(found)


def _is_known(operand: Operand, dims: tuple[Dim, ...], known: Mapping[str, KnownValues]) -> bool:
    match operand:
        case Access(buffer=name):
            return name in known and bool(known[name].known[places(operand, dims)].all())
        case Scalar(word=word):
            return word is not None
        case Constant() | Iota():
            return True


def _loaded(operand: Operand, dims: tuple[Dim, ...], known: Mapping[str, KnownValues]) -> Lanes:
    match operand:
        case Access(buffer=name):
            return known[name].values[places(operand, dims)]
        case Scalar(word=bits, dtype=dtype) | Constant(bits=bits, dtype=dtype):
            word = np.asarray(np.uint32(bits or 0))
            return word.view(np.int32 if _lane(dtype) is not Lane.FLOAT else np.float32)
        case Iota(offset=offset, strides=strides):
            return _counted(offset, strides, dims).astype(np.int32)


def _stored(lanes: Lanes, dtype: str) -> Lanes:
    """Rounded to the format of memory; which NaN a NaN is, is no property of a program."""
    if "int" in dtype:
        return lanes.astype(_WRAPPED[dtype]).astype(np.int32) if dtype in _WRAPPED else lanes
    wide = lanes.astype(np.float32)
    wide = np.where(np.isnan(wide), np.float32(np.nan), wide)
    return sen169_decode(sen169_encode(wide)) if dtype in _HALVES else wide


def _lane(dtype: str) -> Lane:
    return Lane.BOOL if dtype == "bool" else Lane.FLOAT if "float" in dtype else Lane.INT


def _kinds(operand: Operand) -> tuple[Lane, Lane]:
    """What a register holds once the operand is loaded, and what the expression sees: truth values in memory are 0.0 or 1.0."""
    lane = Lane.INT if isinstance(operand, Iota) else _lane(operand.dtype)
    return (Lane.FLOAT if lane is Lane.BOOL and isinstance(operand, Access) else lane), lane


@lru_cache(maxsize=512)
def _code(row: str, operands: tuple[tuple[Lane, Lane], ...], target: Lane) -> Code | None:
    body: Callable[..., Value] | None = TABLE[row].body
    if body is None:
        return None

    def whole(*values: Value) -> Value:
        given = [convert(value, seen) for value, (_, seen) in zip(values, operands, strict=True)]
        return convert(body(*given), target)

    code = trace(whole, tuple(loaded for loaded, _ in operands))
    return code if computable(code) else None
