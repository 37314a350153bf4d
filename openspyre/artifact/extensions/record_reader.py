"""Reads the record of an extension op. Whatever it holds, what does not fit becomes a problem that names its field."""

from __future__ import annotations

from openspyre.artifact.extensions.description import (
    CONSTANT_DTYPES,
    RECORD_VERSION,
    Attribute,
    Constant,
    Description,
    Dim,
    HostView,
    Iota,
    Lanes,
    Operand,
    Tensor,
)
from openspyre.artifact.extensions.record import FIELDS
from openspyre.artifact.fields import Fields
from openspyre.spec.errors import SpyreError
from openspyre.spec.formats import TENSOR_DTYPES, DataFormats, ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.machine import SPYRE
from openspyre.spec.ops import TABLE

MAX_DIMS = 10
_FORMATS = [f.name for f in DataFormats if f is not DataFormats.INVALID]
_ARRANGEMENTS = [a.name for a in ElementArrangement]


def parse_extension(op: Fields) -> Description | None:
    """The description that the record of an extension op states; None, with problems, if it states none."""
    before = len(op.problems.found)
    op.only(*FIELDS["op"])
    if op.integer("version") != RECORD_VERSION:
        expected = f"{RECORD_VERSION}, the version this build reads"
        op.problems.add(f"{op.path}.version", op.values.get("version"), expected)
        return None
    dims = tuple(_dim(fields) for fields in op.inners("dims", MAX_DIMS))
    row = op.choice("row", list(TABLE))
    attributes = _attributes(op)
    tensors = [_tensor(fields, len(dims)) for fields in op.inners("tensors", 64)]
    inputs, used = _inputs(op, tensors, len(dims))
    outputs = tuple(tensor for tensor in tensors[used:] if tensor is not None)
    if not outputs:
        op.problems.say(f"{op.path}.tensors", f"{len(tensors)} tensors, {used} of them inputs", "an output")
    if len(op.problems.found) > before:
        return None
    return Description(row, dims, inputs, outputs, attributes)


def _dim(fields: Fields) -> Dim:
    fields.only("name", "size", "split", "reduced")
    return Dim(
        fields.text("name"), fields.integer("size", 0), fields.integer("split", 1, SPYRE.cores), fields.truth("reduced")
    )


def _attributes(op: Fields) -> tuple[tuple[str, Attribute], ...]:
    found: list[tuple[str, Attribute]] = []
    inner = op.inner("attributes")
    for name, value in inner.values.items():
        match value:
            case bool() | int() | float() | str():
                found.append((name, value))
            case {"float": "inf" | "-inf" | "nan" as text}:
                found.append((name, float(text)))
            case list() if all(isinstance(v, int) and not isinstance(v, bool) for v in value):
                found.append((name, tuple(v for v in value if isinstance(v, int))))
            case _:
                op.problems.add(f"{inner.path}.{name}", value, "a number, text, truth value or list of integers")
    return tuple(found)


def _tensor(fields: Fields, dims: int) -> Tensor | None:
    before = len(fields.problems.found)
    fields.only(*FIELDS["tensor"])
    size = fields.integers("device_size", 0)
    stride_map = fields.integers("stride_map", -1, len(size))
    dtype = fields.choice("dtype", list(TENSOR_DTYPES))
    form = DataFormats[fields.choice("format", _FORMATS)]
    arrangement = ElementArrangement[fields.choice("arrangement", _ARRANGEMENTS)]
    bits_as = None if fields.values.get("bits_as", 0) is None else DataFormats[fields.choice("bits_as", _FORMATS)]
    lanes = Lanes(fields.choice("lanes", list(Lanes)))
    lane_dim = fields.optional_integer("lane_dim", 0, max(dims - 1, 0))
    strides = fields.integers("strides", length=dims)
    view = None if fields.values.get("view", 0) is None else _view(fields.inner("view"), dims)
    if len(fields.problems.found) > before:
        return None
    try:
        layout = SpyreTensorLayout(size, stride_map, form, arrangement)
    except SpyreError as error:
        fields.problems.say(f"{fields.path}.device_size", str(error), "a layout")
        return None
    if layout.device_size[-1] != form.elems_per_stick():
        expected = f"a last dim of {form.elems_per_stick()}, the stick"
        fields.problems.add(f"{fields.path}.device_size", list(size), expected)
        return None
    if bits_as is not None and bits_as.bits != form.bits:
        fields.problems.say(f"{fields.path}.bits_as", bits_as.name, f"a format of {form.bits} bits, as {form.name} is")
        return None
    if (lanes is Lanes.VECTOR) != (lane_dim is not None) or (lanes is Lanes.VIEW and view is None):
        fields.problems.say(f"{fields.path}.lanes", lanes.value, "a lane_dim if and only if vector, a view if view")
        return None
    return Tensor(dtype, layout, lanes, lane_dim, strides, view, bits_as)


def _view(fields: Fields, dims: int) -> HostView:
    fields.only(*FIELDS["view"])
    size = fields.integers("buffer_size", 0)
    return HostView(
        fields.choice("buffer_dtype", list(TENSOR_DTYPES)),
        size,
        fields.integers("buffer_stride", 0, len(size)),
        fields.integer("offset", 0),
        fields.integers("strides", length=dims),
    )


def _inputs(op: Fields, tensors: list[Tensor | None], dims: int) -> tuple[tuple[Operand, ...], int]:
    """Operands in order; tensors are numbered as they come. Also how many tensors are inputs."""
    found: list[Operand] = []
    used = 0
    for fields in op.inners("inputs", 16):
        if "tensor" in fields.values:
            fields.only("tensor")
            if fields.integer("tensor", 0, 16) != used or used >= len(tensors):
                fields.problems.add(f"{fields.path}.tensor", fields.values["tensor"], f"{used}, a labelled tensor")
                break
            tensor = tensors[used]
            found += [] if tensor is None else [tensor]
            used += 1
        elif "constant" in fields.values:
            fields.only("constant", "dtype")
            found.append(
                Constant(fields.integer("constant", 0, (1 << 32) - 1), fields.choice("dtype", list(CONSTANT_DTYPES)))
            )
        else:
            fields.only("iota")
            iota = fields.inner("iota")
            iota.only("offset", "strides")
            found.append(Iota(iota.integer("offset"), iota.integers("strides", length=dims)))
    return tuple(found), used
