"""Moving whole models."""

import itertools

import torch

from openspyre.spec.errors import InvalidArgument
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device import weights


def load_model_to_spyre(model: torch.nn.Module, dtype: torch.dtype | None = None) -> torch.nn.Module:
    """Move a model to the current card, its floating-point tensors as `dtype` if one is given, and return it.

    Parameters stay the same objects and tied weights stay tied. Linear weights lie with out_features on the stick, tables of
    embeddings with the vocabulary outermost.
    """
    _refuse_complex(model, dtype)
    if dtype is not None:
        model = model.to(dtype)
    model = model.to(DEVICE_NAME)
    weights.place_embedding_weights(model)
    return model


def patch_module_to_for_spyre() -> None:
    """Let `module.to("spyre")` lay tables of embeddings as load_model_to_spyre does. (Linear weights it always lays.)"""
    weights.embeddings_too = True


def _refuse_complex(model: torch.nn.Module, dtype: torch.dtype | None) -> None:
    named = itertools.chain(model.named_parameters(), model.named_buffers())
    found = [f"{name} ({tensor.dtype})" for name, tensor in named if tensor.is_complex()]
    if dtype is not None and dtype.is_complex:
        found.append(f"dtype={dtype}")
    if found:
        raise InvalidArgument(f"the card has no complex numbers, the model has {', '.join(found)}: keep it on the CPU")
