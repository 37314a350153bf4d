"""Compilations are counted with their reason, and logged."""

from __future__ import annotations

import logging

import pytest
import torch

from torch_spyre import _torch

OPERATOR = "aten::expm1"


@pytest.fixture(autouse=True)
def fresh() -> None:
    _torch.clear_eager_cache()
    torch.spyre.reset_compilation_stats()


def _reasons() -> dict[str, int]:
    return torch.spyre.compilation_stats().get(OPERATOR, {})


def test_the_reason_is_what_changed(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("spyre").propagate = True
    torch.expm1(torch.rand(4, 70).to("spyre"))
    known = sum(_reasons().values())
    with caplog.at_level(logging.INFO, "spyre.compiler"):
        torch.expm1(torch.rand(4, 71).to("spyre"))
    assert sum(_reasons().values()) == known + 1 and _reasons()["sizes"] == 1
    assert any("sizes (4, 71), before (4, 70)" in record.getMessage() for record in caplog.records)
    torch.expm1(torch.rand(4, 71).to("spyre"))
    assert sum(_reasons().values()) == known + 1
    torch.expm1(torch.rand(71, 4).to("spyre").t())
    assert _reasons()["strides"] == 1
    before = _reasons().get("dtypes", 0)  # of the first call, if somebody else has called it with another dtype
    torch.expm1(torch.rand(4, 71).half().to("spyre"))
    assert _reasons()["dtypes"] == before + 1
    _torch.clear_eager_cache()
    torch.expm1(torch.rand(4, 71).to("spyre"))
    assert _reasons()["forgotten"] == 1


def test_counts_begin_anew() -> None:
    torch.expm1(torch.rand(4, 72).to("spyre"))
    torch.spyre.reset_compilation_stats()
    assert torch.spyre.compilation_stats() == {}
