"""The bytes a bundle can reach: its arguments, and 32 scratchpads that outlive it."""

import numpy as np

from .errors import BundleError
from .mlir import SEGMENT
from .sdsc import Tensor

CORES, SCRATCHPAD = 32, 2 << 20


class Memory:
    """Arguments lie one after another in `spaces["hbm"]`, scratchpads in `spaces["lx"]`; both are bytes."""

    def __init__(self, images: list[np.ndarray], scratchpads: np.ndarray, pool: int | None):
        self.lengths = np.array([image.size for image in images], dtype=np.int64)
        room = (self.lengths + 127) // 128 * 128
        self.offsets = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
        self.spaces = {"hbm": np.zeros(self.offsets[-1], dtype=np.uint8), "lx": scratchpads.reshape(-1)}
        self.pool = pool
        self.filled: dict[int, int] = {}  # by its first address, bytes of the tensor an op last wrote there
        for offset, image in zip(self.offsets, images, strict=False):
            self.spaces["hbm"][offset : offset + image.size] = image.reshape(-1)

    def images(self) -> list[np.ndarray]:
        return [self.spaces["hbm"][o : o + n].copy() for o, n in zip(self.offsets, self.lengths, strict=False)]

    def buffer_length(self, address: int) -> int | None:
        """Bytes of the argument an address lies in; None in the pool, which holds many buffers."""
        argument = address // SEGMENT
        known = argument != self.pool and argument < len(self.lengths)
        return int(self.lengths[argument]) if known else None

    def room(self, address: int) -> int | None:
        """Bytes from an address to the end of its argument; in the pool, to the end of what an op wrote there, if one did."""
        argument = address // SEGMENT
        if argument >= len(self.lengths):
            return None
        rest = int(self.lengths[argument]) - address % SEGMENT
        return self.filled.get(address, rest) if argument == self.pool else rest

    def load(self, tensor: Tensor, cores: np.ndarray, addresses: np.ndarray, word: np.dtype) -> np.ndarray:
        return self.spaces[tensor.component].view(word)[self._words(tensor, cores, addresses, word)]

    def store(self, tensor: Tensor, cores: np.ndarray, addresses: np.ndarray, codes: np.ndarray) -> None:
        self.spaces[tensor.component].view(codes.dtype)[self._words(tensor, cores, addresses, codes.dtype)] = codes

    def _words(self, tensor: Tensor, cores: np.ndarray, addresses: np.ndarray, word: np.dtype) -> np.ndarray:
        if (addresses % word.itemsize).any():
            raise BundleError(f"{tensor.name} has words of {word.itemsize} bytes at addresses that are no multiples")
        if tensor.component == "lx":
            _check(tensor, "byte", addresses, SCRATCHPAD - word.itemsize, "a scratchpad")
            return (addresses + cores * SCRATCHPAD) // word.itemsize
        argument = addresses // SEGMENT
        _check(tensor, "argument", argument, len(self.lengths) - 1, "the launch")
        _check(tensor, "byte", addresses % SEGMENT, self.lengths[argument] - word.itemsize, "its argument")
        return (addresses % SEGMENT + self.offsets[argument]) // word.itemsize


def _check(tensor: Tensor, what: str, values: np.ndarray, last: np.ndarray | int, whole: str) -> None:
    outside = (values < 0) | (values > last)
    if outside.any():
        bound = np.broadcast_to(last, values.shape)[outside][0]
        raise BundleError(f"{tensor.name} reaches {what} {values[outside][0]} of {whole}, where the last is {bound}")
