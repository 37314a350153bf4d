"""Contractions: out[.., m, n] = sum over k of a[.., m, k] * b[.., k, n]."""

from __future__ import annotations

from openspyre.artifact.extensions.description import Description, Tensor
from openspyre.backend.extensions.operands import block_lanes, nest_of
from openspyre.program.model import Contract
from openspyre.spec.errors import InternalError


def lower(description: Description) -> Contract:
    """Dims end in m, n, k; the first operand's sticks run along k, the result's along n, the second operand's along either."""
    last = len(description.dims) - 1
    second = description.inputs[1]
    if not isinstance(second, Tensor):
        raise InternalError(f"{description.row!r}: the second operand of a contraction is a tensor")
    along_k = second.lane_dim == last
    return Contract(
        *nest_of(description).head,
        k_extent=description.dims[last].size,
        k_lanes=block_lanes(description, last),
        b_row_stride=second.strides[last - 1 if along_k else last],
        b_along_k=along_k,
    )
