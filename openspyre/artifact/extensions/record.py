"""The record of an extension op as JSON, under one key of its SuperDSC: what the documented fields cannot say, stated completely.

`FIELDS` is the table the documentation prints; `record_reader.py` reads what is written here.
"""

from __future__ import annotations

from math import isfinite

from openspyre.artifact.extensions.description import (
    RECORD_VERSION,
    Attribute,
    Constant,
    Description,
    HostView,
    Iota,
    Tensor,
)
from openspyre.artifact.json_types import Json

EXTENSION = "openspyre_"

FIELDS: dict[str, dict[str, str]] = {
    "op": {
        "version": "version of this format",
        "row": "the op's name in the op table; its opFuncName is openspyre.<row>",
        "attributes": "static parameters: name to number, text, truth value or list of integers",
        "dims": "the iteration space, outermost first: name, size in elements, split over cores, reduced or not",
        "inputs": "operands in the op's order: a tensor by its ldsIdx_, a constant by its 32 bits, or an iota",
        "tensors": "every tensor, in the order of labeledDs_",
    },
    "tensor": {
        "dtype": "torch's name for the elements",
        "device_size": "the buffer's layout: sizes, the stick last",
        "stride_map": "the buffer's layout: host stride of each device dim",
        "format": "the buffer's layout: format of an element",
        "arrangement": "the buffer's layout: order of the elements in a stick",
        "bits_as": "format the bits are read in where it is not the buffer's own, else null",
        "lanes": "vector: a dim runs along the sticks; splat: lane 0 serves all lanes; view: see `view`",
        "lane_dim": "number of the dim along the sticks, null if none",
        "strides": "device elements per step of each dim, per stick for the lane dim",
        "view": "relayouts: the access in host coordinates of the whole buffer, else null",
    },
    "view": {
        "buffer_dtype": "the buffer's own dtype",
        "buffer_size": "the buffer's host size",
        "buffer_stride": "the buffer's host strides",
        "offset": "host offset of the first element",
        "strides": "host elements per step of each dim",
    },
}


def extension_json(description: Description) -> dict[str, Json]:
    """All of a description in one object."""
    return {
        "version": RECORD_VERSION,
        "row": description.row,
        "attributes": {name: attribute_json(value) for name, value in description.attributes},
        "dims": [
            {"name": dim.name, "size": dim.size, "split": dim.split, "reduced": dim.reduced} for dim in description.dims
        ],
        "inputs": _inputs(description),
        "tensors": [_tensor(tensor) for tensor in description.tensors],
    }


def _inputs(description: Description) -> list[Json]:
    found: list[Json] = []
    tensors = 0
    for operand in description.inputs:
        match operand:
            case Tensor():
                found.append({"tensor": tensors})
                tensors += 1
            case Constant(bits=bits, dtype=dtype):
                found.append({"constant": bits, "dtype": dtype})
            case Iota(offset=offset, strides=strides):
                found.append({"iota": {"offset": offset, "strides": list(strides)}})
    return found


def attribute_json(value: Attribute) -> Json:
    if isinstance(value, tuple):
        return list(value)
    # JSON has no infinities; they are written as text under a key of their own.
    return {"float": repr(value)} if isinstance(value, float) and not isfinite(value) else value


def _tensor(tensor: Tensor) -> dict[str, Json]:
    layout = tensor.layout
    return {
        "dtype": tensor.dtype,
        "device_size": list(layout.device_size),
        "stride_map": list(layout.stride_map),
        "format": layout.device_dtype.name,
        "arrangement": layout.element_arrangement.name,
        "bits_as": None if tensor.bits_as is None else tensor.bits_as.name,
        "lanes": tensor.lanes.value,
        "lane_dim": tensor.lane_dim,
        "strides": list(tensor.strides),
        "view": None if tensor.view is None else _view(tensor.view),
    }


def _view(view: HostView) -> dict[str, Json]:
    return {
        "buffer_dtype": view.buffer_dtype,
        "buffer_size": list(view.buffer_size),
        "buffer_stride": list(view.buffer_stride),
        "offset": view.offset,
        "strides": list(view.strides),
    }
