"""`torch.compile(f, backend="spyre")`: Inductor, with the device's part in it registered first and a word for graphs without it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.inductor import backend
from torch_spyre.inductor.border import compile_fx_module


class NotOnSpyreWarning(UserWarning):
    """A graph given to backend="spyre" has nothing on the device."""


def spyre(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None, **more: Any
) -> Callable[..., Any]:
    """A Dynamo backend; `options` are Inductor's own."""
    backend.register()
    tensors = [value for value in (*example_inputs, *module.parameters(), *module.buffers()) if _is_tensor(value)]
    if tensors and not any(tensor.device.type == DEVICE_NAME for tensor in tensors):
        where = ", ".join(sorted({str(tensor.device) for tensor in tensors}))
        warnings.warn(
            f'torch.compile(backend="{DEVICE_NAME}") was given a graph whose tensors are on {where}: it is compiled for that; '
            f'move model and inputs with .to("{DEVICE_NAME}")',
            NotOnSpyreWarning,
            stacklevel=2,
        )
    compiled: Callable[..., Any] = compile_fx_module.compile_fx(module, example_inputs, config_patches=options, **more)
    return compiled


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
