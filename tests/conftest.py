"""Journeys through several rooms. Fallbacks are expected here and stay quiet unless a test asks for them."""

import gc
import os

import pytest
import torch

from openspyre import backend
from openspyre.artifact.bundle_check import check_bundle
from torch_spyre import _torch

os.environ.setdefault("TORCH_SPYRE_PROGRESS", "0")  # how busy the machine is decides what long work says


@pytest.fixture(autouse=True, scope="session")
def _every_bundle_is_valid():
    """What the compiler emits, anywhere in these tests, the verifier must accept."""
    compile_emitted = backend.compile_emitted

    def checked(emitted):
        assert check_bundle(emitted.bundle) == []
        return compile_emitted(emitted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "compile_emitted", checked)
        yield


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
    gc.collect()  # tracebacks of earlier tests hold tensors
    _torch.clear_eager_cache()  # plans hold their constants: the mask of an attention, say
    torch.spyre.synchronize()
    before = torch.spyre.memory_allocated()
    yield
    gc.collect()
    _torch.clear_eager_cache()
    torch.spyre.synchronize()
    assert torch.spyre.memory_allocated() == before
