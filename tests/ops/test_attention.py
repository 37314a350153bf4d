"""Scaled dot-product attention against torch in float64, with what the contract allows: two rounded contractions (N4)."""

import copy

import pytest
import torch
import torch.nn.functional as F
from oracle import HALVES, fetch, held
from samples import FLOATS
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_spyre.ops import eager


def title(value):
    return str(value).removeprefix("torch.")


def draw(*size, dtype=torch.float16, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def operands(heads=4, key_heads=4, queries=33, keys=70, width=64, value_width=64, dtype=torch.float16):
    return (
        draw(2, heads, queries, width, dtype=dtype),
        draw(2, key_heads, keys, width, dtype=dtype, seed=1),
        draw(2, key_heads, keys, value_width, dtype=dtype, seed=2),
    )


def on_card(value):
    return value.to("spyre") if isinstance(value, torch.Tensor) else value


def check(query, key, value, mask=None, **options):
    """The scores are off by half a unit of their last place, which moves a weight by as much; weights and result are rounded."""
    with torch.no_grad():
        result = F.scaled_dot_product_attention(*map(on_card, (query, key, value, mask)), **options)
    wide = [held(t) for t in (query, key, value)]
    wide_mask = mask if mask is None or mask.dtype is torch.bool else held(mask)
    exact = F.scaled_dot_product_attention(*wide, wide_mask, **options)
    assert result.dtype == query.dtype and result.shape == exact.shape
    unit = 2.0**-10 if query.dtype in HALVES else 2.0**-24  # half a unit in the last place, relative
    scale = options.get("scale") or query.shape[-1] ** -0.5
    group = query.shape[-3] // key.shape[-3]
    scores = (wide[0] @ wide[1].repeat_interleave(group, -3).transpose(-1, -2) * scale).abs().amax()
    moved = unit * scores + (query.shape[-1] + key.shape[-2]) * 2.0**-23 * (1 + scores)
    slack = (2 * moved + 2 * unit) * wide[2].abs().amax() + unit * exact.abs()
    wrong = (fetch(result).double() - exact).abs() > slack
    assert not wrong.any(), f"off by {(fetch(result).double() - exact).abs().max()}, allowed {slack.max()}"
    return result.cpu()


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
def test_attention(options, dtype):
    check(*operands(dtype=dtype), **options)


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
@pytest.mark.parametrize("shape", [(33, 70), (1, 1, 33, 70), (2, 1, 1, 70), (2, 4, 33, 70), (33, 1)], ids=str)
@pytest.mark.parametrize("kind", ["truth values", "minus infinity", "smallest number", "any number"])
def test_masks(kind, shape, dtype):
    allowed = torch.rand(shape, generator=torch.Generator().manual_seed(3)) > 0.4
    allowed[..., 0] = True
    mask = {
        "truth values": allowed,
        "minus infinity": torch.zeros(shape).masked_fill(~allowed, float("-inf")).to(dtype),
        "smallest number": torch.zeros(shape).masked_fill(~allowed, torch.finfo(dtype).min).to(dtype),
        "any number": draw(*shape, dtype=dtype, seed=4),
    }[kind]
    check(*operands(dtype=dtype), mask)


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
def test_a_query_that_may_look_at_nothing_gets_nothing(dtype):
    mask = torch.ones(33, 70, dtype=torch.bool)
    mask[3] = False
    result = check(*operands(dtype=dtype), mask)
    assert not result[:, :, 3].any() and result[:, :, 4].any()


@pytest.mark.parametrize("options", [{}, {"is_causal": True}], ids=str)
@pytest.mark.parametrize("key_heads", [1, 2, 8])
def test_heads_share_keys_and_values(key_heads, options):
    check(*operands(heads=8, key_heads=key_heads), enable_gqa=True, **options)


SHAPES = {
    "one query": {"queries": 1},
    "one key": {"keys": 1},
    "unaligned widths": {"width": 40, "value_width": 24},
    "wide values": {"value_width": 130},
    "more queries than keys, causal": {"queries": 70, "keys": 33},
    "blocks of wide values, causal": {"queries": 129, "keys": 129, "width": 40, "value_width": 72},
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    check(*operands(**SHAPES[name]), is_causal="causal" in name)


BLOCKS = {
    "as many keys": {"queries": 300, "keys": 300},
    "fewer keys": {"queries": 300, "keys": 200},
    "more keys": {"queries": 260, "keys": 400},
    "shared keys": {"queries": 200, "keys": 200, "key_heads": 2},
    "unaligned widths": {"queries": 129, "keys": 129, "width": 40, "value_width": 24},
}


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
@pytest.mark.parametrize("name", BLOCKS)
def test_many_causal_queries_go_block_by_block_with_the_bits_of_a_mask(name, dtype):
    """Where the sums over keys are divided alike: values of up to 64 elements leave them whole."""
    query, key, value = operands(dtype=dtype, **BLOCKS[name])
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    options = {"enable_gqa": query.shape[1] != key.shape[1]}
    causal = check(query, key, value, is_causal=True, **options)
    assert torch.equal(causal, check(query, key, value, mask, **options))


def test_a_causal_block_does_not_read_what_lies_behind_it():
    query, key, value = operands(queries=256, keys=300)
    wanted = check(query, key, value, is_causal=True)
    key[:, :, 256:] = value[:, :, 256:] = float("nan")
    value[:, :, 200] = float("inf")
    with torch.no_grad():
        result = F.scaled_dot_product_attention(*map(on_card, (query, key, value)), is_causal=True).cpu()
    assert torch.equal(result[:, :, :128], wanted[:, :, :128])
    assert not result[:, :, 200:].isfinite().any()


def test_three_dims_and_views():
    query, key, value = operands()
    check(query[0], key[0], value[0], is_causal=True)
    by_token = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (query, key, value)]
    result = check(*by_token)
    assert torch.equal(result, check(query, key, value))
    check(query[:, 1:3, 5:20], key[:, 1:3, 3:60], value[:, 1:3, 3:60])


def test_it_is_one_program_and_compiled_once():
    query, key, value = map(on_card, operands())
    with torch.no_grad():
        F.scaled_dot_product_attention(query, key, value)
        before = eager.counts()
        F.scaled_dot_product_attention(query, key, value)
        after = eager.counts()
    assert (after["launches"] - before["launches"], after["compilations"] - before["compilations"]) == (1, 0)


def test_results_lie_as_the_queries_do():
    query = on_card(draw(2, 33, 4, 64)).transpose(1, 2)
    with torch.no_grad():
        result = F.scaled_dot_product_attention(query, query, query)
    assert result.transpose(1, 2).is_contiguous()


def test_the_user_may_ask_for_the_composition():
    query, key, value = operands(dtype=torch.float32)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        before = eager.counts()["launches"]
        result = F.scaled_dot_product_attention(*map(on_card, (query, key, value)))
        assert eager.counts()["launches"] > before + 1
    torch.testing.assert_close(result.cpu(), F.scaled_dot_product_attention(query, key, value), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"enable_gqa": True}], ids=str)
def test_gradients(options):
    torch.spyre.set_fallback_mode("silent")
    host = operands(key_heads=2 if "enable_gqa" in options else 4, dtype=torch.float32)
    wide = [t.double().requires_grad_() for t in host]
    card = [t.to("spyre").requires_grad_() for t in host]
    gradient = draw(2, 4, 33, 64, dtype=torch.float32, seed=5)
    F.scaled_dot_product_attention(*wide, **options).backward(gradient.double())
    F.scaled_dot_product_attention(*card, **options).backward(gradient.to("spyre"))
    for mine, theirs in zip(card, wide, strict=True):
        torch.testing.assert_close(mine.grad.cpu().double(), theirs.grad, rtol=1e-4, atol=1e-4)


def test_heads_that_do_not_match_are_an_error():
    query, key, value = map(on_card, operands(heads=8, key_heads=2))
    with pytest.raises(RuntimeError), torch.no_grad():
        F.scaled_dot_product_attention(query, key, value)


LAYERS = {
    "attention": lambda: nn.MultiheadAttention(128, 4, batch_first=True),
    "encoder, norms after": lambda: nn.TransformerEncoderLayer(128, 4, 256, batch_first=True),
    "encoder, norms before, gelu": lambda: nn.TransformerEncoderLayer(
        128, 4, 256, batch_first=True, norm_first=True, activation="gelu"
    ),
}
MASKS = {
    "nothing": lambda attention: {},
    "later tokens": lambda attention: {
        "attn_mask" if attention else "src_mask": torch.ones(33, 33, dtype=torch.bool).triu(1)
    },
    "padding": lambda attention: {
        "key_padding_mask" if attention else "src_key_padding_mask": torch.arange(33).expand(2, 33)
        >= torch.tensor([[33], [20]])
    },
}


@pytest.mark.parametrize("masked", MASKS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_torch_evaluate_on_the_card(name, masked):
    torch.manual_seed(0)
    model, x = LAYERS[name]().eval(), draw(2, 33, 128, dtype=torch.float32)
    masks = MASKS[masked](name == "attention")
    operands = (x, x, x) if name == "attention" else (x,)
    with torch.no_grad():
        wanted = model.double()(*(t.double() for t in operands), **masks)
        model.float().to("spyre")
        result = model(*(t.to("spyre") for t in operands), **{k: m.to("spyre") for k, m in masks.items()})
    if name == "attention":
        torch.testing.assert_close(result[1].cpu().double(), wanted[1], rtol=1e-4, atol=1e-5)
        result, wanted = result[0], wanted[0]
    kept = slice(None) if masked != "padding" else slice(0, 20)  # what stands at padding is nobody's business
    torch.testing.assert_close(result.cpu().double()[:, kept], wanted[:, kept], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mask_check", [True, False])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested")
def test_an_encoder_of_padded_sequences_evaluates(norm_first, mask_check):
    """torch would pack such a batch into a nested tensor, on every device it knows and ours."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=norm_first)
    host = torch.nn.TransformerEncoder(layer, 2, mask_check=mask_check).eval()
    card = copy.deepcopy(host).to("spyre")
    x, padding = torch.randn(3, 7, 64), torch.arange(7) >= torch.tensor([[7], [4], [2]])
    with torch.no_grad():
        if not norm_first and not mask_check:  # the user insists on packing
            with pytest.raises(NotImplementedError, match="enable_nested_tensor=False"):
                card(x.to("spyre"), src_key_padding_mask=padding.to("spyre"))
            return
        got = card(x.to("spyre"), src_key_padding_mask=padding.to("spyre")).cpu()
        want = host(x, src_key_padding_mask=padding)
    torch.testing.assert_close(got[~padding], want[~padding], rtol=1e-3, atol=1e-3)
