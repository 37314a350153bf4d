"""The DMA descriptor (DataConversionInfo): how one copy between host and card moves and converts its elements.

The card's DMA works from layouts; this is the same copy as inspectable data, in the documented form. All arrays are
innermost first and count elements.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from openspyre.spec.addressing import Addressing, Digit, Group, row_major
from openspyre.spec.errors import InvalidLayout
from openspyre.spec.formats import DataFormats, require_supported
from openspyre.spec.layout import SpyreTensorLayout

Integers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StrideInfo:
    """One nest of loops of a copy."""

    size: tuple[int, ...]
    stride_src: tuple[int, ...]
    stride_dst: tuple[int, ...]
    offset_src: int = 0
    offset_dst: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "size_": list(self.size),
            "stride_src_": list(self.stride_src),
            "stride_dst_": list(self.stride_dst),
            "offset_src_": self.offset_src,
            "offset_dst_": self.offset_dst,
        }


@dataclass(frozen=True, slots=True)
class DataConversionInfo:
    """One copy: formats and shapes of both sides, and the loops that move every element once."""

    name: str
    is_host_to_device: bool
    format_src: DataFormats
    format_dst: DataFormats
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    stride_infos: tuple[StrideInfo, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "dci_dsName_": self.name,
            "isHostToSen_": self.is_host_to_device,
            "dataformat_src_": self.format_src.name,
            "dataformat_dst_": self.format_dst.name,
            "input_shape_": list(self.input_shape),
            "output_shape_": list(self.output_shape),
            "dcsi_": [info.to_json() for info in self.stride_infos],
        }

    def loops(self) -> tuple[tuple[Integers, Integers, Integers], ...]:
        """The simplified view of the documents, outermost first: ranges, device strides, host strides of each nest."""
        return tuple(
            (info.size[::-1], device[::-1], host[::-1])
            for info in self.stride_infos
            for host, device in [
                (info.stride_src, info.stride_dst) if self.is_host_to_device else (info.stride_dst, info.stride_src)
            ]
        )


@dataclass(frozen=True, slots=True)
class _Piece:
    """Ranges of some device dims, (dim, size) each, and the offsets at which they begin on both sides."""

    ranges: tuple[tuple[int, int], ...] = ()
    host_offset: int = 0
    device_offset: int = 0

    def __add__(self, other: "_Piece") -> "_Piece":
        return _Piece(
            self.ranges + other.ranges,
            self.host_offset + other.host_offset,
            self.device_offset + other.device_offset,
        )


def describe_transfer(
    layout: SpyreTensorLayout,
    dtype: object,
    host_size: Sequence[int],
    host_stride: Sequence[int] | None = None,
    *,
    to_device: bool = True,
    cpu_stride: Sequence[int] | None = None,
    cpu_offset: int = 0,
    name: str = "DCI-Tensor-0",
) -> DataConversionInfo:
    """The descriptor of a copy between a CPU tensor and a whole device buffer.

    `host_stride` are the strides the buffer's layout was made for (row-major by default), `cpu_stride` those of the CPU
    tensor (the same by default), `cpu_offset` its storage offset.
    """
    size = tuple(host_size)
    planned = row_major(size) if host_stride is None else tuple(host_stride)
    actual = planned if cpu_stride is None else tuple(cpu_stride)
    if len(actual) != len(size):
        raise InvalidLayout(f"cpu_stride {list(actual)} must have one entry per dim of {list(size)}")
    addressing = layout.addressing(size, planned)
    strides_host = _host_strides(layout, addressing, size, planned, actual)
    nests = _nests(layout, addressing, strides_host)
    infos = tuple(
        _stride_info(nest, strides_host, addressing.device_strides, cpu_offset, to_device=to_device) for nest in nests
    )
    host_format, host_shape = require_supported(dtype).host, size[::-1] or (1,)
    device_format, device_shape = layout.device_dtype, addressing.device_size[::-1]
    if to_device:
        return DataConversionInfo(name, True, host_format, device_format, host_shape, device_shape, infos)
    return DataConversionInfo(name, False, device_format, host_format, device_shape, host_shape, infos)


def _host_strides(
    layout: SpyreTensorLayout,
    addressing: Addressing,
    size: tuple[int, ...],
    planned: tuple[int, ...],
    actual: tuple[int, ...],
) -> list[int]:
    """The CPU tensor's stride along each device dim."""
    strides = [1 if stride == -1 else stride for stride in layout.stride_map]
    for group in addressing.groups:
        if prod(size[dim] for dim in group.host_dims) != group.extent:
            raise InvalidLayout(
                f"Invalid tiling for dimension {group.host_dims[-1]}: {layout} tiles over gaps or overlaps between the "
                f"elements of size {list(size)}, strides {list(planned)}; no descriptor moves just the elements"
            )
        unit = actual[group.host_dims[-1]]
        for dim in group.host_dims:
            if actual[dim] * group.base_stride != planned[dim] * unit:
                raise InvalidLayout(
                    f"Invalid tiling for dimension {dim}: {layout} tiles the dims {list(group.host_dims)} of "
                    f"{list(size)} together, which the strides {list(actual)} of the CPU tensor do not allow; "
                    "make it contiguous first"
                )
        for digit in group.digits:
            strides[digit.device_dim] = digit.step * unit
    return strides


def _nests(layout: SpyreTensorLayout, addressing: Addressing, strides_host: list[int]) -> list[_Piece]:
    """Base nest first; each remainder then repeats all nests so far with its own ranges."""
    if not addressing.host_elements:
        return []
    nests = [_Piece(tuple((dim, layout.device_size[dim]) for dim in addressing.replicas))]
    for group in sorted(addressing.groups, key=lambda group: group.host_dims):
        base, *remainders = _pieces(group, strides_host)
        nests = [nest + base for nest in nests] + [nest + piece for piece in remainders for nest in nests]
    return nests


def _pieces(group: Group, strides_host: list[int]) -> list[_Piece]:
    """Boxes of digits that together are exactly the coordinates 0..extent-1."""

    def cover(extent: int, digits: tuple[Digit, ...]) -> Iterator[_Piece]:
        if not digits:
            yield _Piece()
            return
        digit, *rest = digits
        whole, remainder = divmod(extent, digit.step)
        if whole:
            here = _Piece(((digit.device_dim, whole),))
            yield from (here + inner for inner in cover(digit.step, tuple(rest)))
        if remainder:
            start = _Piece((), whole * strides_host[digit.device_dim], whole * digit.device_stride)
            yield from (start + inner for inner in cover(remainder, tuple(rest)))

    return list(cover(group.extent, group.digits))


def _stride_info(
    nest: _Piece, strides_host: list[int], strides_device: tuple[int, ...], cpu_offset: int, *, to_device: bool
) -> StrideInfo:
    ranges = dict(nest.ranges)
    size = tuple(ranges.get(dim, 1) for dim in range(len(strides_device)))[::-1]
    host = tuple(strides_host)[::-1], cpu_offset + nest.host_offset
    device = strides_device[::-1], nest.device_offset
    source, target = (host, device) if to_device else (device, host)
    return StrideInfo(size, source[0], target[0], source[1], target[1])
