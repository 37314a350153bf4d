"""Executes a bundle on the default card: every tensor of its manifest gets memory, the program its addresses."""

from typing import Any

from numpy.typing import NDArray

from openspyre.artifact.model import Buffer, Bundle, Role
from openspyre.backend.cache import ProgramCache
from openspyre.card import DeviceArray, _card, cards, programs
from openspyre.spec.environment import Settings
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.packing import elements_of


def execute(
    bundle: Bundle, arrays: dict[str, NDArray[Any]], scalars: dict[str, int | float]
) -> dict[str, NDArray[Any]]:
    """Runs a valid bundle on the default card; outputs and changed inputs by name."""
    settings = Settings.read()
    if settings.card == "null":
        raise InvalidArgument(
            "OPENSPYRE_CARD=null computes nothing, so there is nothing to write: unset it to run a bundle"
        )
    program = ProgramCache.of(settings).compiled(bundle)
    placed = {b.name: place(b, arrays.get(b.name) if b.values is None else _elements(b)) for b in bundle.arguments}
    loaded = programs.load(program)
    try:
        loaded.run({name: array.buffer for name, array in placed.items()}, scalars, cards.get().index)
    finally:
        loaded.unload()
    return {b.name: placed[b.name].numpy() for b in bundle.arguments if b.role in (Role.OUTPUT, Role.UPDATE)}


def _elements(constant: Buffer) -> NDArray[Any]:
    return elements_of(constant.values or b"", constant.size, constant.stride, constant.dtype)


def place(buffer: Buffer, array: NDArray[Any] | None) -> DeviceArray:
    """A tensor of the manifest on the card, with its elements if it is read."""
    layout = buffer.layout
    shape = _card.intern(
        buffer.size,
        buffer.stride,
        buffer.dtype,
        layout.device_size,
        layout.stride_map,
        int(layout.device_dtype),
        int(layout.element_arrangement),
    )
    card = cards.get()
    memory = card.allocate(shape.device_bytes)
    if array is not None:
        _card.copy_in(array, buffer.dtype, memory, shape)
    return DeviceArray(card, memory, buffer.size, buffer.dtype, layout, shape)
