"""What several tests of the device start from."""

import gc

import pytest
import torch


@pytest.fixture
def recorded():
    """Starts a recording, of a card that holds little else; it ends with the test."""
    gc.collect()
    torch.spyre.empty_cache()

    def start(*arguments, **options):
        torch.spyre.memory._record_memory_history(*arguments, clear_history=True, **options)

    yield start
    torch.spyre.memory._record_memory_history(None)
