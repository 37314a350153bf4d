"""Journeys through several rooms. Fallbacks are expected here and stay quiet unless a test asks for them."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _fresh_fallbacks():
    torch.spyre.reset_fallback_stats()
    torch.spyre.set_fallback_mode("silent")
    torch.spyre.set_downcast_warning(False)
    yield
    torch.spyre.synchronize()


@pytest.fixture
def no_leak():
    """The test must give back all device memory it takes."""
    torch.spyre.synchronize()
    before = torch.spyre.memory_allocated()
    yield
    torch.spyre.synchronize()
    assert torch.spyre.memory_allocated() == before
