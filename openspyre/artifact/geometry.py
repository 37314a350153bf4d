"""From the stated facts of an op to the words of a SuperDSC: labels, layout orders, roles, scales, gaps, core slices.

The rules are those of the public documents; `docs/bundle.md` tells them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

from openspyre.artifact.model import Description, Dim, Lanes, Tensor
from openspyre.spec.ops import TABLE, Indexing, Kind

_LABELS = ("mb", "x", "y", "i", "j", "ki", "kj")
_MATMUL_LABELS = ("ki", "kj", "y", "x", "mb", "out", "in")
_ROLES = ("OUTPUT", "KERNEL", "INPUT")
_MATMUL_ROLES = ("INPUT", "KERNEL", "OUTPUT")
INDEX_ROLE = "KERNEL_IDX"


@dataclass(frozen=True, slots=True)
class Axis:
    """A labelled dimension; `size` is padded to whole blocks if lanes run along it."""

    label: str
    size: int
    unpadded: int
    split: int

    @property
    def per_core(self) -> int:
        return self.size // self.split


@dataclass(frozen=True, slots=True)
class TensorGeometry:
    """One tensor in labels. Scale 1: a dim it walks; -1: one it lacks; -2: the op's stick, if it lacks that."""

    role: str
    order: tuple[str, ...]
    stick: str
    scales: dict[str, int]
    gaps: dict[str, int]
    core_bytes: tuple[int, ...]  # byte of each core's slice, from the tensor's first


@dataclass(frozen=True, slots=True)
class Geometry:
    axes: tuple[Axis, ...]
    tensors: tuple[TensorGeometry, ...]
    role_orders: dict[str, TensorGeometry]  # the first tensor of each role
    slices: tuple[dict[str, int], ...]  # per core: label -> slice

    @property
    def cores(self) -> int:
        return len(self.slices)

    @property
    def keeps_stick(self) -> bool:
        """Whether the output has the op's stick dim."""
        return -2 not in self.tensors[-1].scales.values()


def is_contraction(description: Description) -> bool:
    return TABLE[description.row].kind is Kind.CONTRACTION


def is_reduction(description: Description) -> bool:
    return TABLE[description.row].kind is Kind.REDUCTION


def index_tensor(description: Description) -> int | None:
    """Number of the tensor that holds indices, if the op has one."""
    return 1 if TABLE[description.row].kind is Kind.INDEXED else None


def indirect_tensor(description: Description) -> int | None:
    """Number of the tensor whose last dim is found through the index."""
    row = TABLE[description.row]
    if row.kind is not Kind.INDEXED:
        return None
    return 0 if row.indexing is Indexing.READ else len(description.tensors) - 1


def lane_block(tensors: tuple[Tensor, ...]) -> int:
    """Lanes of one block: the longest stick of all operands that run along the lanes."""
    vectors = [t.elems_per_stick for t in tensors if t.lanes is Lanes.VECTOR]
    return max(vectors or [t.elems_per_stick for t in tensors] or [64])


def stick_dim(description: Description) -> int | None:
    """The dim along the sticks of the tensor that leads: the first of a reduction, otherwise the output."""
    tensors = description.tensors
    leading = tensors[0] if is_reduction(description) else tensors[-1]
    if leading.lane_dim is not None:
        return leading.lane_dim
    return next((tensor.lane_dim for tensor in tensors if tensor.lane_dim is not None), None)


def blocks(description: Description, index: int) -> int:
    """Positions of a dim: blocks of lanes where they run along it, else its size."""
    tensors = tuple(tensor for tensor in description.tensors if tensor.lane_dim == index)
    return -(-description.dims[index].size // lane_block(tensors)) if tensors else description.dims[index].size


def labels(description: Description) -> tuple[str, ...]:
    count = len(description.dims)
    if is_contraction(description):
        return (*(f"d{i}" for i in range(count - len(_MATMUL_LABELS))), *_MATMUL_LABELS[-count:])
    leading = (*_LABELS, *(f"d{i}" for i in range(count)))[: max(count - 1, 0)]
    return (*leading, "out") if count else ()


def core_slices(dims: tuple[Dim, ...]) -> tuple[tuple[int, ...], ...]:
    """Per core the slice of every dim: mixed radix, the first dim fastest."""
    found = []
    for core in range(prod(dim.split for dim in dims)):
        slices = []
        for dim in dims:
            core, digit = divmod(core, dim.split)
            slices.append(digit)
        found.append(tuple(slices))
    return tuple(found)


def geometry(description: Description) -> Geometry:
    axes = _axes(description)
    stick = stick_dim(description)
    op_stick = axes[-1].label if stick is None else axes[stick].label
    slices = core_slices(description.dims)
    names = iter(_MATMUL_ROLES if is_contraction(description) else _ROLES)
    roles: dict[tuple[tuple[str, ...], str, int], str] = {}
    tensors = []
    for number, tensor in enumerate(description.tensors):
        own_stick = op_stick if tensor.lane_dim is None else axes[tensor.lane_dim].label
        order = _order(tensor, axes, op_stick, full=not is_contraction(description))
        key = (tuple(sorted(order)), own_stick, tensor.elems_per_stick)
        if key not in roles:
            roles[key] = next(names, INDEX_ROLE)
        role = roles[key]
        if (indices := index_tensor(description)) is not None:
            role = INDEX_ROLE if number == indices else _ROLES[0]
        tensors.append(
            TensorGeometry(
                role=role,
                order=order,
                stick=own_stick,
                scales={label: _scale(label, tensor, axes, op_stick) for label in order},
                gaps=_gaps(tensor, axes),
                core_bytes=tuple(_core_byte(tensor, description, at) for at in slices),
            )
        )
    first: dict[str, TensorGeometry] = {}
    for found in tensors:
        first.setdefault(found.role, found)
    named = tuple({axis.label: digit for axis, digit in zip(axes, (*at, 0), strict=False)} for at in slices)
    return Geometry(axes, tuple(tensors), first, named)


def _axes(description: Description) -> tuple[Axis, ...]:
    names = labels(description)
    axes = []
    for index, (name, dim) in enumerate(zip(names, description.dims, strict=True)):
        lanes = lane_block(tuple(t for t in description.tensors if t.lane_dim == index))
        runs = any(tensor.lane_dim == index for tensor in description.tensors)
        axes.append(Axis(name, -(-dim.size // lanes) * lanes if runs else dim.size, dim.size, dim.split))
    if stick_dim(description) is None:
        lanes = lane_block(description.tensors)
        spare = (*_LABELS, "d0")[min(len(names), len(_LABELS))]
        axes.append(Axis(spare, lanes, lanes, 1))
    return tuple(axes)


def _steps(tensor: Tensor) -> tuple[int, ...]:
    """What tells one dim's place from another's: device strides, or host strides where there are none."""
    return tensor.view.strides if tensor.lanes is Lanes.VIEW and tensor.view is not None else tensor.strides


def _walks(tensor: Tensor, index: int) -> bool:
    steps = _steps(tensor)
    return index == tensor.lane_dim or (index < len(steps) and steps[index] != 0)


def _inside_out(tensor: Tensor) -> list[int]:
    """Dims the tensor walks, innermost first; a lone stick's tile index is the outermost."""
    steps = _steps(tensor)
    walked = [index for index in range(len(steps)) if _walks(tensor, index)]
    return sorted(walked, key=lambda index: abs(steps[index]) or inf)


def _order(tensor: Tensor, axes: tuple[Axis, ...], op_stick: str, *, full: bool) -> tuple[str, ...]:
    order = [axes[index].label for index in _inside_out(tensor)]
    if tensor.lane_dim is None:
        order.append(op_stick)
    if full:
        order += [axis.label for axis in axes]
    return tuple(dict.fromkeys(order))


def _scale(label: str, tensor: Tensor, axes: tuple[Axis, ...], op_stick: str) -> int:
    index = next(i for i, axis in enumerate(axes) if axis.label == label)
    if _walks(tensor, index):
        return 1
    return -2 if tensor.lane_dim is None and label == op_stick else -1


def _gaps(tensor: Tensor, axes: tuple[Axis, ...]) -> dict[str, int]:
    """Elements behind what the op walks, per dim; a dim's room is what the next outer one steps over."""
    if tensor.lanes is Lanes.VIEW:
        return {}
    elements = tensor.layout.device_bytes // tensor.bytes_per_element
    walked = _inside_out(tensor)
    reaches = [*(abs(tensor.strides[index]) for index in walked), elements][1:]
    gaps = {}
    for index, reach in zip(walked, reaches, strict=True):
        step = abs(tensor.strides[index])
        room = (reach or elements) // step if step else 1
        room *= tensor.elems_per_stick if index == tensor.lane_dim else 1
        if room > axes[index].size:
            gaps[axes[index].label] = room - axes[index].size
    return gaps


def _core_byte(tensor: Tensor, description: Description, slices: tuple[int, ...]) -> int:
    elements = 0
    for index, (digit, stride, dim) in enumerate(zip(slices, tensor.strides, description.dims, strict=True)):
        steps = blocks(description, index) // dim.split
        if index == tensor.lane_dim:
            together = tuple(t for t in description.tensors if t.lane_dim == index)
            steps *= lane_block(together) // tensor.elems_per_stick
        elif any(t.lane_dim == index for t in description.tensors):
            steps = steps * lane_block(tuple(t for t in description.tensors if t.lane_dim == index))
        elements += digit * steps * stride
    return elements * tensor.bytes_per_element
