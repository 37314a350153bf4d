"""Dtypes that the card has no format for: held as the host's bytes, computed on the CPU, and announced once."""

import copy
import io
import warnings

import pytest
import torch
import torch.nn.functional as F

from torch_spyre.ops.fallbacks import FallbackError, FallbackWarning

FOREIGN = [
    torch.float64,
    torch.complex32,
    torch.complex64,
    torch.complex128,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
]
pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
COMPUTED = [torch.float64, torch.complex64, torch.complex128]


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def values(dtype, *size):
    count = torch.Size(size).numel()
    numbers = torch.linspace(-3.7, 41.3, count, dtype=torch.float64)
    if dtype.is_complex:
        numbers = torch.complex(numbers, numbers.flip(0) / 3)
    elif not dtype.is_floating_point:
        numbers = numbers.abs() * 1000
    return numbers.to(dtype).reshape(size)


def same(card, host):
    assert card.device.type == "spyre"
    assert card.dtype == host.dtype
    assert card.shape == host.shape
    assert torch.equal(bits(card.cpu()), bits(host.resolve_conj().resolve_neg()))


@pytest.mark.parametrize("dtype", FOREIGN, ids=str)
def test_every_bit_comes_back(dtype):
    host = values(dtype, 5, 7)
    card = host.to("spyre")
    same(card, host)
    for view in (
        lambda t: t.t(),
        lambda t: t[1:, 2::2],
        lambda t: t[3, 4],
        lambda t: t.unfold(1, 3, 2),
        lambda t: t[:0],
    ):
        same(view(card), view(host))
    card[1:3, ::2] = host[:2, 1:5].to("spyre")
    host[1:3, ::2] = host[:2, 1:5].clone()
    same(card, host)
    same(card.clone(), host)
    same(torch.cat([card, card[:2]]), torch.cat([host, host[:2]]))
    assert card[2, 2].item() == host[2, 2].item()


@pytest.mark.parametrize("dtype", FOREIGN, ids=str)
def test_saved_loaded_and_copied(dtype):
    host = values(dtype, 6)
    card = host.to("spyre")
    file = io.BytesIO()
    torch.save({"whole": card, "part": card[2:]}, file)
    file.seek(0)
    loaded = torch.load(file)
    same(loaded["whole"], host)
    same(loaded["part"], host[2:])
    same(copy.deepcopy(card), host)


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_computing_gives_the_cpus_bits(dtype):
    host, other = values(dtype, 4, 6), torch.randn(4, 6)
    card, beside = host.to("spyre"), other.to("spyre")
    for call in (
        lambda x, y: x + y,
        lambda x, y: y * x,
        lambda x, y: x @ x.mT,
        lambda x, y: x.sum(1) / x.mean(),
        lambda x, y: x + y.int(),
        lambda x, y: torch.where(y > 0, x, 1),
        lambda x, y: x.to(torch.complex64),
        lambda x, y: torch.stack([x, y]),
        lambda x, y: torch.zeros_like(x).add_(x).mul_(y),
        lambda x, y: x.clone().copy_(y),
        lambda x, y: torch.mul(x, y, out=torch.empty(0, dtype=x.dtype, device=x.device)),
        lambda x, y: x.abs().sort().values,
    ):
        same(call(card, beside), call(host, other))
    assert str(card[:1, :2]).startswith(str(host[:1, :2]).rstrip(")").split("dtype")[0].rstrip(", "))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32], ids=str)
def test_a_cast_there_and_back(dtype):
    host = torch.arange(-6, 6).to(dtype)
    card = host.to("spyre")
    for foreign in (torch.float64, torch.complex64, torch.float8_e5m2):
        same(card.to(foreign), host.to(foreign))
        back = card.to(foreign).real if foreign.is_complex else card.to(foreign)
        same(back.to(dtype), host)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("dtype", FOREIGN)
@pytest.mark.parametrize("own", [torch.float32, torch.float16, torch.int32, torch.int64, torch.uint8, torch.bool])
def test_a_cast_within_the_card_converts_even_where_an_element_has_as_many_bytes(own, dtype):
    numbers = torch.tensor([0, 1, 2, 48, 100]).to(own)
    got = numbers.to("spyre").to(dtype)
    assert got.dtype == dtype
    assert torch.equal(bits(got.cpu()), bits(numbers.to(dtype)))
    assert torch.equal(bits(got.to(own).cpu()), bits(numbers.to(dtype).to(own)))


def test_operators_with_foreign_results():
    host = torch.randn(4, 6)
    card = host.to("spyre")
    for call in (
        lambda x: x.sum(dtype=torch.float64),
        lambda x: x.cumsum(0, dtype=torch.float64),
        lambda x: x + 1j,
        lambda x: x.int() / torch.tensor(2, dtype=torch.float64),
        lambda x: torch.softmax(x, 1, dtype=torch.float64),
        torch.fft.rfft,
        lambda x: torch.fft.irfft(torch.fft.rfft(x)),
        lambda x: torch.complex(x, x).abs(),
        lambda x: torch.polar(x.abs(), x),
        lambda x: torch.logspace(0, 1, 5, device=x.device),
        lambda x: torch.logspace(0, 1, 5, dtype=torch.float64, device=x.device),
    ):
        torch.testing.assert_close(call(card).cpu(), call(host))


def test_the_parts_of_complex_numbers_are_views():
    host = values(torch.complex64, 3, 4)
    card = host.to("spyre")
    for write in (
        lambda c: c.real.mul_(2),
        lambda c: torch.view_as_real(c)[1].zero_(),
        lambda c: c.imag.t()[1:].add_(1),
        lambda c: c.view(torch.float32)[0, 1:3].fill_(9),
        lambda c: c[2].conj().mul_(1j),
    ):
        write(card), write(host)
        same(card, host)
    same(card.real + 1, host.real + 1)
    same(copy.deepcopy(card), host)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
def test_numbers_seen_as_complex_are_the_same_memory(dtype):
    host = torch.arange(24).reshape(3, 4, 2).to(dtype)
    card = host.to("spyre")
    torch.view_as_complex(card)[1:, 2].fill_(7 + 8j)
    torch.view_as_complex(host)[1:, 2].copy_(torch.tensor(7 + 8j))
    same(card, host)
    same(torch.view_as_complex(card)[:, 1:], torch.view_as_complex(host)[:, 1:])
    card[0].zero_(), host[0].zero_()
    same(torch.view_as_complex(card), torch.view_as_complex(host))


def test_a_16_bit_neighbour_of_a_complex_write_keeps_what_only_the_card_can_hold():
    card = torch.full((4, 2), 60000.0, dtype=torch.float16, device="spyre") * 2
    torch.view_as_complex(card)[1].fill_(1 + 2j)
    assert card.float().cpu()[[0, 2, 3]].eq(card.float().cpu()[0, 0]).all()
    assert card.float().cpu()[0, 0] > 65504


def test_marks_of_conjugation_and_negation_are_done_by_copies():
    host = values(torch.complex64, 3, 4)
    card = host.to("spyre")
    for view in (lambda c: c.conj(), lambda c: c.conj().imag, lambda c: c.conj().t()[1:]):
        same(view(card), view(host))
        same(view(host).to("spyre"), view(host))
        same(view(card).clone() + 1, view(host).clone() + 1)
    card.conj()[1] = host.conj()[0].to("spyre")
    host.conj()[1] = host.conj()[0].clone()
    same(card, host)


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_gradients_pass_through(dtype):
    host = torch.randn(5, 3)

    def loss(x):
        wide = x.to(dtype)
        return ((wide * wide).sum(1) / 3).abs().sum().to(torch.float32)

    card = host.to("spyre").requires_grad_()
    host.requires_grad_()
    loss(card).backward(), loss(host).backward()
    torch.testing.assert_close(card.grad.cpu(), host.grad)


def test_views_of_other_bits():
    host = values(torch.float64, 4)
    same(host.to("spyre").view(torch.uint64), host.view(torch.uint64))
    with pytest.raises(RuntimeError, match="go over the CPU"):
        host.to("spyre").view(torch.int64)
    with pytest.raises(RuntimeError, match="go over the CPU"):
        host.int().to("spyre").view(torch.uint32)


def test_no_layout_and_no_format():
    assert torch.spyre.get_device_dtype(torch.float64).name == "INVALID"
    card = torch.zeros(3, dtype=torch.float64, device="spyre")
    assert card.device_tensor_layout() is None
    with pytest.raises(RuntimeError, match="float64 has no layout: the card has no format"):
        torch.spyre.get_spyre_tensor_layout(card)
    layout = torch.zeros(3, device="spyre").device_tensor_layout()
    with pytest.raises(RuntimeError, match="does not support dtype float64"):
        torch.empty(3, dtype=torch.float64, device="spyre", device_layout=layout)
    with pytest.raises(RuntimeError, match="does not support dtype complex64"):
        torch.spyre.SpyreTensorLayout([3], torch.complex64)


def test_said_once_per_dtype_and_refused_on_request():
    torch.spyre.set_fallback_mode("warn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        card = torch.zeros(3, dtype=torch.float64, device="spyre")
        torch.zeros(3, dtype=torch.float64, device="spyre")
        torch.empty(3, dtype=torch.complex64, device="spyre")
    told = [str(w.message) for w in caught if w.category is FallbackWarning and "no format" in str(w.message)]
    assert [text.split("no format for ")[1].split(":")[0] for text in told] == ["float64", "complex64"]
    torch.spyre.set_fallback_mode("error")
    with pytest.raises(FallbackError, match="aten::add"):
        card + 1
    assert card.cpu().sum() == 0  # holding and copying is no computing


def test_the_grad_scaler_scales():
    model = torch.nn.Linear(4, 2).to("spyre")
    scaler = torch.amp.GradScaler("spyre", init_scale=8.0, growth_interval=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.detach().cpu()
    with torch.autocast("spyre", dtype=torch.float16):
        loss = model(torch.ones(3, 4, device="spyre")).float().sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close(model.weight.detach().cpu(), before - 0.3)
    assert scaler.get_scale() == 16.0


_IN_THEIR_OWN = {
    "avg_pool2d": lambda x: F.avg_pool2d(x[None], 3, padding=1),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 3, ceil_mode=True),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:], x[0] + 1, x[0]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[1:], x[0] + 1),
    "local_response_norm": lambda x: F.local_response_norm(x, 2),
    "embedding": lambda x: F.embedding(torch.arange(4, device=x.device) % 2, x[0], scale_grad_by_freq=True),
}


@pytest.mark.parametrize("name", _IN_THEIR_OWN)
def test_no_composition_leaves_float64(name):
    torch.manual_seed(0)
    host = torch.randn(2, 6, 8, dtype=torch.float64).requires_grad_()
    card = host.detach().to("spyre").requires_grad_()
    results = [_IN_THEIR_OWN[name](x) for x in (host, card)]
    slope = torch.randn(results[0].shape, dtype=torch.float64)
    results[0].backward(slope)
    results[1].backward(slope.to("spyre"))
    for got, want in ((results[1], results[0]), (card.grad, host.grad)):
        assert got.dtype == torch.float64
        torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=2**-40, atol=2**-40)


_DRAWN = {
    "rand": (lambda x: torch.rand(x.shape, dtype=x.dtype, device=x.device), 0, 1),
    "rand_like": (torch.rand_like, 0, 1),
    "uniform_": (lambda x: x.uniform_(-100, 100), -100, 100),
    "uniform": (lambda x: torch.ops.aten.uniform(x, 2, 5), 2, 5),
    "normal_": (lambda x: x.normal_(3, 0.1), 2, 4),
    "randn": (lambda x: torch.randn(x.shape, dtype=x.dtype, device=x.device), -8, 8),
}


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
@pytest.mark.parametrize("name", _DRAWN)
def test_numbers_are_drawn_in_every_part(name, dtype):
    draw, low, high = _DRAWN[name]
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(draw(torch.zeros(40, 5, dtype=dtype).to("spyre")))
        assert drawn[-1].dtype == dtype and drawn[-1].device.type == "spyre"
    first, again, other = (x.cpu() for x in drawn)
    assert torch.equal(first, again) and not torch.equal(first, other)
    for part in torch.view_as_real(first).unbind(-1) if dtype.is_complex else (first,):
        assert part.min() >= low and part.max() < high and part.unique().numel() > 190


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_ends_that_make_no_range_are_told(dtype):
    with pytest.raises(RuntimeError, match=r"uniform_ expects to return a \[from, to\) range"):
        torch.zeros(4, dtype=dtype).to("spyre").uniform_(2, 1)
