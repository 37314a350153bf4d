"""Journeys through several rooms. Fallbacks are expected here and stay quiet unless a test asks for them."""

import gc

import pytest
import torch

from openspyre import backend
from openspyre.artifact import check
from openspyre.backend import cache
from torch_spyre import _torch


@pytest.fixture(autouse=True, scope="session")
def _every_bundle_is_valid():
    """What the compiler emits, anywhere in these tests, the verifier must accept."""
    compile_bundle = backend.compile_bundle

    def checked(bundle):
        assert check(bundle) == []
        return compile_bundle(bundle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "compile_bundle", checked)
        patch.setattr(cache, "compile_bundle", checked)
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
