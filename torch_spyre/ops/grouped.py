"""Products in groups, as mixtures of experts ask for them: rows in a row belong to an expert, and where each begins is data.

Sizes stay known: rows are dealt to blocks of one expert each, as many as there can be, and a block reads its expert's matrix
through its number. So neither a program depends on the data nor does the host wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from torch_spyre.ops.accumulation import accumulating

_GATHERED_BYTES = 256 << 20  # matrices gathered at once, at most: what is wider is computed in parts
_DENSE_COUNTS = 1 << 20  # comparisons that are made rather than adding up one by one


class _Blocks(NamedTuple):
    """`rows[block, i]`: the row that lies there, where `filled`; `expert` of each block; `place` of each row in all blocks."""

    rows: torch.Tensor
    filled: torch.Tensor
    expert: torch.Tensor
    place: torch.Tensor


def _rows_in_block(count: int, experts: int) -> int:
    """One where an expert has hardly more; else so many that few blocks stay half empty. Few choices: each is a program."""
    return 1 if count <= 2 * experts else 16 if count <= 32 * experts else 64


def _largest(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    """Per row of `where`, the largest of the rising values that it lets through; 0 where it lets none."""
    return torch.amax(torch.where(where, values.unsqueeze(0), 0.0), 1)


def _number_of(chosen: torch.Tensor) -> torch.Tensor:
    return torch.where(chosen, 1.0, 0.0).sum(1)


def _blocks(count: int, ends: torch.Tensor) -> _Blocks:
    """Counted in float32, exact below 2**24: the hardware has no arithmetic of integers."""
    experts, size, device = ends.shape[0], _rows_in_block(count, ends.shape[0]), ends.device
    ends = ends.to(torch.float32)
    numbers = torch.arange(count, device=device, dtype=torch.float32)
    passed = ends.unsqueeze(0) <= numbers.unsqueeze(1)
    if size == 1:
        expert = torch.clamp(_number_of(passed), max=experts - 1)
        inside = (numbers < ends[-1]).unsqueeze(1)
        return _Blocks(torch.arange(count, device=device).unsqueeze(1), inside, expert.long(), numbers.long())
    used = torch.floor((ends - torch.cat([ends.new_zeros(1), ends[:-1]]) + (size - 1)) * (1 / size))
    order = torch.arange(experts, device=device, dtype=torch.float32)
    last = torch.where(order.unsqueeze(0) <= order.unsqueeze(1), used.unsqueeze(0), 0.0).sum(1)
    blocks = torch.arange(experts + count // size, device=device, dtype=torch.float32)
    behind = last.unsqueeze(0) <= blocks.unsqueeze(1)
    begin = _largest(ends, behind) + (blocks - _largest(last, behind)) * size
    rows = begin.unsqueeze(1) + torch.arange(size, device=device, dtype=torch.float32)
    end = torch.amin(torch.where(behind, float(count), ends.unsqueeze(0)), 1)
    filled = (rows < end.unsqueeze(1)) & (blocks < last[-1]).unsqueeze(1)
    expert = torch.clamp(_number_of(behind), max=experts - 1)
    ahead = numbers - _largest(ends, passed)
    full = torch.floor(ahead * (1 / size))
    place = (_largest(last, passed) + full) * size + (ahead - full * size)
    place = torch.clamp(place, max=size * blocks.shape[0] - 1)
    return _Blocks(torch.clamp(rows, 0, count - 1).long(), filled, expert.long(), place.long())


def _columns(matrices: torch.Tensor, times: int) -> Iterator[torch.Tensor]:
    """Parts of all matrices of which so many copies are not too large."""
    depth, width = matrices.shape[1:]
    fits = _GATHERED_BYTES // max(1, times * depth * matrices.element_size())
    return iter(torch.split(matrices, max(64, fits // 64 * 64), dim=2) if fits < width else (matrices,))


def rows_by_group(x: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """out[s] = x[s] @ matrices[e] for the rows s from ends[e - 1] up to ends[e]; zeros behind the last end."""
    count, width = x.shape[0], matrices.shape[2]
    if 0 in (count, width, *x.shape, *matrices.shape):
        return x.new_zeros(count, width)
    blocks = _blocks(count, ends)
    gathered = x[blocks.rows]
    times = blocks.rows.shape[0]
    parts = [torch.bmm(gathered, part[blocks.expert]) for part in _columns(matrices, times)]
    made = (parts[0] if len(parts) == 1 else torch.cat(parts, 2)).flatten(0, 1)
    found = made if blocks.rows.shape[1] == 1 else made[blocks.place]
    inside = torch.arange(count, device=x.device, dtype=torch.float32) < ends[-1].to(torch.float32)
    return torch.where(inside.unsqueeze(1), found, 0)


def products_by_group(x: torch.Tensor, y: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """out[e] = x[:, group e] @ y[group e]: the gradient of the matrices. Products of blocks, added up by expert in float32."""
    count, experts = y.shape[0], ends.shape[0]
    out = torch.zeros(experts, x.shape[0], y.shape[1], dtype=torch.float32, device=x.device)
    if out.numel() == 0 or count == 0:
        return out.to(x.dtype)
    blocks = _blocks(count, ends)
    left = torch.where(blocks.filled.unsqueeze(2), x.t()[blocks.rows], 0)
    products = torch.bmm(left.transpose(1, 2), y[blocks.rows])
    return torch.index_add(out, 0, blocks.expert, accumulating(products)).to(x.dtype)


def _grouped_mm(
    first: torch.Tensor,
    second: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    if bias is not None:
        raise NotImplementedError("_grouped_mm with a bias: torch has no meaning for it yet; add it to the result")
    match first.dim(), second.dim(), offs:
        case 3, 3, None:
            made = torch.bmm(first, second)
        case 2, 3, torch.Tensor():
            made = rows_by_group(first, second, offs)
        case 3, 2, torch.Tensor():
            made = rows_by_group(second.t(), first.transpose(1, 2), offs).t()
        case 2, 2, torch.Tensor():
            made = products_by_group(first, second, offs)
        case _:
            raise ValueError(
                f"_grouped_mm takes two operands of 2 or 3 dims, and offs unless both have 3; they have {first.dim()} and "
                f"{second.dim()}, and offs is {'given' if offs is not None else 'not given'}"
            )
    return made if out_dtype is None else made.to(out_dtype)


def _histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    """Edges are compared in float32, as the CPU does."""
    if bins <= 0:
        raise RuntimeError("bins must be > 0")  # torch's words, as below
    if max < min:
        raise RuntimeError("max must be larger than min")
    flat = x.reshape(-1)
    if flat.shape[0] == 0:
        return x.new_zeros(bins)
    values = flat.to(torch.float32)
    low: Any = values.new_full((), min)
    high: Any = values.new_full((), max)
    if min == max:
        low, high = torch.amin(values), torch.amax(values)
        alike = low == high
        low, high = torch.where(alike, low - 1, low), torch.where(alike, high + 1, high)
    places = torch.clamp(torch.floor((values - low) / (high - low) * bins), 0, bins - 1)
    counted = torch.where((values >= low) & (values <= high), 1.0, 0.0)
    if flat.shape[0] * bins > _DENSE_COUNTS:
        return values.new_zeros(bins).index_add(0, places.long(), counted).to(x.dtype)
    wanted = torch.arange(bins, device=x.device, dtype=torch.float32).unsqueeze(1)
    return torch.where(places.unsqueeze(0) == wanted, counted.unsqueeze(0), 0.0).sum(1).to(x.dtype)


COMPOSITIONS: dict[str, Callable[..., Any]] = {"_grouped_mm": _grouped_mm, "histc": _histc}
