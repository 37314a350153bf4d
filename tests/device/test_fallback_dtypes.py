"""A fallback whose kernel the CPU has not for a dtype computes in a wider one; results have the dtypes torch gives them."""

import warnings

import pytest
import torch
import torch.nn.functional as F

from torch_spyre.ops.fallbacks import FallbackWarning

HALVES = (torch.float16, torch.bfloat16)


def _both(function, *given, wide=torch.float32):
    """On the card in the given dtype, and on the CPU in a wide one from the same (rounded) numbers."""
    card = [x.to("spyre") if isinstance(x, torch.Tensor) else x for x in given]
    host = [x.cpu().to(wide) if isinstance(x, torch.Tensor) and x.dtype in HALVES else x for x in given]
    return function(*card), function(*host)


_LOSSES_AND_POOLS = {
    "avg_pool3d": lambda x: F.avg_pool3d(x.view(1, 2, 4, 4, 4), 2, padding=1),
    "local_response_norm": lambda x: F.local_response_norm(x.view(2, 4, 4, 4), 2),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x.view(8, 16), torch.arange(8, device=x.device)),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(
        x.view(2, 4, 4, 4), 2, output_size=2, _random_samples=torch.full((2, 4, 2), 0.5, dtype=x.dtype, device=x.device)
    ),
    "max_pool3d": lambda x: F.max_pool3d(x.view(1, 2, 4, 4, 4), 2),
    "histc": lambda x: torch.histc(x, 8, -2, 2),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", _LOSSES_AND_POOLS)
def test_halves_are_computed_as_float32(name, dtype):
    torch.manual_seed(0)
    got, want = _both(_LOSSES_AND_POOLS[name], torch.randn(128, dtype=dtype))
    assert got.dtype == dtype and got.device.type == "spyre"
    torch.testing.assert_close(got.cpu().float(), want, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("name", ["avg_pool3d", "local_response_norm", "multi_margin_loss", "max_pool3d"])
def test_and_their_gradients(name):
    torch.manual_seed(0)
    x = torch.randn(128, dtype=torch.float16)
    card, host = x.to("spyre").requires_grad_(), x.float().requires_grad_()
    for leaf in (card, host):
        _LOSSES_AND_POOLS[name](leaf).float().sum().backward()
    assert card.grad.dtype == torch.float16
    torch.testing.assert_close(card.grad.cpu().float(), host.grad, rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
def test_ctc_loss_of_halves(reduction):
    torch.manual_seed(0)
    logits = torch.randn(10, 2, 5).half()
    targets, lengths = torch.tensor([[1, 2, 3], [2, 2, 4]]), torch.tensor([10, 10])
    losses = []
    for device, dtype in (("spyre", torch.float16), ("cpu", torch.float32)):
        leaf = logits.to(device, dtype).requires_grad_()
        loss = F.ctc_loss(leaf.log_softmax(-1), targets.to(device), lengths, torch.tensor([3, 3]), reduction=reduction)
        assert loss.dtype == dtype
        loss.sum().backward()
        losses.append((loss.detach().cpu().float(), leaf.grad.cpu().float()))
    torch.testing.assert_close(losses[0], losses[1], rtol=2**-6, atol=2**-6)


_TRANSFORMS = {
    "rfft": (torch.fft.rfft, torch.complex32),
    "fft2": (torch.fft.fft2, torch.complex32),
    "hfft": (torch.fft.hfft, torch.float16),
    "irfftn": (torch.fft.irfftn, torch.float16),
}


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", _TRANSFORMS)
def test_fourier_transforms_of_halves_have_the_dtypes_of_other_devices(name, inference):
    torch.manual_seed(0)
    function, dtype = _TRANSFORMS[name]
    x = torch.randint(-8, 9, (3, 16)).half()
    with torch.inference_mode(inference):
        got, want = function(x.to("spyre")), function(x.float())
    assert got.dtype == dtype and function(x.to("meta")).dtype == dtype
    torch.testing.assert_close(got.cpu().to(want.dtype), want, rtol=2**-8, atol=2**-8 * want.abs().max().item())


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_and_the_gradients_of_fourier_transforms():
    x = torch.randint(-8, 9, (3, 16)).half()
    card, host = x.to("spyre").requires_grad_(), x.float().requires_grad_()
    for leaf in (card, host):
        torch.view_as_real(torch.fft.fft(leaf).to(torch.complex64)).square().sum().backward()
    assert card.grad.dtype == torch.float16
    torch.testing.assert_close(card.grad.cpu().float(), host.grad, rtol=2**-7, atol=0.5)


def test_a_transform_of_complex_halves():
    x = torch.randint(-8, 9, (16,)).to(torch.complex32)
    got = torch.fft.ifft(x.to("spyre"))
    assert got.dtype == torch.complex32
    torch.testing.assert_close(
        got.cpu().to(torch.complex64), torch.fft.ifft(x.to(torch.complex64)), rtol=2**-8, atol=2**-8
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_the_exponential_of_a_matrix_is_no_nan(dtype):
    x = torch.tensor([[0.5, 1.0], [-0.25, 2.0]], dtype=dtype)
    got, want = torch.linalg.matrix_exp(x.to("spyre")), torch.linalg.matrix_exp(x.float())
    assert got.dtype == dtype
    torch.testing.assert_close(got.cpu().float(), want, rtol=2**-8, atol=0)


def test_lists_of_tensors_are_written_back():
    lists = [torch.tensor([1, -2, 3], dtype=torch.int32, device="spyre"), torch.full((2,), 5, device="spyre")]
    found, factor = torch.zeros(1, device="spyre"), torch.tensor(2.0, device="spyre")
    torch._amp_foreach_non_finite_check_and_unscale_(lists[:1], found, factor)
    torch._amp_foreach_non_finite_check_and_unscale_(lists[1:], found, factor)
    assert lists[0].cpu().tolist() == [2, -4, 6] and lists[0].dtype == torch.int32
    assert lists[1].cpu().tolist() == [10, 10] and found.item() == 0


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.int16, torch.int8])
def test_histc_of_integers(dtype):
    x = torch.tensor([1, 1, 2, 5, 7, 7, 7, 100]).to(dtype)
    got = torch.histc(x.to("spyre"), 8, 0, 8)
    assert got.dtype == dtype and got.cpu().tolist() == [0, 2, 1, 0, 0, 1, 0, 3]


def test_integers_are_exact_beyond_float32():
    x = torch.tensor([16777217, 16777218], dtype=torch.int32)
    assert torch.histc(x.to("spyre"), 2, 16777217, 16777219).cpu().tolist() == [1, 1]


def test_out_and_results_of_several_dtypes():
    x = torch.randn(1, 2, 4, 4, 4, dtype=torch.float16)
    out = torch.empty(0, dtype=torch.float16, device="spyre")
    torch.ops.aten.avg_pool3d.out(x.to("spyre"), [2, 2, 2], out=out)
    torch.testing.assert_close(out.cpu().float(), F.avg_pool3d(x.float(), 2), rtol=2**-8, atol=2**-8)
    values, places = F.max_pool3d(x.to("spyre"), 2, return_indices=True)
    assert values.dtype == torch.float16 and places.dtype == torch.int64
    assert torch.equal(places.cpu(), F.max_pool3d(x, 2, return_indices=True)[1])


def test_it_is_counted_and_told_once():
    torch.spyre.set_fallback_mode("warn")
    x = torch.ones(1, 1, 2, 2, 2, dtype=torch.float16, device="spyre")
    with pytest.warns(FallbackWarning, match="avg_pool3d"):
        F.avg_pool3d(x, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.avg_pool3d(x, 2)
    (count,) = (row for name, row in torch.spyre.fallback_stats().items() if "avg_pool3d" in name)
    assert count["calls"] == 2 and count["bytes_to_host"] >= 32 and count["bytes_to_device"] == 4


def test_a_mistake_keeps_its_words():
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(torch.ones(3, dtype=torch.int32, device="spyre"), 4, 3, 1)
    with pytest.raises(RuntimeError, match="Expected a floating point"):
        torch.linalg.qr(torch.ones(2, 2, dtype=torch.int32, device="spyre"))


@pytest.mark.filterwarnings("ignore")  # Inductor's own
def test_compiled_too():
    x = torch.randn(1, 2, 4, 4, 4, dtype=torch.float16)
    for function, given in (
        (lambda x: F.avg_pool3d(x + 1, 2) * 2, x),
        (lambda x: torch.histc(x * 2, 4, 0, 8), torch.arange(6, dtype=torch.int32)),
        (lambda x: torch.fft.hfft(x * 2).abs(), x),
    ):
        card = given.to("spyre")
        got, want = torch.compile(function)(card), function(card)
        assert got.dtype == want.dtype and torch.equal(got.cpu(), want.cpu())
