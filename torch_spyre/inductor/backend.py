"""Registration with Inductor: when the device's code generators are first asked for, and not before."""

from __future__ import annotations

import secrets
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.interface import SpyreInterface
from torch_spyre.inductor.border import (
    CustomGraphModulePass,
    register_backend_for_device,
    register_device_op_overrides,
    register_interface_for_device,
)
from torch_spyre.inductor.wrapper import SpyreOpOverrides, SpyreScheduling, SpyreWrapper

_PROCESS = secrets.token_hex(16)


class OwnGraphCacheKey(CustomGraphModulePass):  # type: ignore[misc, valid-type]
    """Imported programs live in this process only, so Inductor's cache on disk must not serve them to another one."""

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        """The graph stays as it is."""

    def uuid(self) -> Any:
        return _PROCESS


def register() -> None:
    register_interface_for_device(DEVICE_NAME, SpyreInterface)
    register_device_op_overrides(DEVICE_NAME, SpyreOpOverrides())
    register_backend_for_device(
        DEVICE_NAME, SpyreScheduling, SpyreWrapper, SpyreWrapper, device_custom_pass=OwnGraphCacheKey()
    )
