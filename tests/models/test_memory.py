"""Memory while generating: weights, cache and 5 % on the card; on the host at most that and 600 MB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .packages import Unavailable

for needed in ("transformers", "gguf"):
    pytest.importorskip(needed, reason="pip install 'openspyre[models]' for the tests of whole models")

PROGRAM = """
import sys, torch
from pathlib import Path
from transformers import AutoModelForCausalLM

def resident():
    return next(int(line.split()[1]) << 10 for line in Path("/proc/self/status").open() if line.startswith("VmRSS"))

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float16, device_map="spyre").eval()
prompt = torch.tensor([[504, 3575, 282, 4649, 314]]).to("spyre")
most = 0

class Watch:
    def put(self, value):
        global most
        most = max(most, resident())

    def end(self):
        pass

options = {"cache_implementation": "static"} if sys.argv[2] == "static" else {}
made = model.generate(
    prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=32, min_new_tokens=32, do_sample=False,
    disable_compile=sys.argv[3] == "eager", streamer=Watch(), **options,
)
torch.spyre.synchronize()
config = model.config
weights = sum(parameter.numel() * 2 for parameter in model.parameters())
cache = 4 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * made.shape[1]
print(weights + cache, torch.spyre.max_memory_allocated(), most)
"""


@pytest.fixture(scope="module")
def checkpoint() -> Path:
    from . import smollm2

    try:
        return smollm2.checkpoint()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("how", ["dynamic eager", "static eager", "static compiled"])
def test_generating_takes_little_more_than_weights_and_cache(checkpoint: Path, how: str) -> None:
    environment = os.environ | {"OPENSPYRE_SANITIZE": "0", "TORCH_SPYRE_PROGRESS": "0"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(checkpoint), *how.split()],
        capture_output=True, text=True, timeout=300, env=environment,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    needed, on_card, on_host = map(int, run.stdout.split())
    assert on_card <= 1.05 * needed
    assert on_host <= 1.05 * needed + 600e6
