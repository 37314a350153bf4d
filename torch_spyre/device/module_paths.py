"""Which torch.nn.Module is at work in a stack, by its path from the outermost one: `Model.layers.3.mlp`."""

from __future__ import annotations

from types import FrameType
from weakref import WeakKeyDictionary

import torch

from torch_spyre import torch_seams

CALL = torch_seams.module_call_code()
_paths: WeakKeyDictionary[torch.nn.Module, str] = WeakKeyDictionary()


def path_of(frame: FrameType) -> str:
    """The path of the module that a frame of CALL calls."""
    module: torch.nn.Module = frame.f_locals["self"]
    if module not in _paths:
        outermost = module
        outer = frame.f_back
        while outer is not None:
            if outer.f_code is CALL:
                outermost = outer.f_locals["self"]
            outer = outer.f_back
        for path, child in outermost.named_modules(prefix=type(outermost).__name__):
            _paths.setdefault(child, path)
    return _paths.setdefault(module, type(module).__name__)


def forget() -> None:
    """Modules may have been put together anew."""
    _paths.clear()
