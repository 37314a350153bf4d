"""One sample on the card, forward and backward: against the reference, and compiled against eager."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from bits import otherwise_than_eager
from entries import Sample
from judgement import RUNS, complaint, drawn, held, reference, rounding
from oracle import HALVES
from torch.utils._pytree import tree_flatten

DEVICE = "spyre"
STRIDED_ONLY = "the card holds strided tensors only"


class Refused(Exception):
    """torch on the CPU does not do this call either."""


def difference(sample: Sample, dtype: torch.dtype, compiled: bool) -> str | None:
    """What the card does differently from torch, or a graph from eager, in one line, or None."""
    if any(tensor.layout != torch.strided for tensor in sample.tensors):
        raise Refused(STRIDED_ONLY)
    tensors = [held(tensor) for tensor in sample.tensors]
    run = _with_gradients(sample, "cpu")
    try:
        right = reference(run, tensors, 0.0, 0)
    except Exception as error:
        raise Refused(str(error)) from error
    if any(t is not None and t.layout != torch.strided for t in right):
        raise Refused(STRIDED_ONLY)
    moved = _moved(run, tensors, rounding(dtype), right)
    try:
        got, fallen = _on_card(sample, tensors, compiled)
        eager = _on_card(sample, tensors, False) if compiled else (got, fallen)
    except Exception as error:
        return _told(error)
    if len(got) != len(right):
        return f"{len(got)} tensors returned, not {len(right)}"
    wrong = _compare(got, right, moved, _described(run, tensors), fallen, drawn(run, tensors, right))
    return wrong or otherwise_than_eager(got, eager[0], fallen, eager[1])


def difference_of_bits(sample: Sample) -> str | None:
    """What a graph does differently from eager, in one line, or None; torch on the CPU is not asked."""
    if any(tensor.layout != torch.strided for tensor in sample.tensors):
        raise Refused(STRIDED_ONLY)
    tensors = [held(tensor) for tensor in sample.tensors]
    try:
        eager, fallen_in_eager = _on_card(sample, tensors, False)
    except Exception as error:
        raise Refused(str(error)) from error
    try:
        got, fallen = _on_card(sample, tensors, True)
    except Exception as error:
        return _told(error)
    return otherwise_than_eager(got, eager, fallen, fallen_in_eager)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:2000]}"


def _compare(
    got: Any, right: Any, moved: Any, described: Any, fallen: Collection[str], drawn: list[bool]
) -> str | None:
    for number, (mine, wanted) in enumerate(zip(got, right, strict=True)):
        if (mine is None) != (wanted is None):
            return f"result {number} is {'absent' if mine is None else 'present'}"
        if mine is None:
            continue
        mine, dtype = mine
        if described and described[number] is not None and dtype != described[number].dtype:
            return f"result {number} is {dtype}, not {described[number].dtype}"
        if drawn[number]:
            if mine.shape != wanted.shape:
                return f"result {number} has shape {tuple(mine.shape)}, not {tuple(wanted.shape)}"
            continue
        own = described[number] if described else None
        wrong = complaint(mine, dtype, wanted, [run[number] for run in moved], own, fallen)
        if wrong:
            return f"result {number} {wrong}"
    return None


def _moved(run: Callable[..., Any], tensors: list[torch.Tensor], step: float, right: Any) -> list[Any]:
    runs = []
    for seed in range(RUNS):
        try:
            moved = reference(run, tensors, step, seed)
        except Exception:  # a rounding takes the operand out of the function's domain: nothing can be said by it
            continue
        if all(
            (a is None) == (b is None) and (a is None or a.shape == b.shape) for a, b in zip(moved, right, strict=True)
        ):
            runs.append(moved)
    return runs


def _described(run: Callable[..., Any], tensors: list[torch.Tensor]) -> Any:
    """The results as torch has them on the CPU in the call's own dtypes, if it can do that."""
    try:
        return run([tensor.clone() for tensor in tensors])
    except Exception:
        return None


def _on_card(sample: Sample, tensors: list[torch.Tensor], compiled: bool) -> tuple[list[Any], Collection[str]]:
    """The results, and the operators that the CPU did. Eager and compiled draw from the same seed."""
    torch.manual_seed(0)
    torch.spyre.reset_fallback_stats()
    run = _with_gradients(sample, DEVICE, compiled)
    results = run([tensor.to(DEVICE) for tensor in tensors])
    fallen = torch.spyre.fallback_stats()
    return [None if result is None else _fetched(result) for result in results], fallen


def _fetched(result: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
    """Values and dtype; 16-bit floats are widened on the card, because float16 on the host cannot hold all of them."""
    if result.device.type == DEVICE and result.dtype in HALVES:
        return result.float().cpu(), result.dtype
    return result.cpu(), result.dtype


def _with_gradients(sample: Sample, device: str, compiled: bool = False) -> Callable[[list[torch.Tensor]], Any]:
    function = sample.function
    if compiled:
        torch._dynamo.reset()
        function = torch.compile(function, dynamic=False)

    def run(tensors: list[torch.Tensor]) -> list[torch.Tensor | None]:
        leaves = [t.detach().requires_grad_(n in sample.grown) for n, t in enumerate(tensors)]
        results = [t for t in tree_flatten(function(leaves, device))[0] if isinstance(t, torch.Tensor)]
        grown = [leaves[n] for n in sample.grown]
        ends = [t for t in results if t.requires_grad]
        if not ends or not grown:
            return [t.detach() for t in results]
        gradients = torch.autograd.grad(ends, grown, [_slope(n, t) for n, t in enumerate(ends)], allow_unused=True)
        return [t.detach() for t in results] + list(gradients)

    return run


def _slope(number: int, end: torch.Tensor) -> torch.Tensor:
    """The gradient that comes in: small numbers that every format holds, in no order."""
    mixed = (torch.arange(end.numel()) + 131 * number + 1) * 2654435761 % 2**32
    return ((mixed // 2**16 % 17 - 8) / 4).reshape(end.shape).to(end.dtype).to(end.device)
