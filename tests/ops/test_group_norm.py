"""Group norm against float64: ranks beyond the card's, groups of one place, parameters of another dtype, and where variance is small."""

import pytest
import torch
import torch.nn.functional as F

TOLERANCE = {torch.float16: 1.5e-2, torch.bfloat16: 6e-2, torch.float32: 2e-5, torch.float64: 1e-9}
SHAPES = {  # groups: sizes of the images they are tried with
    3: [(2, 6)], 2: [(2, 6, 5), (2, 4, 2, 3, 2, 2), (2, 4, 2, 1, 2, 2, 3), (0, 4, 3)], 4: [(3, 8, 1, 1), (2, 12, 3, 4, 5)],
    32: [(1, 64, 7, 9)], 1: [(2, 128, 16)],
}  # fmt: skip


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize(
    ("shape", "groups"), [(shape, groups) for groups, shapes in SHAPES.items() for shape in shapes]
)
@pytest.mark.filterwarnings("ignore:var_mean")  # the CPU's, of no elements in float64
@pytest.mark.parametrize("parameters", [(), ("weight",), ("bias",), ("weight", "bias")], ids=" ".join)
def test_values_and_statistics(shape, groups, dtype, parameters):
    torch.spyre.set_fallback_mode("silent")  # float64 is the CPU's
    generator = torch.Generator().manual_seed(len(shape))
    x = (torch.randn(shape, generator=generator) * 3 + 2).to(dtype).to("spyre").cpu()  # what the format holds
    given = [
        torch.randn(shape[1], generator=generator).to(dtype) if p in parameters else None for p in ("weight", "bias")
    ]
    places = x[0, 0].numel() if shape[0] else 3
    more = (*shape[:2], places, groups, 1e-5)
    wide = [p if p is None else p.double() for p in given]
    wanted = torch.native_group_norm(x.double(), *wide, *more)
    found = torch.native_group_norm(x.to("spyre"), *(p if p is None else p.to("spyre") for p in given), *more)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.cpu().double(), other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        assert one.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parameters_in_float32(dtype):
    x, weight, bias = torch.randn(2, 6, 7).to(dtype), torch.randn(6), torch.randn(6)
    found = F.group_norm(x.to("spyre"), 3, weight.to("spyre"), bias.to("spyre"))
    wanted = F.group_norm(x, 3, weight, bias)
    assert found.dtype == wanted.dtype == dtype
    torch.testing.assert_close(found.cpu().float(), F.group_norm(x.float(), 3, weight, bias), rtol=6e-2, atol=6e-2)


def test_float32_does_not_lose_a_small_variance():
    """A mean of squares would: 10000 and a variance of 1e-4 do not fit one float32."""
    x = 100 + 0.01 * torch.randn(2, 4, 50, generator=torch.Generator().manual_seed(0))
    found = F.group_norm(x.to("spyre"), 2).cpu()
    torch.testing.assert_close(found.double(), F.group_norm(x.double(), 2), rtol=2e-3, atol=2e-3)
