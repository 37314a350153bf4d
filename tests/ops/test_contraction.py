"""Matrix products against the contract's own order of additions (N5), and all forms in which torch asks for one."""

import numpy as np
import pytest
import torch
from oracle import assert_rounded, held, through_card
from samples import FLOATS

from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre.device.layouts import device_tensor_layout


def draw(*size, dtype=torch.float16, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def fma_chain(a, b):
    """N5: acc = fma(a_k, b_k, acc), k ascending, in fp32. A product of two fp32 is exact in longdouble, and a sum is rounded once."""
    a, b = a.float().numpy().astype(np.longdouble), b.float().numpy().astype(np.longdouble)
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    for k in range(a.shape[-1]):
        with np.errstate(over="ignore", invalid="ignore"):
            total = (a[..., :, k, None] * b[..., k, None, :] + total).astype(np.float32)
    return torch.from_numpy(total)


def sliced_chain(a, b, slices):
    """N9: the chains of the slices of k, in whole sticks of 64, added in order."""
    per_slice = -(-a.shape[-1] // 64) // slices * 64
    starts = range(0, a.shape[-1], per_slice)
    chains = [fma_chain(a[..., k : k + per_slice], b[..., k : k + per_slice, :]) for k in starts]
    assert len(chains) == slices
    total = chains[0]
    for chain in chains[1:]:
        total = total + chain
    return total


def title(value):
    return str(value).removeprefix("torch.")


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
@pytest.mark.parametrize(
    ("m", "k", "n"), [(64, 128, 64), (33, 70, 21), (1, 130, 65), (5, 1, 3), (1, 1, 1), (4, 300, 1)]
)
def test_mm_is_a_chain_of_fmas(m, k, n, dtype):
    a, b = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype, seed=1)
    result = a.to("spyre") @ b.to("spyre")
    assert result.dtype == dtype
    assert torch.equal(result.float().cpu(), through_card(fma_chain(held(a), held(b)), dtype))


@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load
@pytest.mark.parametrize(
    ("m", "k", "n", "slices"),
    [(64, 256, 256, 2), (64, 256, 128, 4), (33, 70, 130, 2), (1, 4096, 1024, 2), (1, 128, 64, 2), (1, 2048, 12800, 4)],
)
def test_a_divided_k_is_a_sum_of_chains(m, k, n, slices):
    """As the planner divides such products, the last one as the clock says; the divisions themselves are tested beside the rules."""
    a, b = draw(m, k), draw(k, n, seed=1)
    a[:, 0], a[:, -1], b[0], b[-1] = 30000, -30000, 100, 100  # what is added to 3e6 loses its last bits
    wanted = through_card(sliced_chain(held(a), held(b), slices), torch.float16)
    assert not torch.equal(wanted, through_card(fma_chain(held(a), held(b)), torch.float16))  # it can be seen
    assert torch.equal((a.to("spyre") @ b.to("spyre")).float().cpu(), wanted)
    compiled = torch.compile(lambda a, b: (a @ b) * 2)(a.to("spyre"), b.to("spyre"))
    assert torch.equal(compiled.float().cpu(), wanted * 2)


def test_bmm_is_a_chain_of_fmas():
    a, b = draw(3, 9, 70), draw(3, 70, 21, seed=1)
    result = torch.bmm(a.to("spyre"), b.to("spyre"))
    assert torch.equal(result.float().cpu(), through_card(fma_chain(held(a), held(b)), torch.float16))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 65504.0, 3e38], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=title)
def test_special_values_reach_only_their_row(dtype, value):
    a, b = draw(5, 70, dtype=dtype).abs(), draw(70, 9, dtype=dtype, seed=1).abs()
    a[2, 40] = value
    result = (a.to("spyre") @ b.to("spyre")).float().cpu()
    wanted = through_card(fma_chain(held(a), held(b)), dtype)
    assert torch.equal(result.nan_to_num(1, 2, 3), wanted.nan_to_num(1, 2, 3))


def test_an_infinity_times_zero_is_no_number():
    a, b = torch.tensor([[float("inf"), 1.0]]), torch.tensor([[0.0], [1.0]])
    assert (a.to("spyre") @ b.to("spyre")).isnan().item()


VIEWS = {
    "transposed first": lambda a, b: (a.t().contiguous().t(), b),
    "transposed second": lambda a, b: (a, b.t().contiguous().t()),
    "both transposed": lambda a, b: (a.t().contiguous().t(), b.t().contiguous().t()),
    "sliced at unaligned offsets": lambda a, b: (a[3:20, 5:65], b[7:67, 2:11]),
    "strided": lambda a, b: (a[::2, ::2], b[::2, ::3]),
    "expanded": lambda a, b: (a[:1].expand(4, 70), b[:, :1].expand(70, 5)),
    "one row": lambda a, b: (a[:1], b),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    a, b = draw(33, 70), draw(70, 21, seed=1)
    left, right = VIEWS[name](a, b)
    mine = VIEWS[name](a.to("spyre"), b.to("spyre"))
    wanted = through_card(fma_chain(held(left), held(right)), torch.float16)
    assert torch.equal((mine[0] @ mine[1]).float().cpu(), wanted)


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
@pytest.mark.parametrize(("m", "slices"), [(1, 1), (4, 3), (7, 1), (200, 3)])
def test_a_second_operand_along_k_gives_the_bits_of_one_along_n(m, slices, dtype):
    """Keys of an attention lie along k: they are turned on the way, in no other order of additions."""
    a, keys = draw(3, m, 130, dtype=dtype).to("spyre"), draw(3, 97, 130, dtype=dtype, seed=1).to("spyre")
    along_n = keys.mT.contiguous()
    assert device_tensor_layout(keys) == SpyreTensorLayout([3, 97, 130], dtype)
    assert torch.equal((a @ keys.mT).cpu(), (a @ along_n).cpu())
    own = 1 if dtype is torch.float32 else slices  # no product of the matrix unit
    chain = sliced_chain(a[:, :2].cpu(), keys.mT.cpu(), own)
    assert torch.equal((a @ keys.mT)[:, :2].float().cpu(), through_card(chain, dtype))


FORMS = {
    "matmul of rank 4": lambda x, w: x[None, None] @ w,
    "broadcast batches": lambda x, w: torch.matmul(x.expand(2, 1, 33, 70), w.expand(3, 70, 21)),
    "matrix and vector": lambda x, w: x @ w[:, 0],
    "vector and matrix": lambda x, w: x[0] @ w,
    "dot": lambda x, w: x[0] @ w[:, 0],
    "linear": lambda x, w: torch.nn.functional.linear(x, w.t()),
    "einsum": lambda x, w: torch.einsum("ij,jk->ki", x, w),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
@pytest.mark.parametrize("name", FORMS)
def test_forms_of_a_product(name, dtype):
    x, w = draw(33, 70, dtype=dtype), draw(70, 21, dtype=dtype, seed=1)
    exact = FORMS[name](held(x), held(w))
    slack = 70 * 2.0**-24 * FORMS[name](held(x).abs(), held(w).abs())
    assert_rounded(FORMS[name](x.to("spyre"), w.to("spyre")), exact, slack=slack)


SUMS = {
    "addmm": lambda c, x, w: torch.addmm(c, x, w),
    "addmm with a row": lambda c, x, w: torch.addmm(c[0], x, w),
    "scaled addmm": lambda c, x, w: torch.addmm(c, x, w, beta=0.5, alpha=2.0),
    "baddbmm": lambda c, x, w: torch.baddbmm(c[None], x[None], w[None]),
    "addmv": lambda c, x, w: torch.addmv(c[:, 0], x, w[:, 0]),
    "linear with bias": lambda c, x, w: torch.nn.functional.linear(x, w.t(), c[0]),
    "linear of rank 3": lambda c, x, w: torch.nn.functional.linear(x[None], w.t(), c[0]),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=title)
@pytest.mark.parametrize("name", SUMS)
def test_what_is_added_to_a_product(name, dtype):
    """N4: the product is rounded, then the addend is added: half a unit of the product's last place, and half of the sum's."""
    c, x, w = draw(33, 21, dtype=dtype, seed=2), draw(33, 70, dtype=dtype), draw(70, 21, dtype=dtype, seed=1)
    exact = SUMS[name](held(c), held(x), held(w))
    product = SUMS[name](held(c) * 0, held(x), held(w)).abs()
    magnitudes = SUMS[name](held(c).abs(), held(x).abs(), held(w).abs())
    step = 2.0**-24 if dtype is torch.float32 else 2.0**-10
    result = SUMS[name](c.to("spyre"), x.to("spyre"), w.to("spyre"))
    assert_rounded(result, exact, slack=product * step + 72 * 2.0**-24 * magnitudes)


def test_beta_zero_ignores_what_is_there():
    x, w = draw(5, 70), draw(70, 9, seed=1)
    nothing = torch.full((5, 9), float("nan")).half()
    result = torch.addmm(nothing.to("spyre"), x.to("spyre"), w.to("spyre"), beta=0)
    assert torch.equal(result.float().cpu(), through_card(fma_chain(held(x), held(w)), torch.float16))


def test_out_and_in_place():
    x, w, c = draw(5, 70), draw(70, 9, seed=1), draw(5, 9, seed=2)
    wanted = through_card(fma_chain(held(x), held(w)), torch.float16)
    for out in (torch.empty(0).half().to("spyre"), torch.empty(9, 5, device="spyre", dtype=torch.float16).t()):
        assert torch.mm(x.to("spyre"), w.to("spyre"), out=out) is out
        assert torch.equal(out.float().cpu(), wanted)
    card = c.to("spyre")
    assert card.addmm_(x.to("spyre"), w.to("spyre")) is card
    assert torch.equal(card.float().cpu(), through_card(held(c).float() + wanted, torch.float16))


def test_empty_products():
    a, b = draw(0, 70).to("spyre"), draw(70, 9).to("spyre")
    assert (a @ b).shape == (0, 9)
    assert (b.t() @ a.t()).shape == (9, 0)


def test_a_sum_without_terms_is_zero():
    x = torch.rand(5, 7)
    for call in (
        lambda x: x[:, :0] @ x[:0],
        lambda x: torch.bmm(x[None, :, :0], x[None, :0]),
        lambda x: torch.mv(x[:, :0], x[0, :0]),
        lambda x: torch.addmm(x[0], x[:, :0], x[:0], beta=2),
    ):
        assert torch.equal(call(x.to("spyre")).cpu(), call(x))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_products_of_integers_are_exact(dtype):
    a = torch.randint(-9000, 9000, (70, 130), generator=torch.Generator().manual_seed(1)).to(dtype)
    b = a.flip(1).t().contiguous()[:, :65]
    for call in (
        torch.mm,
        lambda a, b: torch.bmm(a[None], b[None]),
        lambda a, b: b.t() @ a.t(),
        lambda a, b: a @ b[:, 0],
        lambda a, b: torch.dot(a[0], b[:, 3]),
    ):
        assert torch.equal(call(a.to("spyre"), b.to("spyre")).cpu(), call(a, b))


FALLS_BACK = {
    "a sum with integers": (
        lambda x: torch.addmm(x.int()[:, :3], x.int(), x.int().t()),
        "beta * self + alpha * product is a row of floats",
    ),
    "short integers": (lambda x: x.to(torch.uint8) @ x.to(torch.uint8).t(), "sums of 8 bits are not kept on the card"),
}


@pytest.mark.parametrize("name", FALLS_BACK)
def test_what_falls_back_is_known_and_right(name):
    host = torch.arange(12.0).view(3, 4)
    call, _ = FALLS_BACK[name]
    with pytest.raises(NotImplementedError, match="no kernel on spyre"):
        call(host.to("spyre"))
    torch.spyre.set_fallback_mode("silent")
    assert torch.equal(call(host.to("spyre")).cpu(), call(host))


def test_errors_are_those_of_torch():
    torch.spyre.set_fallback_mode("silent")  # some are found on the CPU
    host = torch.ones(3, 4)
    for wrong in (
        lambda x: x @ x,
        lambda x: torch.mm(x, x[0]),
        lambda x: torch.bmm(x, x),
        lambda x: x @ x.half().t(),
        lambda x: torch.addmm(x, x, x.t()),
    ):
        with pytest.raises(RuntimeError) as theirs:
            wrong(host)
        with pytest.raises(RuntimeError) as mine:
            wrong(host.to("spyre"))
        assert str(mine.value).splitlines()[0] == str(theirs.value).splitlines()[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_a_product_of_rows_that_run_across_those_of_memory(dtype):
    """As Longformer's windows: 13 elements from row to row, in memory 14."""

    def windows(x):
        return x.view(8, 4, 56)[:, :, :52].view(8, 4, 4, 13)[..., :12].reshape(32, 4, 12)

    x, weight = draw(8, 4, 4, 14, dtype=dtype), draw(32, 12, 16, dtype=dtype, seed=1)
    expected = windows(x).float() @ weight.float()
    found = torch.bmm(windows(x.to("spyre")), weight.to("spyre")).cpu().float()
    assert (found - expected).norm() < 2e-3 * expected.norm()
