"""Moving a module and compiling it speak when they take long, and are silent when they do not or when told so."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
    import sys
    import torch
    from openspyre.spec import progress

    progress.PATIENCE_SECONDS = float(sys.argv[1])
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(200)]).half().to("spyre")
    if sys.argv[2] == "compiled":
        model = torch.compile(model[:4])
    with torch.no_grad():
        model(torch.ones(4, 256, dtype=torch.float16).to("spyre"))
"""


def _told(patience: float, how: str, **variables: str) -> str:
    environ = os.environ | {"TORCH_SPYRE_PROGRESS": "1", "OPENSPYRE_SANITIZE": "0"} | variables
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(SCRIPT), str(patience), how]
    done = subprocess.run(command, env=environ, stderr=subprocess.PIPE, text=True, check=True, timeout=300)
    return done.stderr


def test_moving_a_module_tells_how_far_it_is() -> None:
    begun, done = _told(0.001, "eager").splitlines()
    assert begun.startswith("[INFO] [spyre.progress] moving Sequential: ")
    assert "of 400 tensors" in begun or "re-tiling weights" in begun
    assert "moving Sequential: done after" in done


def test_compiling_tells_its_stages(tmp_path: object) -> None:
    told = _told(0.001, "compiled", OPENSPYRE_CACHE_DIR=str(tmp_path), TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert "compiling frame 0/0: tracing, 0 s so far" in told and "compiling frame 0/0: done after" in told
    assert "compiling graph0: " in told


@pytest.mark.parametrize(("patience", "asked"), [(2.0, "1"), (0.001, "0")])
def test_nothing_is_printed_of_short_work_nor_when_asked_not_to(patience: float, asked: str) -> None:
    assert _told(patience, "eager", TORCH_SPYRE_PROGRESS=asked) == ""
