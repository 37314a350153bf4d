"""How far a model on the card is from the CPU in float32, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .families import Family

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BOUND = 0.03  # relative L2 error of every row


def distance(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The worst row's relative error."""
    found, expected = found.detach().float().cpu(), expected.detach().float()
    assert found.shape == expected.shape and bool(found.isfinite().all())
    return ((found - expected).norm(dim=-1) / expected.norm(dim=-1)).max().item()


def on_card(family: Family) -> PreTrainedModel:
    return family.build(torch.float16).to("spyre")


def error(family: Family, model: PreTrainedModel) -> float:
    """Of a model on the card."""
    with torch.no_grad():
        expected = family.outputs(family.build(), family.inputs())
        return distance(family.outputs(model, family.inputs_on_card()), expected)
