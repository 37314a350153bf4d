"""Compiled graphs: a fallback that no row lists is a failure, nothing comes from a cache, and the compiler checks itself."""

from functools import partial

import pytest
import torch

from openspyre import backend
from openspyre.backend.text_cache import TextCache
from openspyre.compiler import pipeline


@pytest.fixture(autouse=True)
def _fresh_compiler(_fresh_fallbacks, monkeypatch):
    torch.compiler.reset()
    torch.spyre.set_fallback_mode("error")
    monkeypatch.setattr(pipeline, "run", partial(pipeline.run, verify=True))
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


@pytest.fixture
def lowered(monkeypatch):
    """Every program as the passes leave it, nothing coming from the disk."""
    found = []
    run = pipeline.run

    def watched(*args, **options):
        found.append(run(*args, **options))
        return found[-1]

    monkeypatch.setattr(pipeline, "run", watched)
    monkeypatch.setattr(TextCache, "find", lambda *_: None)
    return found


@pytest.fixture
def bundles(monkeypatch):
    """Every bundle that is compiled, nothing coming from the disk."""
    found = []
    compile_emitted = backend.compile_emitted

    def watched(bundle):
        found.append(bundle)
        return compile_emitted(bundle)

    monkeypatch.setattr(backend, "compile_emitted", watched)
    monkeypatch.setattr(TextCache, "find", lambda *_: None)
    return found
