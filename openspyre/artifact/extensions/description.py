"""What an op is that the hardware does not have: its row, its iteration space, and how every operand is walked. No addresses.

The record of an extension op in its SuperDSC, as frozen data.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from openspyre.spec.formats import STICK_BYTES, DataFormats
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE, Kind

RECORD_VERSION = 2


class Lanes(StrEnum):
    """How a tensor meets the vector lanes."""

    VECTOR = "vector"  # one dim of the op runs along its sticks
    SPLAT = "splat"  # one value per stick, in lane 0, serves all lanes
    VIEW = "view"  # not a stick access: elements are found through the host view alone


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension of the iteration space; a reduced one is absent from the outputs of a reduction or contraction."""

    name: str
    size: int
    split: int = 1
    reduced: bool = False


@dataclass(frozen=True, slots=True)
class HostView:
    """The same access in host coordinates of the whole buffer: what a relayout goes by."""

    buffer_dtype: str
    buffer_size: tuple[int, ...]
    buffer_stride: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand in memory. `strides` are device elements per step of each dim, per stick for the lane dim."""

    dtype: str
    layout: SpyreTensorLayout
    lanes: Lanes
    lane_dim: int | None
    strides: tuple[int, ...]
    view: HostView | None = None
    bits_as: DataFormats | None = None  # format its bits are read in, where that is not the layout's (D5)

    @property
    def format(self) -> DataFormats:
        return self.layout.device_dtype if self.bits_as is None else self.bits_as

    @property
    def elems_per_stick(self) -> int:
        return self.layout.elems_per_stick()

    @property
    def bytes_per_element(self) -> int:
        return STICK_BYTES // self.elems_per_stick


CONSTANT_DTYPES = ("float16", "bfloat16", "float32")


@dataclass(frozen=True, slots=True)
class Constant:
    """A number known now: the 32 bits of its register, rounded to the format of `dtype`."""

    bits: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Iota:
    """The integer `offset + sum(strides[d] * index[d])`, per element of every dim."""

    offset: int
    strides: tuple[int, ...]


Operand = Tensor | Constant | Iota
Attribute = int | float | bool | str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """One op over its iteration space. A number of the launch is a tensor of one stick."""

    row: str
    dims: tuple[Dim, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Tensor, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Inputs in order, outputs last."""
        return (*(operand for operand in self.inputs if isinstance(operand, Tensor)), *self.outputs)

    @property
    def cores(self) -> int:
        return prod(dim.split for dim in self.dims)


def lane_block(tensors: tuple[Tensor, ...]) -> int:
    """Lanes of one block: the longest stick of all operands that run along the lanes."""
    vectors = [t.elems_per_stick for t in tensors if t.lanes is Lanes.VECTOR]
    return max(vectors or [t.elems_per_stick for t in tensors] or [64])


def stick_dim(description: Description) -> int | None:
    """The dim along the sticks of the tensor that leads: the first of a reduction, otherwise the output."""
    tensors = description.tensors
    leading = tensors[0] if TABLE[description.row].kind is Kind.REDUCTION else tensors[-1]
    if leading.lane_dim is not None:
        return leading.lane_dim
    return next((tensor.lane_dim for tensor in tensors if tensor.lane_dim is not None), None)


def blocks(description: Description, index: int) -> int:
    """Positions of a dim: blocks of lanes where they run along it, else its size."""
    tensors = tuple(tensor for tensor in description.tensors if tensor.lane_dim == index)
    return -(-description.dims[index].size // lane_block(tensors)) if tensors else description.dims[index].size
