"""Blocks of a cache between the card and the host: any of them, in any order, with the card's own numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from openspyre.spec.encodings import sen169_decode, sen169_encode
from openspyre.spec.errors import InvalidArgument
from torch_spyre.device.layouts import device_tensor_layout

_HALVES = (torch.float16, torch.bfloat16)


def block_pool(cache: torch.Tensor, blocks: int) -> torch.Tensor:
    """Room on the host for so many blocks of a cache, whose first dim counts them. 16-bit floats are kept as their codes, in int16."""
    if cache.dim() < 1 or blocks < 1:
        raise InvalidArgument(
            f"a pool has at least one block, of a cache whose first dim counts blocks; not {blocks} of {cache.dim()} dims"
        )
    return torch.zeros((blocks, *cache.shape[1:]), dtype=_kept(cache.dtype)).pin_memory()


def copy_blocks(source: torch.Tensor, target: torch.Tensor, pairs: Sequence[tuple[int, int]] | torch.Tensor) -> None:
    """Copies blocks, (from, to) each: from a cache on the card into a pool, from a pool into a cache, or from cache to cache.

    What comes back has the bits that went: nothing is rounded on the way.
    """
    listed = [(int(a), int(b)) for a, b in (pairs.tolist() if isinstance(pairs, torch.Tensor) else pairs)]
    _check(source, target, listed)
    if not listed:
        return
    if _is_only_kept(source if source.device.type == "spyre" else target):
        _copy_one_by_one(source, target, listed)
        return
    here = torch.tensor([a for a, _ in listed], device=source.device)
    there = torch.tensor([b for _, b in listed], device=target.device)
    blocks = source.index_select(0, here)
    if source.device.type == "spyre" and target.device.type == "cpu":
        blocks = _codes(blocks)
    elif source.device.type == "cpu" and target.device.type == "spyre":
        blocks = _numbers(blocks, target)
    if target.device.type == "cpu" and target.dtype.itemsize == 1:  # torch's own index_copy_ has no float8
        target, blocks = target.view(torch.uint8), blocks.view(torch.uint8)
    target.index_copy_(0, there, blocks)


def _is_only_kept(cache: torch.Tensor) -> bool:
    """Of a dtype that the card keeps without computing with it, float8_e5m2 for one."""
    return cache.dtype not in _HALVES and device_tensor_layout(cache) is None


def _copy_one_by_one(source: torch.Tensor, target: torch.Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """Bytes go, and no operator has to know their dtype."""
    blocks = [source[a].to(target.device, copy=True) for a, _ in pairs]  # all are read before one is written
    for (_, b), block in zip(pairs, blocks, strict=True):
        target[b].copy_(block)


def _kept(dtype: torch.dtype) -> torch.dtype:
    return torch.int16 if dtype in _HALVES else dtype


def _codes(blocks: torch.Tensor) -> torch.Tensor:
    """float32 holds each of the card's 16-bit numbers exactly."""
    if blocks.dtype not in _HALVES:
        return blocks.cpu()
    return torch.from_numpy(sen169_encode(blocks.float().cpu().numpy()).view(np.int16))


def _numbers(blocks: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if like.dtype not in _HALVES:
        return blocks.to(like.device)
    wide = torch.from_numpy(sen169_decode(blocks.numpy().view(np.uint16)))
    return wide.to(like.device).to(like.dtype)  # converted on the card: the host's float16 has another range


def _check(source: torch.Tensor, target: torch.Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    cards = [one for one in (source, target) if one.device.type == "spyre"]
    if not cards:
        raise InvalidArgument("copy_blocks takes a cache on the card; both tensors are on the CPU")
    for one in (source, target):
        wanted = cards[0].dtype if one.device.type == "spyre" else _kept(cards[0].dtype)
        if one.dtype != wanted or one.shape[1:] != cards[0].shape[1:]:
            raise InvalidArgument(
                f"blocks of {tuple(one.shape[1:])} {one.dtype} do not fit blocks of {tuple(cards[0].shape[1:])} {cards[0].dtype}: "
                "torch.spyre.block_pool(cache, blocks) makes a pool that fits"
            )
    for side, tensor, places in (
        ("source", source, [a for a, _ in pairs]),
        ("target", target, [b for _, b in pairs]),
    ):
        wrong = next((place for place in places if not 0 <= place < len(tensor)), None)
        if wrong is not None:
            raise InvalidArgument(f"the {side} has blocks 0 to {len(tensor) - 1}, no block {wrong}")
    if len({b for _, b in pairs}) < len(pairs):
        raise InvalidArgument("two blocks go to one place")
