"""Waist 1: a bundle as frozen data. It is complete: every documented field of the files derives from it.

A description is one op without its addresses, so that equal ops share one; an execution gives it addresses and scalars.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from openspyre.spec.formats import STICK_BYTES, DataFormats
from openspyre.spec.layout import SpyreTensorLayout

FORMAT_VERSION = 1


class Role(StrEnum):
    """What a buffer is to the caller."""

    INPUT = "input"
    OUTPUT = "output"
    UPDATE = "update"
    CONSTANT = "constant"  # the bundle brings its values
    TEMP = "temp"


class Lanes(StrEnum):
    """How a tensor meets the vector lanes."""

    VECTOR = "vector"  # one dim of the op runs along its sticks
    SPLAT = "splat"  # one value per stick, in lane 0, serves all lanes
    VIEW = "view"  # not a stick access: elements are found through the host view alone


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in device memory; `place` is a temporary's first byte in the pool, `values` a constant's elements as the host stores them."""

    name: str
    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    role: Role
    layout: SpyreTensorLayout
    place: int | None = None
    values: bytes | None = None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number the launch supplies."""

    name: str
    dtype: str


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


@dataclass(frozen=True, slots=True)
class ScalarSlot:
    """An operand the launch supplies; executions name the scalar."""

    dtype: str


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


Operand = Tensor | ScalarSlot | Constant | Iota
Attribute = int | float | bool | str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """One op over its iteration space: a file `sdsc_<i>.json`."""

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
    def scalar_slots(self) -> tuple[ScalarSlot, ...]:
        return tuple(operand for operand in self.inputs if isinstance(operand, ScalarSlot))

    @property
    def cores(self) -> int:
        return prod(dim.split for dim in self.dims)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one tensor of an execution begins: a byte of a buffer."""

    buffer: str
    byte: int


@dataclass(frozen=True, slots=True)
class Execution:
    """A description at work: a place per tensor, a scalar's name per slot; `origin` is the user's line, if known."""

    name: str
    description: int
    places: tuple[Place, ...]
    scalars: tuple[str, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A whole program: `sdsc_*.json`, `bundle.mlir`, `manifest.json`. Buffers that are no temps are its arguments."""

    name: str
    buffers: tuple[Buffer, ...]
    descriptions: tuple[Description, ...]
    executions: tuple[Execution, ...]
    scalars: tuple[Scalar, ...] = ()
    pool_bytes: int = 0

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        return tuple(buffer for buffer in self.buffers if buffer.role is not Role.TEMP)

    @property
    def temps(self) -> tuple[Buffer, ...]:
        return tuple(buffer for buffer in self.buffers if buffer.role is Role.TEMP)
