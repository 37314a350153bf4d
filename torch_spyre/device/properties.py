"""What a card is, in the form of torch.cuda's device properties."""

from __future__ import annotations

from dataclasses import dataclass

from openspyre.spec.machine import SPYRE
from torch_spyre.device.memory import mem_get_info
from torch_spyre.device.streams import DeviceLike, device_index


@dataclass(frozen=True, slots=True)
class SpyreDeviceProperties:
    """A card's fixed facts. `multi_processor_count` is torch's word for cores."""

    name: str
    index: int
    total_memory: int
    multi_processor_count: int
    scratchpad_bytes_per_core: int
    stick_bytes: int
    major: int = 1
    minor: int = 0
    warp_size: int = 64
    software: bool = True


def get_device_properties(device: DeviceLike = None) -> SpyreDeviceProperties:
    """The facts of one card."""
    index = device_index(device)
    return SpyreDeviceProperties(
        name=get_device_name(index),
        index=index,
        total_memory=mem_get_info(index)[1],
        multi_processor_count=SPYRE.cores,
        scratchpad_bytes_per_core=SPYRE.scratchpad_bytes_per_core,
        stick_bytes=SPYRE.stick_bytes,
    )


def get_device_name(device: DeviceLike = None) -> str:
    """The name of a card."""
    device_index(device)
    return "Spyre (software card)"


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """(major, minor) of the card's architecture, as torch.cuda gives it; torch.accelerator.get_device_capability lists dtypes."""
    properties = get_device_properties(device)
    return properties.major, properties.minor
