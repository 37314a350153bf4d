"""Operands for tests of operators that move elements: every dtype, shapes that meet sticks well and badly, and the comparison."""

import torch

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool)
SHAPES = ((4, 128), (3, 70), (2, 65, 130), (1, 65), (70, 1), (5,), (2, 3, 4, 33))
VIEWS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1),
    "sliced": lambda x: x[..., 1:],
    "strided": lambda x: x[..., ::2],
    "broadcast": lambda x: x.unsqueeze(0).expand(2, *x.shape),
}


def values(shape, dtype, seed=0):
    """Numbers every dtype holds exactly on the card: movement must not change a bit of them."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(-60, 60, shape, generator=generator)
    return (numbers / 4 if dtype.is_floating_point else numbers.abs() % (2 if dtype is torch.bool else 256)).to(dtype)


def same(on_card, on_host):
    """Shape, dtype and every value: what the card returns is compared after it has been read back."""
    found = on_card.cpu()
    assert found.dtype == on_host.dtype
    assert found.shape == on_host.shape
    assert torch.equal(found, on_host)
