"""Constant tensors of programs: memory that launches bring by themselves, once per card and for all programs that have the same one."""

import gc
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from oracle import held
from test_export import half, outputs

import torch_spyre
from openspyre.artifact.launch_spec import read_launch_spec
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.ir import Role
from torch_spyre import _torch
from torch_spyre.inductor.launching import launch

pytestmark = pytest.mark.filterwarnings("ignore")


def ramp(x):
    """The constant has 64 * 128 elements of two bytes."""
    rows, columns = (torch.arange(n, device=x.device) for n in x.shape)
    return x + (rows[:, None] - columns).half()


def distances(*size):
    rows, columns = (torch.arange(n) for n in size)
    return (rows[:, None] - columns).half()


def compiled(function):
    return torch.compile(function, fullgraph=True, dynamic=False)


@pytest.fixture(autouse=True)
def _nothing_kept():
    yield
    torch.compiler.reset()
    gc.collect()
    launch.clear()
    _torch.clear_eager_cache()


def allocated():
    gc.collect()
    torch.spyre.synchronize()
    return torch.spyre.memory_allocated()


CONSTANT_BYTES = 64 * 128 * 2


def test_what_is_made_of_counts_is_an_argument_that_the_launch_brings(lowered):
    x = half(64, 128)
    exact = held(x) + distances(64, 128).double()
    result = compiled(ramp)(x.to("spyre")).cpu().double()
    assert ((result - exact).abs() <= 2.0**-10 * exact.abs()).all()
    (program,) = lowered
    assert [op.row for op in program.ops] == ["add"]
    (constant,) = [buffer for buffer in program.buffers if buffer.role is Role.CONSTANT]
    assert np.array_equal(np.frombuffer(constant.values, np.float16).reshape(64, 128), distances(64, 128).numpy())
    assert emit_bundle(program).extensions == ()


def test_its_memory_is_counted_and_freed_with_its_program():
    x = half(64, 128).to("spyre")
    before = allocated()
    function = compiled(ramp)
    function(x), function(x)
    assert allocated() == before + CONSTANT_BYTES
    del function
    torch.compiler.reset()
    launch.clear()
    assert allocated() == before


def test_equal_constants_of_programs_are_one():
    x = half(64, 128).to("spyre")
    before = allocated()
    first, second = compiled(ramp), compiled(lambda x: ramp(x) * 2)
    assert torch.equal((first(x) * 2).cpu(), second(x).cpu())
    assert allocated() == before + CONSTANT_BYTES


def test_every_stream_reads_it():
    x = half(64, 128).to("spyre")
    function, results = compiled(ramp), []
    for _ in range(3):
        with torch.spyre.stream(torch.spyre.Stream()):
            results.append(function(x))
    torch.spyre.synchronize()
    assert all(torch.equal(result.cpu(), results[0].cpu()) for result in results)


def test_a_launch_that_gives_its_memory_back_at_once():
    """The program is forgotten while its launches wait."""
    x = half(64, 128).to("spyre")
    expected = compiled(ramp)(x).cpu()
    results = []
    for _ in range(20):
        results.append(compiled(ramp)(x))
        launch.clear()
        results.append(torch.full((64, 128), 7.0, dtype=torch.float16, device="spyre"))
    assert all(torch.equal(result.cpu(), expected) for result in results[::2])


def test_causal_attention_has_its_mask_as_a_constant_that_blocks_share(lowered):
    query, key, value = (half(1, 2, 300, 64, seed=seed) for seed in range(3))
    on_card = [tensor.to("spyre") for tensor in (query, key, value)]
    before = allocated()
    F.scaled_dot_product_attention(*on_card, is_causal=True)
    (program,) = lowered
    (constant,) = [buffer for buffer in program.buffers if buffer.role is Role.CONSTANT]
    assert constant.size == (128, 384)
    assert "causal_mask" not in {extension.row for extension in emit_bundle(program).extensions}
    assert allocated() - before == 128 * 384 * 2


@pytest.mark.parametrize(
    "function",
    [ramp, lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True) + 1],
    ids=["ramp", "causal attention"],
)
def test_an_exported_bundle_has_it_beside_it(function, tmp_path):
    x = half(64, 128).to("spyre")
    (directory,) = torch_spyre.export_bundle(function, x, directory=tmp_path / "bundle", with_inputs=True)
    (constant,) = [a for a in read_launch_spec(directory) if a.role == "constant" and a.file is not None]
    assert np.load(directory / constant.file).shape == constant.size
    (found,) = outputs(directory, tmp_path / "results").values()
    np.testing.assert_array_equal(found, torch.compile(function)(x).cpu().numpy())


TWO_CARDS = """
import json, torch
def ramp(x):
    rows, columns = (torch.arange(n, device=x.device) for n in x.shape)
    return x + (rows[:, None] - columns).half()
x = torch.randn(64, 128).half()
before = [torch.spyre.memory_allocated(card) for card in range(2)]
function = torch.compile(ramp, fullgraph=True, dynamic=False)
results = [function(x.to(f"spyre:{card}")).cpu() for card in (0, 1, 0)]
kept = [torch.spyre.memory_allocated(card) for card in range(2)]
a = [torch.nn.functional.scaled_dot_product_attention(*(3 * [x[None].to(f"spyre:{card}")]), is_causal=True).cpu() for card in (0, 1)]
print(json.dumps([before, kept, [torch.equal(r, results[0]) for r in results], torch.equal(*a)]))
"""


def test_each_card_has_its_own():
    command = [sys.executable, "-W", "ignore", "-c", TWO_CARDS]
    environment = os.environ | {"OPENSPYRE_CARDS": "2"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    before, kept, alike, attention = json.loads(done.stdout.splitlines()[-1])
    assert [after - first for first, after in zip(before, kept, strict=True)] == [CONSTANT_BYTES] * 2
    assert all(alike) and attention


@pytest.mark.parametrize("empty_cache", [torch.spyre.empty_cache, torch.accelerator.memory.empty_cache])
def test_constants_of_eager_calls_go_with_the_cache(empty_cache):
    """The mask of a causal attention; the next call has it again."""
    x = half(1, 2, 130, 64).to("spyre")
    before = allocated()
    first = F.scaled_dot_product_attention(x, x, x, is_causal=True).cpu()
    assert allocated() > before
    empty_cache()
    assert allocated() == before
    assert torch.equal(F.scaled_dot_product_attention(x, x, x, is_causal=True).cpu(), first)
