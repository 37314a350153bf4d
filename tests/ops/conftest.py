"""Operators on the card: a fallback here is a failure, unless a test lists it; the compiler checks itself between passes."""

from functools import partial

import pytest
import torch

from openspyre.compiler import pipeline


@pytest.fixture(autouse=True)
def _no_fallback(_fresh_fallbacks, monkeypatch):
    torch.spyre.set_fallback_mode("error")
    monkeypatch.setattr(pipeline, "run", partial(pipeline.run, verify=True))
