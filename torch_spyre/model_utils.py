"""Moving whole models."""

import torch

from torch_spyre.constants import DEVICE_NAME


def load_model_to_spyre(model: torch.nn.Module, dtype: torch.dtype | None = torch.float16) -> torch.nn.Module:
    """Move a model to the current card, its floating-point tensors as `dtype` (None keeps them), and return it.

    Parameters stay the same objects and tied weights stay tied.
    """
    if dtype is not None:
        model = model.to(dtype)
    return model.to(DEVICE_NAME)
