"""Random operators made of others: sampling by weights, permutations, leaky slopes. What is drawn is drawn by rows of the op table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_spyre.ops.compositions import into
from torch_spyre.ops.searching import places

Generator = torch.Generator | None
_aten = torch.ops.aten


def _multinomial(
    weights: torch.Tensor, samples: int, replacement: bool = False, *, generator: Generator = None
) -> torch.Tensor:
    """A race without replacement: the k smallest of Exp(1) / weight, as other accelerators do it. In float32 always."""
    _aten.multinomial.default(torch.empty_like(weights, device="meta"), samples, replacement)  # torch's errors
    weights = weights.float()
    total = weights.sum(-1)
    sound = (weights.amin() >= 0) & (total > 0).all() & (total < float("inf")).all()
    _aten._assert_async.msg(
        sound, "probability tensor contains either `inf`, `nan` or element < 0, or a row of it sums to 0"
    )
    if replacement and samples > 1:
        return _by_cumulation(weights, samples, generator)
    race = weights / _aten.exponential(weights, 1.0, generator=generator)
    return race.argmax(-1, keepdim=True) if samples == 1 else race.topk(samples)[1]


def _by_cumulation(weights: torch.Tensor, samples: int, generator: Generator) -> torch.Tensor:
    """How many cumulated weights a number does not reach."""
    cumulated = weights.cumsum(-1)
    numbers = (
        _aten.uniform(weights.new_empty((*weights.shape[:-1], samples)), generator=generator) * cumulated[..., -1:]
    )
    return places(cumulated, numbers, right=True).clamp(max=weights.shape[-1] - 1)


def permutation(n: int, dtype: torch.dtype, device: torch.device, generator: Generator = None) -> torch.Tensor:
    """The order of n random keys of 32 bits; equal keys stay in order."""
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got{n}")
    given: dict[str, Any] = {} if generator is None else {"generator": generator}
    keys = torch.randint(-(2**31), 2**31, (n,), dtype=torch.int32, device=device, **given)
    return keys.sort(stable=True)[1].to(dtype)


def _permutation_into(n: int, *, generator: Generator, out: torch.Tensor) -> torch.Tensor:
    return out.resize_(n).copy_(permutation(n, out.dtype, out.device, generator))


def _leaky(
    x: torch.Tensor, lower: float, upper: float, training: bool, generator: Generator
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Values, and the slopes they were multiplied with, where these are drawn."""
    if not training:
        return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), None
    slopes = torch.where(x > 0, 1.0, _aten.uniform(x, lower, upper, generator=generator))
    return x * slopes, slopes


def _rrelu(
    x: torch.Tensor, noise: torch.Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False,
    generator: Generator = None,
) -> torch.Tensor:  # fmt: skip
    values, slopes = _leaky(x, lower, upper, training, generator)
    if slopes is not None:
        noise.copy_(slopes)
    return values


def _rrelu_in_place(x: torch.Tensor, noise: torch.Tensor, *arguments: Any, **keywords: Any) -> torch.Tensor:
    return x.copy_(_rrelu(x, noise, *arguments, **keywords))


def _rrelu_functional(
    x: torch.Tensor, noise: torch.Tensor, lower: float = 0.125, upper: float = 1 / 3, training: bool = False,
    generator: Generator = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    values, slopes = _leaky(x, lower, upper, training, generator)
    return values, noise.clone() if slopes is None else slopes


def _multinomial_into(*arguments: Any, out: torch.Tensor, **keywords: Any) -> torch.Tensor:
    return into((_multinomial(*arguments, **keywords),), (out,))[0]


def _dropout_gradient(gradient: torch.Tensor, kept: torch.Tensor, scale: float) -> torch.Tensor:
    return gradient * kept * scale


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "native_dropout_backward": _dropout_gradient,
    "multinomial": _multinomial,
    "multinomial.out": _multinomial_into,
    "randperm.generator_out": _permutation_into,
    "rrelu_with_noise": _rrelu,
    "rrelu_with_noise_": _rrelu_in_place,
    "rrelu_with_noise_functional": _rrelu_functional,
}
