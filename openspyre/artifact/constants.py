"""Constants of an op in its SuperDSC: launch scalars, numbers fixed by the shape, and the mask of padded lanes."""

from __future__ import annotations

from math import inf, prod

from openspyre.artifact.extension import EXTENSION
from openspyre.artifact.geometry import Axis, Geometry, is_reduction
from openspyre.artifact.json_types import Json
from openspyre.artifact.model import Description
from openspyre.spec.encodings import encode_constant
from openspyre.spec.ops import TABLE, Fold

_MEAN = "mean"  # the one reduction the documents give a constant of the shape
_MASK_VALUES = {Fold.MAX: -inf, Fold.MIN: inf}


def masked_axes(description: Description, shape: Geometry) -> list[Axis]:
    """Padded dims that the op folds along its sticks: their padding must not count."""
    scales = shape.tensors[-1].scales
    return [axis for axis in shape.axes if axis.size > axis.unpadded and scales.get(axis.label) == -2]


def constants(description: Description, shape: Geometry) -> Json:
    """`constantInfo_`: a string where there are none, as the format has it."""
    row = TABLE[description.row]
    data_format = description.tensors[0].format
    entries: list[dict[str, Json]] = []
    if masked_axes(description, shape):
        value = _MASK_VALUES.get(row.fold, 0.0) if row.fold is not None else 0.0
        entries.append(_entry("samv-maskvalue", data_format.name, encode_constant(value, data_format)))
    for place, name in enumerate(row.constants):
        if place < len(description.scalar_slots):
            entry = _entry(name, data_format.name, 0)
            entry[EXTENSION] = {"scalar": place}
            entries.append(entry)
    if is_reduction(description) and row.artifact == _MEAN:
        folded = prod(dim.size for dim in description.dims if dim.reduced)
        entries.append(_entry("scaling_factor", data_format.name, encode_constant(1 / max(folded, 1), data_format)))
    return {str(place): entry for place, entry in enumerate(entries)} if entries else "{}"


def _entry(name: str, data_format: str, bits: int) -> dict[str, Json]:
    return {
        "dataFormat_": data_format,
        "name_": name,
        "data_": {
            "dim_prop_func": [{"Const": {}}, {"Const": {}}, {"Map": {}}],
            "dim_prop_attr": [
                {"factor_": 1, "label_": "core"},
                {"factor_": 1, "label_": "corelet"},
                {"factor_": 1, "label_": "time"},
            ],
            "data_": {"[0, 0, 0]": [bits]},
        },
    }
