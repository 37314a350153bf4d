"""Operators on the card: a fallback here is a failure, unless a test lists it."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _no_fallback(_fresh_fallbacks):
    torch.spyre.set_fallback_mode("error")
