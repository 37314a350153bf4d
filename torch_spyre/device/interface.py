"""The device as Dynamo and Inductor ask for it. Importing this module loads Dynamo, so nothing else here imports it."""

from __future__ import annotations

from typing import Any

import torch

from torch_spyre.device import api, properties
from torch_spyre.device.properties import SpyreDeviceProperties
from torch_spyre.torch_seams import dynamo_device_interface

__all__ = ["SpyreDeviceProperties", "SpyreInterface"]


class SpyreInterface(dynamo_device_interface()):  # type: ignore[misc]
    """Static questions about the device; every answer is torch.spyre's."""

    Event = api.Event
    Stream = api.Stream
    device = api.device

    class Worker:
        """What a compile worker may ask without starting a card."""

        @staticmethod
        def set_device(device: int) -> None:
            api.set_device(device)

        @staticmethod
        def current_device() -> int:
            return api.current_device()

        @staticmethod
        def get_device_properties(device: Any = None) -> SpyreDeviceProperties:
            return properties.get_device_properties(device)

    current_device = staticmethod(api.current_device)
    set_device = staticmethod(api.set_device)
    device_count = staticmethod(api.device_count)
    is_available = staticmethod(api.is_available)
    current_stream = staticmethod(api.current_stream)
    set_stream = staticmethod(api.set_stream)
    stream = staticmethod(api.stream)
    synchronize = staticmethod(api.synchronize)
    get_device_properties = staticmethod(properties.get_device_properties)
    memory_allocated = staticmethod(api.memory_allocated)

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        return "spyre1"

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return api.is_bf16_supported()

    @classmethod
    def is_dtype_supported(cls, dtype: torch.dtype, including_emulation: bool = False) -> bool:
        return dtype in torch.accelerator.get_device_capability()["supported_dtypes"]

    @staticmethod
    def exchange_device(device: int) -> int:
        """-1 changes nothing and comes back, as torch's other devices have it."""
        if device < 0:
            return -1
        before = api.current_device()
        api.set_device(device)
        return before

    maybe_exchange_device = exchange_device
