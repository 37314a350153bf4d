"""Mistakes that people make with models: each gets an error that names the object, the limit and the way out."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from openspyre.spec.errors import IndexOutOfRange, UnsupportedFormat
from torch_spyre.ops.fallbacks import FallbackError, FallbackWarning

pytest.importorskip("transformers", reason="its models are asked: pip install 'openspyre[models]'")

from .families import BY_NAME

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
FAMILY = BY_NAME["llama"]


@pytest.fixture(autouse=True)
def _still_usable() -> Iterator[None]:
    torch.spyre.set_downcast_warning(False)
    yield
    assert (torch.ones(3).to("spyre") + 1).tolist() == [2, 2, 2]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("room", [8, 21], ids=["prompt", "token"])
def test_a_cache_that_is_too_short_is_named_with_its_size(room: int, compiled: bool) -> None:
    from transformers import StaticCache

    model = FAMILY.build().to("spyre")
    prompt = torch.full((1, 20), 7).to("spyre")
    cache = StaticCache(config=model.config, max_cache_len=room)
    way_out = rf"index {room} is out of bounds for a dimension of size {room}.*cache of fixed size.*make it larger"
    options = {"max_new_tokens": 4, "do_sample": False, "disable_compile": not compiled}
    with pytest.raises(IndexOutOfRange, match=way_out):
        model.generate(prompt, attention_mask=torch.ones_like(prompt), past_key_values=cache, **options)
        torch.spyre.synchronize()


def test_weights_of_a_dtype_without_a_format_are_named(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    FAMILY.build().double().save_pretrained(tmp_path)
    message = r"q_proj\.weight of LlamaForCausalLM is float64.*dtype=torch\.float16"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        with pytest.raises(UnsupportedFormat, match=message):
            AutoModelForCausalLM.from_pretrained(tmp_path, dtype="auto", device_map="spyre")
        with pytest.raises(UnsupportedFormat, match=message):
            AutoModelForCausalLM.from_pretrained(tmp_path, dtype="auto").to("spyre")
    assert (
        AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float16, device_map="spyre").dtype is torch.float16
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.float8_e5m2, torch.float8_e8m0fnu], ids=str)
def test_tensors_of_a_file_keep_their_values_and_say_that_the_card_has_no_format(dtype, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    kept = torch.tensor([[1.0, 2.0], [4.0, 0.5]]).to(dtype)
    save_file({"layer.scale": kept}, tmp_path / "x.safetensors")
    torch.spyre.set_fallback_mode("warn")
    torch.spyre.reset_fallback_stats()
    with pytest.warns(
        FallbackWarning, match=r"no format for .*'layer\.scale' of a checkpoint.*x\.to\(torch\.float32\)"
    ):
        found = load_file(tmp_path / "x.safetensors", device="spyre")["layer.scale"]
    assert found.dtype is dtype and torch.equal(found.cpu().view(torch.uint8), kept.view(torch.uint8))
    if dtype.itemsize == 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)
            with pytest.raises(NotImplementedError, match=r"aten::mul.*nor on the CPU.*Convert first"):
                found * 2


def test_float8_of_a_file_computes() -> None:
    x = torch.tensor([0.5, 1.5, -2.0]).to(torch.float8_e4m3fn).to("spyre")
    assert x.to(torch.float16).tolist() == [0.5, 1.5, -2.0]


TOO_LARGE = """
import torch
from transformers import AutoModelForCausalLM
for move in (lambda: AutoModelForCausalLM.from_pretrained(PATH).to("spyre"),
             lambda: AutoModelForCausalLM.from_pretrained(PATH, device_map="spyre")):
    try:
        move()
    except torch.OutOfMemoryError as problem:
        print(problem)
    print((torch.ones(3).to("spyre") + 1).tolist(), torch.spyre.memory_allocated())
model = AutoModelForCausalLM.from_pretrained(PATH, device_map="auto")
print(sorted(set(map(str, model.hf_device_map.values()))))
ids = torch.tensor([[5, 80, 33, 7]])
print(model.generate(ids.to("spyre"), max_new_tokens=4, do_sample=False).tolist())
print(AutoModelForCausalLM.from_pretrained(PATH).generate(ids, max_new_tokens=4, do_sample=False).tolist())
"""


def test_a_model_larger_than_the_card_is_told_of_and_auto_leaves_the_rest_on_the_host(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256, hidden_size=512, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=8,
        initializer_range=0.1, eos_token_id=None,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)  # 61 MiB of float32
    environment = os.environ | {"OPENSPYRE_CARD_MEMORY_GIB": "0.03125", "TORCH_SPYRE_DOWNCAST_WARN": "0"}
    script = TOO_LARGE.replace("PATH", repr(str(tmp_path)))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, env=environment)
    assert run.returncode == 0, run.stderr
    moved, why, usable, mapped, why_too, usable_too, devices, found, expected = run.stdout.splitlines()
    assert "cannot allocate" in moved and "free of 32.00 MiB" in moved
    assert "LlamaForCausalLM has" in why and "device_map='auto'" in why
    for told in (why, why_too):
        assert "fewer bits" in told and "device_map='auto'" in told and "OPENSPYRE_CARD_MEMORY_GIB" in told
    assert "cannot allocate" in mapped and usable == usable_too == "[2.0, 2.0, 2.0] 0"
    assert devices == "['0', 'cpu']" and found == expected


@pytest.fixture(scope="module")
def without_a_kernel() -> object:
    @torch.library.custom_op("openspyre_tests::elsewhere", mutates_args=(), device_types="cuda")
    def elsewhere(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    elsewhere.register_fake(torch.empty_like)
    return elsewhere


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_custom_op_without_a_kernel_says_how_to_give_it_one(without_a_kernel, compiled: bool) -> None:
    def work(x: torch.Tensor) -> torch.Tensor:
        return without_a_kernel(x + 1) - 1

    torch.spyre.reset_fallback_stats()
    x = torch.ones(4).to("spyre")
    with pytest.raises(
        FallbackError, match=r'openspyre_tests::elsewhere has no kernel.*register_kernel\("openspyre_tests'
    ):
        (torch.compile(work) if compiled else work)(x)
    assert torch.spyre.fallback_stats() == {}


def test_a_custom_op_gets_a_kernel_by_registration() -> None:
    @torch.library.custom_op("openspyre_tests::later", mutates_args=(), device_types="cuda")
    def later(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    later.register_fake(torch.empty_like)
    torch.library.register_kernel("openspyre_tests::later", "spyre", lambda x: x * 3)
    x = torch.ones(4).to("spyre")
    assert later(x).tolist() == [3] * 4
    assert torch.compile(lambda x: later(x + 1) - 1)(x).tolist() == [5] * 4


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", ["offloaded", "offloaded_static"])
def test_a_cache_on_the_host_gives_the_tokens_of_one_on_the_card(kind: str, layers: int) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=layers, num_attention_heads=4,
        initializer_range=0.2, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    host = LlamaForCausalLM(config).eval()
    prompt = torch.randint(3, 200, (2, 20))
    given = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": 8, "do_sample": False}
    expected = host.generate(prompt, **given)
    given["attention_mask"] = given["attention_mask"].to("spyre")
    found = host.to("spyre").generate(prompt.to("spyre"), cache_implementation=kind, **given)
    assert torch.equal(found.cpu(), expected)
