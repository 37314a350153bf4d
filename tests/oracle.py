"""The outside judge of the operator tests: torch on the CPU in float64, on the values the card holds, rounded as the contract says.

A 16-bit result must be the nearest SEN169 number (N1), except within a hair of a tie; float32 results are counted in units of
the last place; integers and truth values must be equal.
"""

import numpy as np
import torch

from openspyre.spec.encodings import sen169_decode, sen169_encode

HALVES = (torch.float16, torch.bfloat16)
_HAIR = 2.0**-21  # two units of fp32's last place: what a function may be off before it is rounded (N7)
_ORACLE = 2.0**-52  # float64 rounds, too


def held(value):
    """What the card computes with: float64 for floats, everything else unchanged."""
    if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
        exact = through_card(value.float(), value.dtype).double()
        return torch.where(exact.isnan(), float("nan"), exact)  # a NaN's sign says nothing (N2)
    return value


def through_card(values, dtype):
    """float32 values as a tensor of this dtype holds them on the card."""
    if dtype not in HALVES:
        return values.float()
    return torch.from_numpy(sen169_decode(sen169_encode(values.contiguous().numpy())).reshape(values.shape).copy())


def fetch(result):
    """A result's numbers; 16-bit floats widened on the card, because float16 on the host cannot hold all of them."""
    return result.float().cpu() if result.dtype in HALVES else result.cpu()


def assert_rounded(result, exact, ulps=1, fp32_ulps=0, slack=None, alternative=None):
    """`result` (on the card) is `exact` (float64) but for rounding; `slack` is what the exact value itself may be off.

    `alternative` is right, too, where it is no number: an intermediate of a composite left the range of fp32.
    """
    got = fetch(result)
    assert got.shape == exact.shape, f"shape {tuple(got.shape)}, not {tuple(exact.shape)}"
    if not result.dtype.is_floating_point:
        assert torch.equal(got, exact.to(got.dtype)), _first(got, exact, got != exact.to(got.dtype))
        return
    exact = exact.double()
    slack = torch.zeros_like(exact) if slack is None else slack.double()
    half = result.dtype in HALVES
    spread = slack + exact.abs() * (_HAIR * ulps if half else _ORACLE)
    spread = torch.where(spread.isfinite(), spread, 0.0)
    place = _sen169_place if half else _fp32_place
    allowed = ulps - 1 if half else fp32_ulps
    mine = place(got.double())
    lowest, highest = place(exact - spread) - allowed, place(exact + spread) + allowed
    wrong = (mine < lowest) | (mine > highest)
    if alternative is not None:
        wrong &= (mine != place(alternative.double())) | alternative.isfinite()
    assert not wrong.any(), _first(got, exact, wrong)


def _first(got, exact, wrong):
    where = wrong.nonzero()[0].tolist()
    spot = tuple(where)
    return f"at {where} of {int(wrong.sum())} wrong: {got[spot].item()!r}, exactly {exact[spot].item()!r}"


def _sen169_place(values):
    """A number's place among all SEN169 numbers; NaN stands apart from the infinities."""
    codes = sen169_encode(values.contiguous().numpy()).astype(np.int64)
    place = np.where(codes & 0x8000, -(codes & 0x7FFF), codes)
    return torch.from_numpy(np.where(np.isnan(values.numpy()), 1 << 17, place))


def _fp32_place(values):
    """A number's place among all fp32 numbers; NaN stands apart from the infinities."""
    with np.errstate(over="ignore"):
        bits = values.contiguous().numpy().astype(np.float32).view(np.uint32).astype(np.int64)
    magnitude = bits & 0x7FFFFFFF
    place = np.where(bits >> 31, -magnitude, magnitude)
    return torch.from_numpy(np.where(np.isnan(values.numpy()), 1 << 33, place))
