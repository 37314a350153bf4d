"""Whole models with real weights on the card in fp16, against the same on the CPU in fp32. `make bench` installs what they need."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.registry import ONE, case
from bench.timing import Effort, Measurement, Pair, summarize

CACHED = 256
SENTENCES = tuple(
    f"Sentence {n} says something about {word}." for n in range(10) for word in ("cars", "food", "law", "music", "rain")
)


def _llama(device: str) -> nn.Module:
    from transformers import AutoModelForCausalLM

    from tests.models.smollm2 import checkpoint

    dtype = torch.float16 if device == "spyre" else torch.float32
    return AutoModelForCausalLM.from_pretrained(checkpoint(), dtype=dtype).eval().requires_grad_(False).to(device)


def _decode(device: str, *, compiled: bool) -> Callable[[], object]:
    """One token more, with a static cache of which 64 places are filled, chosen and read as generate() does it."""
    from transformers import StaticCache

    model = _llama(device)
    cache = StaticCache(config=model.config, max_cache_len=CACHED)
    prompt = (torch.arange(64) * 7 % 40000).reshape(1, -1).to(device)
    token, place = torch.tensor([[5]]).to(device), torch.tensor([[64]]).to(device)
    step: Any = torch.compile(model, dynamic=False) if compiled else model

    def run() -> object:
        with torch.no_grad():
            logits = step(input_ids=token, position_ids=place, past_key_values=cache).logits
            return logits[:, -1].argmax(-1).item()

    with torch.no_grad():
        model(input_ids=prompt, past_key_values=cache)
    run()
    return run


@case("SmolLM2, eager decode", asked=1 / 1.4, baseline="CPU eager fp32")
def eager_decode(effort: Effort) -> Pair:
    return Pair(_decode("spyre", compiled=False), _decode("cpu", compiled=False))


@case("SmolLM2, compiled decode", asked=1 / 2.2, baseline="CPU eager fp32")
def compiled_decode(effort: Effort) -> Pair:
    torch.compiler.reset()
    return Pair(_decode("spyre", compiled=True), _decode("cpu", compiled=False))


@case("SmolLM2, compiled decode beside Inductor", asked=1 / 1.8, baseline="CPU Inductor fp32")
def compiled_decode_inductor(effort: Effort) -> Pair:
    torch.compiler.reset()
    return Pair(_decode("spyre", compiled=True), _decode("cpu", compiled=True))


def _prefill(device: str, tokens: int) -> Callable[[], object]:
    model = torch.compile(_llama(device), dynamic=False)
    prompt = (torch.arange(tokens) * 7 % 40000).reshape(1, -1).to(device)

    def run() -> object:
        with torch.no_grad():
            return model(input_ids=prompt, use_cache=False, logits_to_keep=1).logits.cpu()

    run()
    return run


@case("SmolLM2, prefill of {}", asked=0.9, baseline="CPU Inductor fp32", over=(256, 512))
def prefill(tokens: int, effort: Effort) -> Pair:
    torch.compiler.reset()
    return Pair(_prefill("spyre", tokens), _prefill("cpu", tokens))


def _encode(device: str, *, compiled: bool) -> Callable[[], object]:
    from sentence_transformers import SentenceTransformer

    from tests.models.packages import MINILM

    dtype = torch.float16 if device == "spyre" else torch.float32
    model = SentenceTransformer(str(MINILM.folder()), device=device, model_kwargs={"dtype": dtype})
    if compiled:
        model.compile(dynamic=False)

    def run() -> object:
        return model.encode(list(SENTENCES), batch_size=50)

    run()
    run()
    return run


@case("MiniLM, 50 sentences, eager", asked=0.8, baseline="CPU eager fp32")
def encode(effort: Effort) -> Pair:
    return Pair(_encode("spyre", compiled=False), _encode("cpu", compiled=False))


@case("MiniLM, 50 sentences, compiled", asked=0.8, baseline="CPU Inductor fp32")
def compiled_encode(effort: Effort) -> Pair:
    torch.compiler.reset()
    return Pair(_encode("spyre", compiled=True), _encode("cpu", compiled=True))


_FIRST = """
import resource, sys
from bench.cases import models
models._prefill(sys.argv[1], 64)
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(each.ru_utime + each.ru_stime for each in used))
"""


@case("SmolLM2, first compiled call, processor time", asked=0.5, baseline="CPU Inductor fp32", threads=ONE)
def first_call(effort: Effort) -> Measurement:
    """A process each, with empty caches: loading, compiling, the compiler's own processes, one call."""
    from tests.models.packages import models_directory

    def seconds(device: str) -> float:
        with tempfile.TemporaryDirectory() as place:
            caches = {"TORCHINDUCTOR_CACHE_DIR": f"{place}/inductor"}
            if device == "spyre":
                ours = Path(place) / "openspyre"
                ours.mkdir()
                (ours / "models").symlink_to(models_directory())  # the weights are not what is measured
                caches["OPENSPYRE_CACHE_DIR"] = str(ours)
            command = [sys.executable, "-W", "ignore", "-c", _FIRST, device]
            done = subprocess.run(command, env=os.environ | caches, check=True, capture_output=True, text=True)
            return float(done.stdout.splitlines()[-1])

    ours, theirs = seconds("spyre"), seconds("cpu")
    found = summarize([ours / theirs])
    return Measurement(found.value, found.low, found.high, 1, ours, theirs, found.value)


_FIRST_TOKEN = """
import sys, time
began = time.perf_counter()
import torch
from bench.cases import models
model = models._llama("spyre")
prompt = (torch.arange(64) * 7 % 40000).reshape(1, -1).to("spyre")
with torch.no_grad():
    if sys.argv[1] == "generate":
        model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=1, cache_implementation="static")[0, -1].item()
    else:
        torch.compile(model)(input_ids=prompt, use_cache=False, logits_to_keep=1).logits.argmax(-1).item()
print(time.perf_counter() - began)
"""


@case("SmolLM2, first token of a new process, from the caches, {}", asked=5, unit="s", baseline="-", threads=ONE, over=("generate", "compiled prompt"))  # fmt: skip
def first_token(how: str, effort: Effort) -> Measurement:
    """Imports, loading of the weights, programs from the disk, the prompt itself; where it is compiled, Dynamo's tracing as well."""

    def seconds() -> float:
        command = [sys.executable, "-W", "ignore", "-c", _FIRST_TOKEN, how]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return float(done.stdout.splitlines()[-1])

    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    seconds()  # fills the caches, Python's own as well
    return summarize([seconds() for _ in range(effort.processes)])


@case("SmolLM2, what a prompt of a new length takes beyond its time, {}", asked=0.2, unit="s", baseline="-", threads=ONE, over=("bucket known", "first of a bucket"))  # fmt: skip
def new_length(which: str, effort: Effort) -> Measurement:
    """Each is called twice: the first call's time beyond the second's. Buckets of 64: a length up to 64 is known from the start."""
    torch.compiler.reset()
    model: Any = torch.compile(_llama("spyre"))

    def seconds(length: int) -> float:
        prompt = (torch.arange(length) * 7 % 40000).reshape(1, -1).to("spyre")
        start = time.perf_counter()
        with torch.no_grad():
            model(input_ids=prompt, use_cache=False, logits_to_keep=1).logits.cpu()
        return time.perf_counter() - start

    for length in (20, 33, 40):  # traced for its length, traced for any, and its bucket known
        seconds(length)
    lengths = (45, 50, 57, 61, 64) if which == "bucket known" else (100, 160, 200)
    return summarize([seconds(length) - seconds(length) for length in lengths])
