"""How near the card must be to torch on the CPU in float64, for one call and its gradients.

The reference takes the values the card holds. It is run again, several times, with operands and every operator's results moved
at random by one rounding of the format (`judge.Noise`): what that does to an element is the condition of the call times the
rounding, with the square root of the length of its sums in it. Six times that is allowed, and a unit of the element itself.
Integers and truth values must be equal, unless such a rounding changes them. Where the call fell back, twice the distance
that torch's own CPU operator has there in the call's dtype is allowed: how its kernels round inside is not seen from here.
Linear algebra and Fourier transforms bound the whole result, so theirs is the largest distance. Kernels of ours get no such
excuse, but for leaving the range of numbers where torch does in this dtype.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from typing import Any

import torch
from judge import ROUNDING, Noise, Widened
from oracle import HALVES, through_card
from torch._decomp import get_decompositions
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

RUNS = 8  # each element's own noise must be seen: the result's other elements may be of another size
SPREAD = 6.0
_LARGEST = {torch.float16: 8573157376.0, torch.bfloat16: 8573157376.0, torch.float32: torch.finfo(torch.float32).max}
_SMALLEST = 2.0**-31  # what SEN169 holds; half of it and less is zero
_NORMWISE = re.compile(r"linalg|svd|cholesky|\blu_|lstsq|geqrf|orgqr|ormqr|triangular_solve|fft")
_WIDE = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}

_aten = torch.ops.aten
_COMPOSITES = get_decompositions(
    [
        _aten._softmax, _aten._log_softmax, _aten._softmax_backward_data, _aten._log_softmax_backward_data,
        _aten.native_layer_norm, _aten.native_layer_norm_backward, _aten.native_group_norm, _aten.native_group_norm_backward,
        _aten.native_batch_norm_backward, _aten.log_sigmoid_forward, _aten.log_sigmoid_backward, _aten.binary_cross_entropy,
        _aten.binary_cross_entropy_with_logits, _aten.soft_margin_loss, _aten.soft_margin_loss_backward,
        _aten._native_batch_norm_legit, _aten.native_batch_norm, _aten.logit, _aten.logaddexp, _aten.logsumexp,
    ]
)  # fmt: skip


def _layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """As the card has it: the variance is the difference of mean square and squared mean (contract, composites)."""
    dims = list(range(x.dim() - len(shape), x.dim()))
    mean, square = x.mean(dims, keepdim=True), (x * x).mean(dims, keepdim=True)
    scale = ((square - mean * mean).clamp(min=0) + eps).rsqrt()
    result = (x - mean) * scale
    result = result if weight is None else result * weight
    return result if bias is None else result + bias, mean, scale


_COMPOSITES[_aten.native_layer_norm.default] = _layer_norm


def rounding(dtype: torch.dtype) -> float:
    if dtype is torch.bfloat16:  # what comes from the host has its bits, which are fewer than the card's
        return 2.0**-9
    return 2.0**-52 if dtype in (torch.float64, torch.complex128) else ROUNDING[dtype in HALVES]


def held(tensor: torch.Tensor) -> torch.Tensor:
    """The host's tensor with the numbers that the card holds, in the same strides."""
    if tensor.dtype not in HALVES:
        return tensor
    return torch.empty_like(tensor).copy_(through_card(tensor.float(), tensor.dtype))


def widened(tensor: torch.Tensor) -> torch.Tensor:
    wide = torch.float64 if tensor.is_floating_point() else _WIDE.get(tensor.dtype, tensor.dtype)
    return tensor.to(wide) if wide != tensor.dtype else tensor.clone()


def reference(run: Callable[[list[torch.Tensor]], Any], tensors: list[torch.Tensor], step: float, seed: int) -> Any:
    """What the call gives in float64; `step` is the size of the roundings played."""
    wide = [widened(tensor) for tensor in tensors]
    noise = Roundings(step, seed)
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


class Roundings(Noise):
    """The noise of a call: composites (N4) round at each of their steps, and numbers are encoded in the format (N7)."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map_only(float, self.encoded, (args, kwargs or {}))
        steps = _COMPOSITES.get(func)
        if steps is None:
            return super().__torch_dispatch__(func, types, args, kwargs)
        with self:
            return steps(*args, **kwargs)

    def encoded(self, number: float) -> float:
        if not math.isfinite(number) or (math.frexp(number)[0] / self.step).is_integer():
            return number
        return number * (1 + self.step * (2 * torch.rand((), generator=self.generator).item() - 1))


class OtherDraws(TorchDispatchMode):
    """Random operators draw from another seed, whatever the call's own seed is."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed, self.seen = seed, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **(kwargs or {}))
        self.seen, state = True, torch.get_rng_state()
        torch.manual_seed(self.seed)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            torch.set_rng_state(state)


def drawn(run: Callable[[list[torch.Tensor]], Any], tensors: list[torch.Tensor], right: list[Any]) -> list[bool]:
    """Which results are others under other seeds: of random numbers only shape and dtype are compared here."""
    found = [False] * len(right)
    for seed in range(1_000_003, 1_000_003 + RUNS):
        with OtherDraws(seed) as draws:
            again = reference(run, tensors, 0.0, 0)
        if not draws.seen:
            break
        found = [known or (a is not None and not _same(a, b)) for known, a, b in zip(found, right, again, strict=True)]
    return found


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def allowance(right: torch.Tensor, moved: list[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    unit, smallest = rounding(dtype), _smallest(dtype)
    size = right.abs().nan_to_num(0.0, 0.0)
    away = torch.stack([(other - right).abs().nan_to_num(0.0, 0.0) for other in moved or [right]]).amax(0)
    usual = (away / size).nan_to_num(0.0, 0.0).median() * size  # an element's runs may all come out near by chance
    return SPREAD * torch.maximum(away, usual) + 2 * unit * size + smallest


def _smallest(dtype: torch.dtype) -> float:
    return _SMALLEST if dtype in HALVES else torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps


def complaint(
    got: torch.Tensor,
    dtype: torch.dtype,
    right: torch.Tensor,
    moved: list[torch.Tensor],
    own: torch.Tensor | None,
    fallen: Collection[str],
) -> str | None:
    """What is wrong with `got`, fetched from the card, or None. `own` is what torch gives on the CPU in this dtype,
    `fallen` are the operators that the CPU did."""
    if got.shape != right.shape:
        return f"shape {tuple(got.shape)}, not {tuple(right.shape)}"
    if not right.numel():
        return None
    if not (right.is_floating_point() or right.is_complex()):
        wrong = got.to(right.dtype) != right
        if fallen and own is not None and own.shape == got.shape:
            wrong &= got != own
        for other in moved:
            wrong &= other == right
        return _first(got, right, wrong)
    allowed = allowance(right, moved, dtype)
    numbers = got.to(right.dtype)
    same = (numbers == right) | (numbers.isnan() & right.isnan()) | _beyond(numbers, right, dtype)
    if own is not None and own.shape == got.shape:
        same |= ~numbers.isfinite() & ~own.isfinite()
        if fallen:
            allowed = torch.maximum(allowed, _inner_roundings(held(own).to(right.dtype), right, fallen))
    wrong = ~(same | ((numbers - right).abs() <= allowed))
    where = _first(got, right, wrong)
    return f"{where} {_distance(numbers, right, wrong, allowed, dtype)}" if where else None


def _inner_roundings(own: torch.Tensor, right: torch.Tensor, fallen: Collection[str]) -> torch.Tensor:
    """How far torch's own kernels are off in this dtype."""
    away = 2 * (own - right).abs().nan_to_num(0.0, 0.0)
    return away.amax().expand(right.shape) if any(map(_NORMWISE.search, fallen)) else away


def _beyond(got: torch.Tensor, right: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Both are no number of the format; NaN and the infinities are one code in 16 bits (N2)."""
    largest = _LARGEST.get(dtype, float("inf"))
    both = ~got.isfinite() & ~(right.abs() <= largest * (1 - 2.0**-9))
    return both if dtype in HALVES or right.is_complex() else both & (got == right.sign() * float("inf"))


def _first(got: torch.Tensor, right: torch.Tensor, wrong: torch.Tensor) -> str | None:
    if not wrong.any():
        return None
    spot = tuple(wrong.nonzero()[0].tolist())
    return (
        f"at {list(spot)}, {int(wrong.sum())} of {wrong.numel()}: {got[spot].item()!r}, exactly {right[spot].item()!r}"
    )


def _distance(
    got: torch.Tensor, right: torch.Tensor, wrong: torch.Tensor, allowed: torch.Tensor, dtype: torch.dtype
) -> str:
    largest = right.abs().nan_to_num(0.0, 0.0, 0.0).amax() * rounding(dtype)
    worst = ((got - right).abs()[wrong].nan_to_num(math.inf, math.inf) / largest).amax().item()
    return f"within {allowed[wrong][0].item():.3g}, at most {worst:.3g} roundings of the largest"
