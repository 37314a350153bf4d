"""`SpyreTensorLayout`: how a tensor lies in the card's memory, tiled into 128-byte sticks.

Device memory is row-major over `device_size`; `stride_map` gives each device dim its host stride, so that the host
offset of an element is the dot product of its device coordinates with the stride map.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, Never, final, overload

from openspyre.spec.addressing import Addressing, address, row_major
from openspyre.spec.errors import InvalidLayout, UnsupportedFormat, UnsupportedRank
from openspyre.spec.formats import STICK_BYTES, DataFormats, ElementArrangement, require_supported

MAX_RANK = 6
_PICKLE_VERSION = 3
_STANDARD = ElementArrangement.STANDARD

_EXPLICIT = ("device_size", "stride_map", "device_dtype", "element_arrangement")
_STRIDED = ("host_size", "host_strides", "dtype", "dim_order", "element_arrangement")
_DENSE = ("host_size", "dtype", "dim_order", "element_arrangement")


@final
class SpyreTensorLayout:
    """Immutable. Made from a host shape by the tiling rule, or from explicit device sizes and strides."""

    __slots__ = ("_device_dtype", "_device_size", "_element_arrangement", "_hash", "_stride_map")
    _device_size: tuple[int, ...]
    _stride_map: tuple[int, ...]
    _device_dtype: DataFormats
    _element_arrangement: ElementArrangement
    _hash: int

    @overload
    def __init__(self, host_size: Sequence[int], dtype: object) -> None: ...
    @overload
    def __init__(
        self,
        host_size: Sequence[int],
        dtype: object,
        dim_order: Sequence[int],
        element_arrangement: ElementArrangement = _STANDARD,
    ) -> None: ...
    @overload
    def __init__(
        self,
        host_size: Sequence[int],
        host_strides: Sequence[int],
        dtype: object,
        dim_order: Sequence[int],
        element_arrangement: ElementArrangement = _STANDARD,
    ) -> None: ...
    @overload
    def __init__(
        self,
        device_size: Sequence[int],
        stride_map: Sequence[int],
        device_dtype: DataFormats,
        element_arrangement: ElementArrangement = _STANDARD,
    ) -> None: ...
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = _name_arguments(args, kwargs)
        arrangement = given.pop("element_arrangement", _STANDARD)
        if "device_size" in given:
            device_size = _integers("device_size", given["device_size"])
            stride_map = _integers("stride_map", given["stride_map"])
            device_format = given["device_dtype"]
            if not isinstance(device_format, DataFormats) or not device_format.bits:
                raise UnsupportedFormat(f"device_dtype must be a valid DataFormats, not {device_format!r}")
            _check_explicit(device_size, stride_map, device_format)
        else:
            host_size = _integers("host_size", given["host_size"])
            strides = _integers("host_strides", given.get("host_strides", row_major(host_size)))
            order = _integers("dim_order", given.get("dim_order", range(len(host_size))))
            device_format = require_supported(given["dtype"]).device
            device_size, stride_map = tile(host_size, strides, device_format.elems_per_stick(), order)
        if not isinstance(arrangement, ElementArrangement):
            raise InvalidLayout(f"element_arrangement must be an ElementArrangement, not {arrangement!r}")
        for slot, value in zip(
            ("_device_size", "_stride_map", "_device_dtype", "_element_arrangement"),
            (device_size, stride_map, device_format, arrangement),
            strict=True,
        ):
            object.__setattr__(self, slot, value)
        object.__setattr__(self, "_hash", hash(self._key()))  # the compiler looks layouts up all the time

    @property
    def device_size(self) -> list[int]:
        """Sizes of the device dims, the stick last."""
        return list(self._device_size)

    @property
    def stride_map(self) -> list[int]:
        """Host stride of each device dim; -1: no host dim, 0: replicated."""
        return list(self._stride_map)

    @property
    def device_dtype(self) -> DataFormats:
        return self._device_dtype

    @property
    def element_arrangement(self) -> ElementArrangement:
        return self._element_arrangement

    @property
    def device_bytes(self) -> int:
        return STICK_BYTES * prod(self._device_size[:-1])

    def elems_per_stick(self) -> int:
        return self._device_dtype.elems_per_stick()

    def with_element_arrangement(self, element_arrangement: ElementArrangement) -> "SpyreTensorLayout":
        return SpyreTensorLayout(self.device_size, self.stride_map, self._device_dtype, element_arrangement)

    def addressing(self, host_size: Sequence[int], host_stride: Sequence[int] | None = None) -> Addressing:
        """Where each element of a host shape lies; InvalidLayout if one has no place here."""
        if self._device_size[-1] != self.elems_per_stick():
            raise InvalidLayout(f"{self} holds no tensor: its last dim, the stick, must be {self.elems_per_stick()}")
        size = _integers("host_size", host_size)
        stride = row_major(size) if host_stride is None else _integers("host_stride", host_stride)
        return address(self._device_size, self._stride_map, size, stride)

    def decode(
        self, host_offset: int, host_size: Sequence[int], host_stride: Sequence[int] | None = None
    ) -> tuple[int, ...]:
        """Device coordinates of the element at a host offset."""
        return self.addressing(host_size, host_stride).coordinates(host_offset)

    def device_offset(
        self, host_offset: int, host_size: Sequence[int], host_stride: Sequence[int] | None = None
    ) -> int:
        """Index in the device buffer, in elements, of the element at a host offset."""
        return self.addressing(host_size, host_stride).device_offset(host_offset)

    def _key(self) -> tuple[object, ...]:
        return self._device_size, self._stride_map, self._device_dtype, self._element_arrangement

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self._key() == other._key() if isinstance(other, SpyreTensorLayout) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        arrangement = self._element_arrangement
        extra = "" if arrangement is _STANDARD else f", element_arrangement={arrangement!r}"
        return (
            f"SpyreTensorLayout(device_size={self.device_size}, stride_map ={self.stride_map}, "
            f"device_dtype={self._device_dtype!r}{extra})"
        )

    __str__ = __repr__

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"a SpyreTensorLayout cannot be changed ({name!r}); make a new one")

    def __delattr__(self, name: str) -> Never:
        raise AttributeError(f"a SpyreTensorLayout cannot be changed ({name!r}); make a new one")

    def __reduce__(self) -> tuple[Any, tuple[object]]:
        state = (_PICKLE_VERSION, self.device_size, self.stride_map, self._device_dtype, self._element_arrangement)
        return rebuild_layout, (state,)


def rebuild_layout(state: tuple[Any, ...]) -> SpyreTensorLayout:
    """Unpickles versions 1 (with a dim_map nobody needs), 2 and 3."""
    lengths = {1: 5, 2: 4, 3: 5}
    version = state[0] if state else None
    if version not in lengths:
        raise InvalidLayout(f"Unsupported SpyreTensorLayout pickle version: {version}")
    if len(state) != lengths[version]:
        raise InvalidLayout(f"Invalid SpyreTensorLayout pickle v{version}: wrong tuple size")
    arrangement = _STANDARD
    match version:
        case 1:
            _, device_size, _, stride_map, device_format = state
        case 2:
            _, device_size, stride_map, device_format = state
        case _:
            _, device_size, stride_map, device_format, arrangement = state
    return SpyreTensorLayout(device_size, stride_map, DataFormats(device_format), ElementArrangement(arrangement))


def tile(
    host_size: tuple[int, ...], host_stride: tuple[int, ...], elems_per_stick: int, dim_order: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tiling rule: device_size and stride_map. The last of `dim_order` is the stick; -1: one value each."""
    _check_order(host_size, host_stride, dim_order)
    if not dim_order:
        return (1, elems_per_stick), (-1, -1)
    first, stick = dim_order[0], dim_order[-1]
    dim_map = (stick, stick) if len(dim_order) == 1 else (*dim_order[1:], first, stick)
    device_size: list[int] = []
    stride_map: list[int] = []
    for position, dim in enumerate(dim_map):
        is_stick, last = dim == stick, position == len(dim_map) - 1
        if last:
            device_size.append(elems_per_stick)
        elif is_stick:
            device_size.append(1 if dim == -1 else -(-host_size[dim] // elems_per_stick))
        else:
            device_size.append(host_size[dim])
        if dim == -1 or host_size[dim] == 1:
            stride_map.append(-1)
        else:
            stride_map.append(host_stride[dim] * (elems_per_stick if is_stick and not last else 1))
    return tuple(device_size), tuple(stride_map)


def _check_order(host_size: tuple[int, ...], host_stride: tuple[int, ...], dim_order: tuple[int, ...]) -> None:
    rank = len(host_size)
    if len(dim_order) > MAX_RANK:
        raise UnsupportedRank(len(dim_order), MAX_RANK)
    sparse = len(dim_order) == rank + 1 and dim_order[-1] == -1
    if sorted(dim_order[:-1] if sparse else dim_order) != list(range(rank)):
        raise InvalidLayout(
            f"Incompatible host_size and dim_order: dim_order {list(dim_order)} must name each dim of host_size "
            f"{list(host_size)} once, optionally followed by -1 (one value per stick)"
        )
    if len(host_stride) != rank or min((*host_size, *host_stride, 0)) < 0:
        raise InvalidLayout(
            f"host_size {list(host_size)} and host_strides {list(host_stride)} must both have one non-negative entry "
            "per dimension"
        )


def _check_explicit(device_size: tuple[int, ...], stride_map: tuple[int, ...], device_format: DataFormats) -> None:
    described = f"device_size {list(device_size)}, stride_map {list(stride_map)}"
    if not device_size or len(device_size) != len(stride_map):
        raise InvalidLayout(f"{described}: both need the same number of entries, at least one")
    if min(device_size) < 0 or min(stride_map) < -1:
        raise InvalidLayout(f"{described}: sizes cannot be negative, strides not below -1")
    if device_size[-1] > device_format.elems_per_stick():
        raise InvalidLayout(
            f"{described}: the last dim is the stick, and a stick holds {device_format.elems_per_stick()} elements of "
            f"{device_format}"
        )


def _name_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Finds out which constructor was meant, by keyword names and by the kind of the positional arguments."""
    names: tuple[str, ...]
    if kwargs.keys() & {"device_size", "stride_map", "device_dtype"} or (
        len(args) > 2 and isinstance(args[2], DataFormats)
    ):
        names, needed = _EXPLICIT, {"device_size", "stride_map", "device_dtype"}
    elif "host_strides" in kwargs or (len(args) > 1 and isinstance(args[1], (list, tuple))):
        names, needed = _STRIDED, {"host_size", "host_strides", "dtype", "dim_order"}
    else:
        names, needed = _DENSE, {"host_size", "dtype"}
    given = dict(zip(names, args, strict=False)) | kwargs
    wrong = kwargs.keys() & set(names[: len(args)]) or kwargs.keys() - set(names) or needed - given.keys()
    if len(args) > len(names) or wrong:
        raise TypeError(
            "SpyreTensorLayout takes (host_size, dtype[, dim_order]), (host_size, host_strides, dtype, dim_order) or "
            "(device_size, stride_map, device_dtype), each with an optional element_arrangement"
            + (f"; missing, unknown or given twice: {', '.join(sorted(wrong))}" if wrong else "")
        )
    return given


def _integers(name: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple(value.__index__() for value in values)
    except (TypeError, AttributeError):
        raise InvalidLayout(f"{name} must be a sequence of integers, not {values!r}") from None
