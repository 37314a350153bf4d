"""Tiles that nobody asked for, from torch to the card: bits of eager, near torch in float64, a second reader, explain and the switch.

Scratchpads are made small, so that chains of a few megabytes have no room: 32 cores with 5 % have 3.2 MB.
"""

import pytest
import torch
import torch.nn.functional as F
from bundle_bits import agrees
from judge import assert_near

import torch_spyre
from openspyre.compiler.ir import Loop
from openspyre.compiler.loops import listed
from openspyre.compiler.timed import tile_search
from torch_spyre._inductor import config

pytestmark = pytest.mark.filterwarnings("ignore")
LITTLE = {"dxp_lx_frac_avail": 0.95}


def softmax(x):
    return torch.softmax(x, -1)


def chain(x, y):
    return torch.relu(torch.exp(x) * y + x)


def mlp(x, w, v):
    return x + F.linear(F.gelu(F.linear(F.layer_norm(x, (x.shape[-1],)), w), approximate="tanh"), v)


def swiglu(x, gate, up, down):
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def norm_and_product(x, w):
    y = x.float()
    return F.linear((y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)).half(), w)


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


CASES = {
    "softmax": (softmax, [(4096, 512)]),
    "chain": (chain, [(4096, 512)] * 2),
    "mlp": (mlp, [(1024, 512), (2048, 512), (512, 2048)]),
    "swiglu": (swiglu, [(1024, 512), (2048, 512), (2048, 512), (512, 2048)]),
    "norm_and_product": (norm_and_product, [(4096, 1024), (512, 1024)]),
    "attention": (attention, [(1, 8, 512, 64)] * 3),
}


def inputs_of(shapes):
    generator = torch.Generator().manual_seed(5)
    scales = [1.0, *(shape[-1] ** -0.5 if len(shape) == 2 else 1.0 for shape in shapes[1:])]
    return [(torch.randn(s, generator=generator) * scale).half() for s, scale in zip(shapes, scales, strict=True)]


def on_card(inputs):
    return [x.to("spyre") for x in inputs]


def counts(programs):
    return [node.count for program in programs for node in program.body if isinstance(node, Loop)]


@pytest.mark.parametrize("name", CASES)
def test_bits_of_eager_and_near_torch(name, lowered):
    function, shapes = CASES[name]
    inputs = inputs_of(shapes)
    given = on_card(inputs)
    with config.patch(**LITTLE):
        found = torch.compile(function)(*given)
    assert counts(lowered), "nothing was tiled"
    lowered.clear()
    eager = function(*given)
    assert not counts(lowered)  # with all of the scratchpads there is room
    assert torch.equal(found.cpu().view(torch.int16), eager.cpu().view(torch.int16))
    assert_near([found, *given], function, inputs, sixteen_bits=True)


@pytest.mark.parametrize("name", CASES)
def test_a_second_reader_of_the_bundle_agrees(name, lowered, monkeypatch):
    """Sizes that it reads in a moment gain nothing: tiles are made all the same."""
    monkeypatch.setattr(tile_search.Gain, "is_sure", True)
    monkeypatch.setattr(tile_search.Judged, "could_gain", True)
    function, shapes = CASES[name]
    small = [tuple(max(64, n // 8) if n > 8 else n for n in shape) for shape in shapes]
    with config.patch(dxp_lx_frac_avail=0.999):
        torch.compile(function)(*on_card(inputs_of(small)))
    assert counts(lowered)
    for program in [*lowered]:
        agrees(program)


def test_a_switch(lowered):
    function, shapes = softmax, [(4096, 640)]  # others are compiled already
    for on in (True, False):
        lowered.clear()
        torch.compiler.reset()
        with config.patch(clock_tiling=on, **LITTLE):
            torch.compile(function)(*on_card(inputs_of(shapes)))
        assert bool(counts(lowered)) is on
    lowered.clear()
    with config.patch(planner="documented", **LITTLE):
        torch.compile(function)(*on_card(inputs_of(shapes)))
    assert not counts(lowered)  # the reference has no such tiles


def test_small_graphs_have_none(lowered):
    torch.compile(mlp)(*on_card(inputs_of([(128, 512), (2048, 512), (512, 2048)])))
    assert not counts(lowered)


def test_explain_says_why_and_what_it_gains(lowered):
    with config.patch(**LITTLE):
        explanation = torch_spyre.explain(softmax, *on_card(inputs_of([(4096, 704)])))
    (launch,) = explanation.launches
    (tiled,) = launch.tiled
    program = lowered[0]
    assert tiled.tiles == counts([program])[0]
    inside = {op.name for op, around in listed(program.body) if around}
    assert set(tiled.ops) <= inside and len(tiled.executions) == len(inside)
    assert all(launch.executions[number].runs == tiled.tiles for number in tiled.executions)
    assert tiled.before_us - tiled.after_us > tiled.error_us > 0
    assert tiled.large_bytes == 4096 * 704 * 2
    assert (
        f"5 ops ({tiled.ops[0]} to {tiled.ops[-1]}) in {tiled.tiles} tiles, because the scratchpads have no room for"
        in str(explanation)
    )
    assert explanation.record()["launches"][0]["tiled"][0]["tiles"] == tiled.tiles


def test_rows_that_are_looked_up_stay_out_of_tiles():
    """Their indices are packed for the hardware's op, which a tile of it is not: a prompt of a model with a tied head."""

    def last_scores(tokens, table):
        x = F.embedding(tokens, table).float()
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)).to(table.dtype)[:, -1] @ table.t()

    torch.manual_seed(0)
    torch.spyre.set_downcast_warning(False)
    table = torch.nn.Parameter(torch.randn(49152, 576).half() / 24, requires_grad=False)
    tokens = torch.randint(0, 49152, (1, 50))
    scores = torch.compile(last_scores)(tokens.to("spyre"), table.to("spyre")).cpu().float()
    expected = last_scores(tokens, table.float()).float()
    assert (scores - expected).norm() < 0.01 * expected.norm()
