"""Tiles that hints ask for, from torch to the card: against torch on the CPU, the same graph without tiles, and a second reader."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from bundle_bits import agrees
from judge import assert_near, assert_same_bits
from oracle import fetch, held, through_card

import torch_spyre
from openspyre.artifact import emitted as emission
from openspyre.artifact.bundle import read_bundle
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.ir import Loop
from openspyre.compiler.loops import listed
from openspyre.compiler.tiling.groups import Untileable
from tests.foreign.vectors import ABSENT, VECTORS
from tests.named import name_dims
from torch_spyre._inductor import config, spyre_hint
from torch_spyre.inductor.launching import launch
from torch_spyre.ops import programs

pytestmark = pytest.mark.filterwarnings("ignore")


def tiles(**counts):
    return spyre_hint(num_tiles_per_dim=counts)


def chain(x, y):
    with tiles(M=4), tiles(N=2):
        return torch.relu(x + y) * torch.exp(-x) - y


def softmax(x):
    with tiles(M=4):
        return torch.softmax(x, -1)


def norm(x, g):
    with tiles(M=8):
        return F.rms_norm(x, (128,), g, 1e-5)


def layer_norm(x, g, b):
    with tiles(M=4):
        return F.layer_norm(x, (128,), g, b)


def gelu(x):
    with tiles(N=2):
        return F.gelu(x) + F.silu(x)


def two_results(x, y):
    with tiles(M=2):
        a = torch.exp(x)
        b = a + y
    return a * 2, b


def linear(x, w):
    with tiles(M=4):
        return torch.relu(x @ w)


def linear_columns(x, w):
    with tiles(N=3):
        return torch.relu(x @ w)


def mlp(x, w, v):
    with tiles(M=4):
        return F.silu(x @ w) @ v


def batches(x, y):
    with tiles(B=3):
        return torch.bmm(x, y) * 0.5


def attention_rows(q, k, v):
    with tiles(Q=4):
        return torch.softmax(q @ k.transpose(0, 1), -1) @ v


def bias(x, b):
    with tiles(N=2):
        return x * 2 + b


def transposed(x, y):
    with tiles(M=2):
        return x.t() + y


def update(x, y):
    with tiles(M=4):
        x.add_(y)
    return x * 2


def wide(x):
    with tiles(M=4):
        return x.float() * 3 + 1


def filled(x):
    with tiles(M=4):
        return x + torch.arange(128, device=x.device, dtype=torch.float16) * torch.ones_like(x)


def cut_sticks(x, y):
    with tiles(N=2):
        return torch.exp(x) + y


def twice(x, y):
    with tiles(M=2):
        a = torch.exp(x) + y
    with tiles(N=2):
        return a * y


def masked(x, y):
    with tiles(M=4):
        return torch.where(x > y, x, y * 0.5)


MN = ("M", "N")
# name: function, shapes, names of dims. Reductions of a tiled dim stand apart: those are added up in another order.
SAME_BITS = {
    "chain": (chain, [(64, 128)] * 2, [MN, MN]),
    "softmax": (softmax, [(64, 200)], [MN]),
    "norm": (norm, [(64, 128), (128,)], [MN]),
    "layer_norm": (layer_norm, [(32, 128), (128,), (128,)], [MN]),
    "gelu": (gelu, [(48, 256)], [MN]),
    "two_results": (two_results, [(64, 128)] * 2, [MN, MN]),
    "linear": (linear, [(128, 96), (96, 192)], [("M", "K"), ("K", "N")]),
    "linear_columns": (linear_columns, [(32, 128), (128, 192)], [("M", "K"), ("K", "N")]),
    "mlp": (mlp, [(64, 128), (128, 256), (256, 64)], [("M", "K"), ("K", "H"), ("H", "N")]),
    "batches": (batches, [(6, 16, 64), (6, 64, 128)], [("B", "M", "K"), ("B", "K", "N")]),
    "attention_rows": (attention_rows, [(64, 64), (128, 64), (128, 64)], [("Q", "D"), ("T", "D"), ("T", "D")]),
    "bias": (bias, [(32, 256), (256,)], [MN, ("N",)]),
    "transposed": (transposed, [(64, 128), (128, 64)], [MN, ("N", "M")]),
    "update": (update, [(64, 128)] * 2, [MN, MN]),
    "wide": (wide, [(64, 128)], [MN]),
    "filled": (filled, [(64, 128)], [MN]),
    "cut_sticks": (cut_sticks, [(16, 96)] * 2, [MN, MN]),
    "twice": (twice, [(64, 128)] * 2, [MN, MN]),
    "masked": (masked, [(64, 128)] * 2, [MN, MN]),
}  # fmt: skip


def sum_rows(x):
    with tiles(M=4):
        return torch.exp(x).sum(0)


def sum_sticks(x):
    with tiles(N=2):
        return (x * x).sum(-1)


def sum_nested(x):
    with tiles(M=4), tiles(N=2):
        return torch.exp(x).sum(-1)


def largest(x):
    with tiles(M=4):
        return x.amax(0)


def smallest(x):
    with tiles(N=4):
        return x.amin(-1)


def product(x):
    with tiles(M=4):
        return (1 + x * 0.01).prod(0)


def some(x):
    with tiles(M=4):
        return (x > 3).any(0)


def inner(x, w):
    with tiles(K=4):
        return x @ w


def inner_nested(x, w):
    with tiles(M=2), tiles(K=4):
        return torch.relu(x) @ w


def sum_behind(x):
    with tiles(M=4):
        s = x.sum(0)
    return torch.exp(s * 0.1)


PARTIAL = {
    "sum_rows": (sum_rows, [(64, 128)], [MN]),
    "sum_sticks": (sum_sticks, [(32, 256)], [MN]),
    "sum_nested": (sum_nested, [(32, 256)], [MN]),
    "largest": (largest, [(64, 128)], [MN]),
    "smallest": (smallest, [(32, 256)], [MN]),
    "product": (product, [(64, 128)], [MN]),
    "some": (some, [(64, 128)], [MN]),
    "inner": (inner, [(64, 256), (256, 128)], [("M", "K"), ("K", "N")]),
    "inner_nested": (inner_nested, [(64, 256), (256, 128)], [("M", "K"), ("K", "N")]),
    "sum_behind": (sum_behind, [(64, 128)], [MN]),
}  # fmt: skip
CASES = SAME_BITS | PARTIAL


def inputs_of(shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(shape, generator=generator) * 0.5).half() for shape in shapes]


def compiled(function, inputs, names=()):
    """Results, then inputs as they are left."""
    on_card = [tensor.to("spyre") for tensor in inputs]
    name_dims(on_card, names)
    launch.clear()
    results = torch.compile(function, fullgraph=True)(*on_card)
    return [*(results if isinstance(results, tuple) else (results,)), *on_card]


def has_loops(program):
    return any(isinstance(node, Loop) for node in program.body)


def sums_over_cores(program):
    """In how many parts cores add up the sums of a program, which decides their last bits."""
    return {op.name: dim.split for op, _ in listed(program.body) for dim in op.dims if dim.reduced and dim.split > 1}


@pytest.mark.parametrize("name", CASES)
def test_as_torch(name, lowered):
    function, shapes, names = CASES[name]
    inputs = inputs_of(shapes)
    results = compiled(function, inputs, names)
    emitted = emit_bundle(lowered[-1])
    assert any(isinstance(node, emission.Loop) for node in emitted.body), "no tiles were made"
    assert not emitted.extensions  # hardware has all ops of all loops
    assert_near(results, function, inputs, sixteen_bits=True)


@pytest.mark.parametrize("cores", [1, 32])
@pytest.mark.parametrize("name", SAME_BITS)
def test_as_without_tiles(name, cores, lowered):
    """Bit by bit, unless cores add up other parts of a sum."""
    function, shapes, names = SAME_BITS[name]
    inputs = inputs_of(shapes, seed=1)
    with config.patch(sencores=cores):
        results = compiled(function, inputs, names)
        tiled = [*lowered]
        lowered.clear()
        torch.compiler.reset()
        whole = compiled(function, inputs)  # without names no hint finds a dim
    assert any(map(has_loops, tiled)) and not any(map(has_loops, lowered))
    if any(map(sums_over_cores, [*tiled, *lowered])):
        assert cores > 1
        return
    assert_same_bits(results, whole)


READ_AGAIN = "chain softmax layer_norm two_results linear batches transposed update cut_sticks sum_nested largest some inner_nested"


@pytest.mark.parametrize("name", READ_AGAIN.split())
def test_a_second_reader_of_the_bundle_agrees(name, lowered):
    function, shapes, names = CASES[name]
    compiled(function, inputs_of(shapes), names)
    for program in [*lowered]:
        agrees(program)


def test_tiles_of_a_sum_are_taken_up_one_by_one():
    """Contract N6: every tile by itself, in float32 and rounded once; the accumulator, rounded after every tile."""
    (x,) = inputs_of([(64, 128)], seed=3)

    def function(x):
        with tiles(M=4):
            return x.sum(0)

    total = torch.zeros(128)
    for part in held(x).float().split(16):
        total = through_card(total + through_card(sum(part), x.dtype), x.dtype)
    with config.patch(sencores=1):  # or cores would add up parts of a tile
        found, _ = compiled(function, [x], [MN])
    assert torch.equal(fetch(found), total)


@pytest.mark.skipif(not (VECTORS / "august" / "coarse_tile").exists(), reason=ABSENT)
def test_the_bundle_of_the_reference(tmp_path):
    """The same loop around the same ops at the same addresses, which move by the same bytes."""

    def function(x, y):
        with tiles(M=4):
            return torch.exp(x) + y

    inputs = [tensor.to("spyre") for tensor in inputs_of([(128, 256)] * 2)]
    name_dims(inputs, [MN, MN])
    launch.clear()
    (directory,) = torch_spyre.export_bundle(function, *inputs, directory=tmp_path, with_inputs=False)
    ours, theirs = (
        read_bundle(place) for place in (directory, VECTORS / "august" / "coarse_tile" / "launch_0" / "bundle")
    )
    for bundle in (ours, theirs):
        (loop,) = bundle.function.body
        assert loop.count == 4
        assert [bundle.ops[node.file].op for node in loop.body] == ["identity", "exp", "identity", "add", "identity"]
        assert [len(node.symbols) for node in loop.body] == [32, 0, 32, 0, 32]
    addresses = [[[address for _, address in node.symbols] for node in b.function.body[0].body] for b in (ours, theirs)]
    assert addresses[0] == addresses[1] and addresses[0][0][1].advance == (4096,)


def test_switches():
    inputs = inputs_of([(64, 128)])
    with config.patch(enable_reduction_tiling=False):
        with pytest.raises(Untileable, match="4 tiles along reduced dim 'M'"):
            compiled(sum_rows, inputs, [MN])
        compiled(softmax, inputs, [MN])


def test_hints_are_ignored_where_that_is_asked_for(lowered):
    with config.patch(ignore_hints=True):
        compiled(softmax, inputs_of([(64, 128)]), [MN])
    assert not any(map(has_loops, lowered))


def test_a_tensor_that_one_core_cannot_reach_is_tiled_without_a_hint(lowered, monkeypatch):
    near = replace(programs.planned_machine(), max_span_bytes_per_core_and_tensor=1 << 14)
    monkeypatch.setattr(programs, "planned_machine", lambda: near)

    def function(x, y):
        return torch.exp(x) * y

    inputs = inputs_of([(64, 256)] * 2)
    with config.patch(ignore_span_overflow_hints=False):
        results = compiled(function, inputs)
    (loop,) = lowered[-1].body
    assert isinstance(loop, Loop) and loop.count == 2
    assert_near(results, function, inputs, sixteen_bits=True)
    lowered.clear()
    torch.compiler.reset()
    assert_same_bits(results, compiled(function, inputs))
    assert not any(map(has_loops, lowered))
