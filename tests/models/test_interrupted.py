"""Ctrl-C while tokens are generated, or graphs compiled, and two threads that generate: the device stays right."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch

transformers = pytest.importorskip(
    "transformers", reason="generate() is transformers': pip install 'openspyre[models]'"
)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, of Inductor's modules
PROGRAM = """
import gc, os, signal, threading, torch
from torch_spyre.inductor.launching import launch
from transformers import LlamaConfig, LlamaForCausalLM

signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in a shell's background would have it ignored
torch.set_num_threads(1)  # those of the host wait for each other, long where others work as well
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4,
    initializer_range=0.2, eos_token_id=None, pad_token_id=0,
)
host, card = LlamaForCausalLM(config).eval(), LlamaForCausalLM(config).eval()
card.load_state_dict(host.state_dict())
card.to("spyre")

def tokens(model, length, **options):
    prompt = torch.randint(3, 200, (2, length), generator=torch.Generator().manual_seed(length)).to(model.device)
    mask = torch.ones_like(prompt)
    return model.generate(prompt, attention_mask=mask, max_new_tokens=16, do_sample=False, **options).cpu()

def interrupted(length, seconds):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        while True:
            tokens(card, length, **OPTIONS)
    except KeyboardInterrupt:
        return True
    finally:
        timer.join()

for count, seconds in enumerate(DELAYS):
    length = 20 if COMPILED else 12 + count  # eager calls of a new length are compiled, too
    if NEW_GRAPHS:
        torch.compiler.reset()
        launch.clear()
    assert interrupted(length, seconds)
    assert torch.equal(tokens(card, length, **OPTIONS), tokens(host, length))
    gc.collect()
    print(torch.spyre.memory_allocated())
"""
STATIC = {"cache_implementation": "static"}


@pytest.mark.parametrize(
    ("options", "new_graphs", "delays"),
    [
        ({}, False, [0.03, 0.1, 0.3]),
        (STATIC, True, [0.4, 1.2, 2.4]),
        (STATIC, False, [4.0, 0.02, 0.08, 0.2]),
    ],
    ids=["eager", "compiling", "compiled"],
)
def test_ctrl_c_leaves_the_device_usable(options: dict[str, Any], new_graphs: bool, delays: list[float]) -> None:
    given = f"OPTIONS, COMPILED, NEW_GRAPHS, DELAYS = {options!r}, {bool(options)}, {new_graphs}, {delays}\n"
    environment = os.environ | {
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        "TORCH_SPYRE_PROGRESS": "0",
        "OPENSPYRE_SANITIZE": "0",
    }
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", given + PROGRAM],
        capture_output=True, text=True, timeout=240, env=environment,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    allocated = [int(line) for line in run.stdout.split()]
    assert len(allocated) == len(delays)
    assert max(allocated) - min(allocated) < 100_000, "the keys and values of one generation are 200,000 bytes and more"


def _model() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, initializer_range=0.2, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).half().eval().to("spyre")


def _logits(model: Any, length: int, options: dict[str, Any]) -> torch.Tensor:
    prompt = torch.randint(3, 200, (2, length), generator=torch.Generator().manual_seed(length)).to("spyre")
    asked = {"max_new_tokens": 10, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    made = model.generate(prompt, attention_mask=torch.ones_like(prompt), **asked, **options)
    return torch.stack(made.logits).cpu()


@pytest.mark.parametrize(("models", "streams"), [(2, False), (1, True)], ids=["two_models", "two_streams"])
@pytest.mark.parametrize("options", [{}, STATIC], ids=["eager", "compiled"])
def test_two_threads_generate_the_bits_of_one(options: dict[str, Any], models: int, streams: bool) -> None:
    torch.spyre.set_downcast_warning(False)
    torch.compiler.reset()
    made = [_model() for _ in range(models)]
    lengths = (20, 13, 31)
    found: dict[tuple[int, int], torch.Tensor] = {}

    def work(thread: int) -> None:
        with torch.spyre.stream(torch.spyre.Stream() if streams else torch.spyre.current_stream()):
            for place in range(3):
                length = lengths[(place + thread) % 3]
                found[thread, length] = _logits(made[thread % models], length, options)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    for length in lengths:
        alone = _logits(made[0], length, options)
        assert torch.equal(found[0, length], alone) and torch.equal(found[1, length], alone)
