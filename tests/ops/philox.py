"""Philox4x32-10 in numpy, written from the paper: what the card's random numbers are judged by."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

Words = NDArray[np.uint32]


def block(counter: NDArray[np.uint64], key: tuple[int, int]) -> NDArray[np.uint64]:
    """[4, n] words of the counters [4, n]."""
    low = np.uint64(0xFFFFFFFF)
    c, k = [word.astype(np.uint64) for word in counter], [np.uint64(key[0]), np.uint64(key[1])]
    for _ in range(10):
        p, q = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(q >> np.uint64(32)) ^ c[1] ^ k[0], q & low, (p >> np.uint64(32)) ^ c[3] ^ k[1], p & low]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(c)


def words(count: int, seed: int, offset: int = 0) -> Words:
    """Numbers offset, offset + 1, ... of a seed."""
    with np.errstate(over="ignore"):
        numbers = np.uint64(offset) + np.arange(count, dtype=np.uint64)
        blocks, low = numbers >> np.uint64(2), np.uint64(0xFFFFFFFF)
        nothing = np.zeros_like(blocks)
        counter = np.stack([blocks & low, blocks >> np.uint64(32), nothing, nothing])
        made = block(counter, (seed & 0xFFFFFFFF, seed >> 32))
    return made[(numbers & np.uint64(3)).astype(np.int64), np.arange(count)].astype(np.uint32)


def unit(count: int, seed: int, offset: int = 0, bits: int = 24) -> torch.Tensor:
    """Numbers from 0 to below 1, as float32."""
    return torch.from_numpy(
        (words(count, seed, offset) >> np.uint32(32 - bits)).astype(np.float32) * np.float32(2.0**-bits)
    )


def integers(count: int, seed: int, low: int, high: int, offset: int = 0) -> torch.Tensor:
    """From low to below high."""
    picked = words(count, seed, offset).astype(object) * (high - low) // 2**32 + low
    return torch.tensor(picked.tolist(), dtype=torch.int64)
