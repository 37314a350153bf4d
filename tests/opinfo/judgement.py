"""How near the card must be to torch on the CPU in float64, for one call and its gradients.

The reference takes the values the card holds. It is run again, three times, with operands and every operator's results moved
at random by one rounding of the format (`judge.Noise`): what that does to a result is the condition of the call times the
rounding, with the square root of the length of its sums in it. Six times that is allowed, and a unit of the result itself.
Integers and truth values must be equal, unless such a rounding changes them. What torch's own CPU operator gives in the
call's dtype is right as well: that is what a fallback promises, and how its kernels round inside is not seen from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from judge import ROUNDING, Noise, Widened
from oracle import HALVES, through_card
from torch.utils._python_dispatch import TorchDispatchMode

SPREAD = 6.0
_LARGEST = {torch.float16: 8573157376.0, torch.bfloat16: 8573157376.0, torch.float32: torch.finfo(torch.float32).max}
_WIDE = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}


def held(tensor: torch.Tensor) -> torch.Tensor:
    """The host's tensor with the numbers that the card holds, in the same strides."""
    if tensor.dtype not in HALVES:
        return tensor
    return torch.empty_like(tensor).copy_(through_card(tensor.float(), tensor.dtype))


def widened(tensor: torch.Tensor) -> torch.Tensor:
    wide = torch.float64 if tensor.is_floating_point() else _WIDE.get(tensor.dtype, tensor.dtype)
    return tensor.to(wide) if wide != tensor.dtype else tensor.clone()


class Draws(TorchDispatchMode):
    """Notices whether random numbers are drawn."""

    seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def reference(run: Callable[[list[torch.Tensor]], Any], tensors: list[torch.Tensor], step: float, seed: int) -> Any:
    """What the call gives in float64; `step` is the size of the roundings played."""
    wide = [widened(tensor) for tensor in tensors]
    noise = Noise(step, seed)
    for value in wide if step else ():
        noise.shake(value)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Widened():
            if not step:
                return run(wide)
            with noise:
                return run(wide)
    finally:
        torch.set_default_dtype(default)


def allowance(right: torch.Tensor, moved: list[torch.Tensor], unit: float) -> torch.Tensor:
    away = torch.stack([(other - right).abs().nan_to_num(0.0, 0.0) for other in moved or [right]])
    typical = away.square().mean().sqrt() if away.numel() else 0.0
    size = right.abs().nan_to_num(0.0, 0.0)
    return SPREAD * torch.maximum(away.amax(0), typical + torch.zeros_like(away[0])) + 2 * unit * size + 1e-9


def complaint(
    got: torch.Tensor, dtype: torch.dtype, right: torch.Tensor, moved: list[torch.Tensor], own: torch.Tensor | None
) -> str | None:
    """What is wrong with `got`, fetched from the card, or None. `own` is what torch gives on the CPU in this dtype."""
    if got.shape != right.shape:
        return f"shape {tuple(got.shape)}, not {tuple(right.shape)}"
    if not right.numel():
        return None
    if not (right.is_floating_point() or right.is_complex()):
        wrong = got.to(right.dtype) != right
        if own is not None and own.shape == got.shape:
            wrong &= got != own
        for other in moved:
            wrong &= other == right
        return _first(got, right, wrong)
    unit = ROUNDING[dtype in HALVES]
    allowed = allowance(right, moved, unit)
    numbers = got.to(right.dtype)
    same = (numbers == right) | (numbers.isnan() & right.isnan()) | _beyond(numbers, right, dtype)
    if own is not None and own.shape == got.shape:
        same |= numbers == held(own).to(right.dtype)
    return _first(got, right, ~(same | ((numbers - right).abs() <= allowed)), allowed)


def _beyond(got: torch.Tensor, right: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Both are no number of the format; NaN and the infinities are one code in 16 bits (N2)."""
    largest = _LARGEST.get(dtype, float("inf"))
    both = ~got.isfinite() & ~(right.abs() <= largest * (1 - 2.0**-9))
    return both if dtype in HALVES or right.is_complex() else both & (got == right.sign() * float("inf"))


def _first(
    got: torch.Tensor, right: torch.Tensor, wrong: torch.Tensor, allowed: torch.Tensor | None = None
) -> str | None:
    if not wrong.any():
        return None
    spot = tuple(wrong.nonzero()[0].tolist())
    within = f" within {allowed[spot].item():.3g}" if allowed is not None else ""
    return f"at {list(spot)}, {int(wrong.sum())} of {wrong.numel()}: {got[spot].item()!r}, exactly {right[spot].item()!r}{within}"
