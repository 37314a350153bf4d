"""Images in other sizes and with padding around them: what torch's CPU says in float64, with the bits of a compiled graph."""

import pytest
import torch
import torch.nn.functional as F

MOVES = {
    "nearest twice": lambda x: F.interpolate(x, scale_factor=2.0),
    "nearest smaller": lambda x: F.interpolate(x, size=(3, 40)),
    "nearest by a fraction": lambda x: F.interpolate(x, scale_factor=(1.7, 0.4)),
    "nearest of signals": lambda x: F.interpolate(x[0], size=101),
    "reflect": lambda x: F.pad(x, (3, 2, 1, 4), mode="reflect"),
    "reflect all but one": lambda x: F.pad(x, (66, 66, 6, 6), mode="reflect"),
    "reflect on one side": lambda x: F.pad(x, (0, 5, 2, 0), mode="reflect"),
    "reflect nothing": lambda x: F.pad(x, (0, 0, 0, 0), mode="reflect"),
    "reflect signals": lambda x: F.pad(x[0], (1, 9), mode="reflect"),
    "reflect volumes": lambda x: F.pad(x, (1, 2, 3, 4, 2, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x, (3, 2, 1, 4), mode="replicate"),
    "replicate and cut": lambda x: F.pad(x, (3, -2, -1, 4), mode="replicate"),
    "replicate more than there is": lambda x: F.pad(x, (70, 80, 9, 8), mode="replicate"),
    "replicate volumes": lambda x: F.pad(x, (1, 2, 3, 4, 2, 1), mode="replicate"),
}
MOVES |= {
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
    "pixel_shuffle by 3": lambda x: F.pixel_shuffle(x.repeat(1, 6, 1, 1), 3),
    "pixel_shuffle without a batch": lambda x: F.pixel_shuffle(x[0].repeat(4, 1, 1), 2),
}
MIXES = {
    "linear": lambda x: F.interpolate(x[0], size=101, mode="linear"),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
    "bilinear of corners": lambda x: F.interpolate(x, size=(13, 20), mode="bilinear", align_corners=True),
    "bilinear to one": lambda x: F.interpolate(x, size=(1, 1), mode="bilinear", align_corners=True),
    "trilinear": lambda x: F.interpolate(x[None], size=(5, 9, 70), mode="trilinear"),
    "bicubic": lambda x: F.interpolate(x, scale_factor=(1.5, 2.0), mode="bicubic"),
    "bicubic of corners": lambda x: F.interpolate(x, size=(4, 90), mode="bicubic", align_corners=True),
}
MIXES |= {  # dims that are worth turning the sticks to
    "linear of many channels": lambda x: F.interpolate(x[0].repeat(1, 5, 1), size=101, mode="linear"),
    "linear to fewer": lambda x: F.interpolate(x[0].repeat(1, 5, 1), size=30, mode="linear"),
    "bilinear of high images": lambda x: F.interpolate(x.repeat(1, 1, 3, 1), scale_factor=1.7, mode="bilinear"),
    "bilinear of slices": lambda x: F.interpolate(x.repeat(1, 1, 4, 1)[:, :, 3:, 1:-1], size=(20, 90), mode="bilinear"),
    "bilinear of channels that lie last": lambda x: F.interpolate(
        x.repeat(1, 8, 3, 1).contiguous(memory_format=torch.channels_last), scale_factor=2.0, mode="bilinear"
    ),
    "trilinear of high volumes": lambda x: F.interpolate(
        x[None].repeat(1, 1, 1, 3, 1), size=(5, 9, 70), mode="trilinear"
    ),
    "bicubic of high images": lambda x: F.interpolate(x.repeat(1, 1, 3, 1), scale_factor=(0.6, 1.5), mode="bicubic"),
}


def _image(dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(2, 3, 7, 67, generator=torch.Generator().manual_seed(3)).to(dtype).to("spyre").cpu()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("name", MOVES)
def test_elements_are_only_moved(name, dtype):
    x = _image(torch.float32).mul(9).to(dtype).to("spyre").cpu()
    if dtype is torch.int64 and "nearest" in name:
        pytest.skip("torch's CPU has no such kernel")
    torch.testing.assert_close(MOVES[name](x.to("spyre")).cpu(), MOVES[name](x), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", MIXES)
def test_elements_between(name, dtype):
    x = _image(dtype)
    got, want = MIXES[name](x.to("spyre")).cpu(), MIXES[name](x.double())
    bound = 2.0**-9 if dtype is torch.float16 else 2e-5
    torch.testing.assert_close(got.double(), want, rtol=bound, atol=bound)


@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
@pytest.mark.parametrize("name", MOVES | MIXES)
def test_a_graph_has_the_same_bits(name):
    call, x = (MOVES | MIXES)[name], _image(torch.float16).to("spyre")
    assert torch.equal(torch.compile(call, dynamic=False)(x).cpu(), call(x).cpu())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", [name for name in MOVES | MIXES if not name.startswith(("nearest", "replicate"))])
def test_gradients(name, dtype):
    call, x = (MOVES | MIXES)[name], _image(dtype)
    on_card, on_host = x.to("spyre").requires_grad_(), x.double().requires_grad_()
    shape = call(on_host).shape
    weights = torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    call(on_card).backward(weights.to("spyre"))
    call(on_host).backward(weights.double())
    scale = float(on_host.grad.abs().max())
    bound = 2.0**-7 if dtype is torch.float16 else 1e-5
    torch.testing.assert_close(on_card.grad.cpu().double(), on_host.grad, rtol=bound, atol=bound * scale)


@pytest.mark.parametrize("height", [8, 24])
@pytest.mark.parametrize("number", [float("inf"), float("nan")], ids=str)
def test_an_infinity_stays_where_it_is(number, height):
    x = torch.zeros(1, 1, height, 70)
    x[0, 0, 4, 33] = number
    got = F.interpolate(x.half().to("spyre"), scale_factor=2.0, mode="bilinear").cpu()
    assert torch.equal(got.isfinite(), F.interpolate(x, scale_factor=2.0, mode="bilinear").isfinite())
