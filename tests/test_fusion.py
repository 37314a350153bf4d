"""Fusion changes no bit: graphs and eager calls are compiled with and without it, and run on the same numbers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fused_bits import steps_with_equal_bits
from torch.utils._pytree import tree_leaves

from openspyre.backend.text_cache import TextCache
from openspyre.card import programs, to_card
from openspyre.program.model import Dim, LaneBlock, Map, Operand, OperandKind, Program
from openspyre.spec.encodings import sen169_decode
from openspyre.spec.ops.expression import Code, Instruction, Lane
from torch_spyre.ops import programs as compiling

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load


@pytest.fixture
def seen(monkeypatch):
    """Every bundle that is compiled."""
    torch.compiler.reset()
    found = []
    emit_bundle = compiling.emit_bundle

    def watched(program, **options):
        found.append(emit_bundle(program, **options))
        return found[-1]

    monkeypatch.setattr(compiling, "emit_bundle", watched)
    monkeypatch.setattr(TextCache, "find", lambda *_: None)  # what an earlier run kept on disk is not compiled again
    return found


def rms_norm(x, w):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * h.to(x.dtype)


def rotary(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def softmax_written_out(x, mask):
    scores = x * 0.125 + mask
    scores = scores - scores.amax(-1, keepdim=True)
    weights = scores.exp()
    return weights / weights.sum(-1, keepdim=True)


def layer_norm_written_out(x, w):
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * w


def several_results(x, y):
    a = x + y
    b = torch.relu(a)
    return a, b * y, (b * 2).sum(0), a.to(torch.float32)


def truths(x, y):
    chosen = (x > y) & (x < 2)
    return torch.where(chosen, x * 2, y).masked_fill(~chosen, -1), chosen


def signs_of_nan(x, y):
    return torch.signbit((x / y).float() - y.float())


def in_place(x, y):
    x.mul_(2).add_(y)
    return x.transpose(0, 1) + y.transpose(0, 1)


def views(x, y):
    a = torch.exp(x * 0.1)
    return a.view(8, -1, 64) * y.view(8, -1, 64)[:, :, :1], a[1:5] + y[2:6], a.flatten() * 2


def count_of_a_constant(x):
    return x.sum() / torch.ones_like(x, dtype=torch.int64).sum()


def counted(x, y):
    """The fold of a selection between two constants: integers, though nothing in the code says so."""
    places = torch.where(x > y, 1, 0)
    return places.sum(-1), places.amax(0), x / places.sum(-1, keepdim=True)


def attention_of_heads(width):
    """Heads that begin in the middle of sticks, as a linear layer leaves them."""

    def attention(q, k, v):
        heads = [x.view(x.shape[0], x.shape[1], -1, width).transpose(1, 2) for x in (q * 2, k + 1, v * 3)]
        y = F.scaled_dot_product_attention(*heads)
        return y.transpose(1, 2).flatten(2)

    return attention


half, full = torch.float16, torch.float32
GRAPHS = [
    (attention_of_heads(32), [((5, 9, 192), half)] * 3, 15),
    (attention_of_heads(16), [((2, 70, 128), half)] * 3, 15),
    (attention_of_heads(24), [((3, 5, 72), half)] * 3, 12),
    (attention_of_heads(32), [((1, 1, 96), half)] * 3, 10),
    (attention_of_heads(96), [((2, 9, 192), half)] * 3, 10),
    (rms_norm, [((4, 48, 256), half), ((256,), half)], 7),
    (rms_norm, [((7, 200), half), ((200,), half)], 7),
    (rotary, [((2, 4, 48, 128), half), ((48, 128), half), ((48, 128), half)], 2),
    (softmax_written_out, [((6, 40, 192), half), ((40, 192), half)], 4),
    (layer_norm_written_out, [((40, 192), half), ((192,), half)], 2),
    (lambda x, y: F.silu(x) * y, [((40, 640), half)] * 2, 1),
    (lambda x, y: F.gelu(x @ y) * 2, [((40, 128), half), ((128, 192), half)], 1),
    (lambda x, y: F.softmax(x * 0.125 + y, -1) * 2, [((6, 40, 100), half), ((40, 100), half)], 2),
    (several_results, [((40, 320), half)] * 2, 2),
    (several_results, [((40, 320), full)] * 2, 2),
    (truths, [((40, 100), half)] * 2, 2),
    (signs_of_nan, [((40, 128), half)] * 2, 1),
    (in_place, [((64, 128), half)] * 2, 1),
    (views, [((8, 640), half)] * 2, 1),
    (lambda x, y: (x.float() * 2 + y.to(full)).to(torch.int32) + 3, [((33, 70), half)] * 2, 2),
    (count_of_a_constant, [((64, 128), half)], 1),
    (counted, [((33, 70), half)] * 2, 1),
    (lambda x, y: (torch.arange(70, device=x.device) * 2 + 1) * x + y.sum(-1, keepdim=True), [((33, 70), full)] * 2, 1),
]


@pytest.mark.parametrize(
    ("function", "shapes", "saved"), GRAPHS, ids=[f"{n}-{g[0].__name__}" for n, g in enumerate(GRAPHS)]
)
def test_a_compiled_graph_has_the_same_bits_in_fewer_steps(seen, function, shapes, saved):
    inputs = [torch.randn(size).to(dtype).to("spyre") for size, dtype in shapes]
    torch.compile(function, dynamic=False)(*inputs)
    counts = [steps_with_equal_bits(bundle) for bundle in seen]
    assert counts, "nothing was compiled"
    before, after = (sum(column) for column in zip(*counts, strict=True))
    assert before - after >= saved, f"{before} steps became {after}"


NORMS = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "without its sum": lambda x: x - x.sum(-1, keepdim=True),
}
COPIES = {
    "copied": torch.clone,
    "turned": lambda y: y.transpose(0, 1).contiguous(),
    "cast": lambda y: y.to(torch.float32),
    "copied twice": lambda y: (y.clone(), y.clone() + 1),
}


@pytest.mark.parametrize(
    ("copy", "size", "dtype"), [(copy, (64, 128), half) for copy in COPIES] + [("copied", (7, 200), full)], ids=str
)
@pytest.mark.parametrize("norm", NORMS)
def test_a_row_and_its_copy_are_both_results(seen, norm, copy, size, dtype):
    def function(x):
        y = NORMS[norm](x)
        return y, COPIES[copy](y)

    value = torch.randn(size, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = [tensor.cpu() for tensor in tree_leaves(torch.compile(function, dynamic=False)(value.to("spyre")))]
    for result, right in zip(found, tree_leaves(function(value.float())), strict=True):
        largest = max(1.0, right.abs().max().item())  # a row's total is rounded, too
        torch.testing.assert_close(result.float(), right, rtol=2**-8, atol=2**-8 * largest)
    for bundle in seen:
        steps_with_equal_bits(bundle)


def test_rounding_in_a_register_is_what_a_store_and_a_load_do():
    """Every code of the format, the midpoints between codes and their neighbours, all exponents, NaNs with payloads."""
    codes = sen169_decode(np.arange(1 << 16, dtype=np.uint16)).astype(np.float32)
    finite = np.unique(codes[np.isfinite(codes)])
    middles = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    near = [np.nextafter(middles, side) for side in (np.float32(-np.inf), np.float32(np.inf))]
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, dtype=np.uint32).view(np.float32)
    specials = np.array([0, 1, 0x7F800000, 0x7F800001, 0x7FC00000, 0xFFC12345, 0x007FFFFF], np.uint32)
    specials = np.concatenate([specials, specials | 0x80000000]).view(np.float32)
    values = np.concatenate([codes, middles, *near, random, specials])
    values = np.resize(values, -(-len(values) // 64) * 64)

    def step(name, opcode, source, target):
        full, half = ("float32", "IEEE_FP32"), ("float16", "SEN169_FP16")
        kinds = {"x": (0, 32, full), "t": (1, 0, half), "out": (2, 32, full)}
        places = [
            Operand(OperandKind.VECTOR, symbol, 0, (64,), tile, *kind)
            for symbol, tile, kind in (kinds[source], kinds[target])
        ]
        code = Code((Lane.FLOAT,), (), (Instruction(opcode, 1, (0,)),), (1,), (Lane.FLOAT,))
        dims = (Dim(len(values) // 64),)
        return Map(name, dims, LaneBlock(64, len(values), 0), places[:1], places[1:], code)

    def run(*steps):
        on_card = {
            "x": to_card(values),
            "t": to_card(np.zeros(len(values), np.float16)),
            "out": to_card(np.zeros(len(values), np.float32)),
        }
        loaded = programs.load(Program("rounding", ("x", "t", "out"), (), steps))
        loaded.run({name: array.buffer for name, array in on_card.items()})
        loaded.unload()
        return on_card["out"].numpy().view(np.uint32)

    through_memory = run(step("store", "copy", "x", "t"), step("load", "copy", "t", "out"))
    np.testing.assert_array_equal(run(step("round", "round_sen169", "x", "out")), through_memory)


def test_products_read_heads_of_half_sticks_where_they_lie(seen):
    """An attention of a linear layer's results is two products and a softmax, without a copy between them."""
    q, k, v = (torch.randn(450, 384).half().to("spyre").view(50, 9, 12, 32).transpose(1, 2) for _ in range(3))
    F.scaled_dot_product_attention(q, k, v)
    (bundle,) = seen
    assert steps_with_equal_bits(bundle)[1] == 3


def test_eager_programs_have_the_same_bits(seen):
    torch.manual_seed(0)
    x, y = (torch.randn(9, 130).half().to("spyre") for _ in range(2))
    for call in (
        lambda: x.addcmul(x, y, value=0.5),
        lambda: F.linear(x, y, y[:, 0]),
        lambda: x.var(-1),
        lambda: x.t() + y.t()[:, :1],
        lambda: F.layer_norm(x, (130,)),
        lambda: F.scaled_dot_product_attention(x[None], y[None], x[None]),
        lambda: F.scaled_dot_product_attention(*(t[:, :128].view(3, 3, 4, 32).transpose(1, 2) for t in (x, y, x))),
        lambda: F.scaled_dot_product_attention(*(t[:, 1:129].view(3, 3, 4, 32).transpose(1, 2) for t in (x, y, x))),
        lambda: x.clone().mul_(y.t().contiguous().t()),
    ):
        call()
    assert len(seen) > 5
    for bundle in seen:
        steps_with_equal_bits(bundle)
