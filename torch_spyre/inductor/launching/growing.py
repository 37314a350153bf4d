"""Graphs whose sizes vary: from the second size on they run as a padded graph, of which one program serves all sizes of a bucket.

The first size has a program of its own, and so have all sizes of graphs that cannot be padded, or are small enough to be compiled quickly.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from torch_spyre import _torch
from torch_spyre.inductor.graph import Extent, Graph, Value, evaluate, from_text, key_of, to_text
from torch_spyre.inductor.lowering.pad_graph import Unpaddable, pad_graph

_log = logging.getLogger("spyre.compiler")
_STEP = 64  # elements of a stick: up to there a dim is padded in memory anyway
_STEPS = 8  # of a power of two: at most an eighth of a large size is padding
_WORTHWHILE_CALLS = 40  # of a graph: smaller ones are compiled within some tens of milliseconds
_SMALL_SIZES = 4  # that these have programs of their own for

Numbers = Sequence[int | float | torch.Tensor]


def bucket(size: int) -> int:
    """The size that a size is padded to: a multiple of 64, and of an eighth of the power of two above it."""
    step = max(_STEP, (1 << (size - 1).bit_length()) // _STEPS)
    return -(-size // step) * step


@dataclass(frozen=True, slots=True)
class _Padded:
    """A graph whose symbol number `place` is padded."""

    graph: Graph
    compiled: _torch.CompiledGraph
    place: int

    def launch(self, inputs: list[torch.Tensor], symbols: list[int], numbers: Numbers) -> list[torch.Tensor]:
        true, names = symbols[self.place], self.graph.symbols
        padded = [bucket(true) if place == self.place else size for place, size in enumerate(symbols)]
        before, after = (dict(zip(names, sizes, strict=True)) for sizes in (symbols, padded))
        given = [
            self._filled(tensor, self.graph.values[number], after)
            for tensor, number in zip(inputs, self.graph.inputs, strict=True)
        ]
        made = _torch.launch_graph(self.compiled, given, padded, [*numbers, true])
        return [
            self._cut(tensor, self.graph.values[number], before)
            for tensor, number in zip(made, self.graph.outputs, strict=True)
        ]

    def _filled(self, tensor: torch.Tensor, value: Value, known: dict[str, int]) -> torch.Tensor:
        if not self._varies(value):
            return tensor
        filled = tensor.new_empty_strided(_numbers(value.size, known), _numbers(value.stride, known)).zero_()
        self._true_part(filled, value, tensor.shape).copy_(tensor)
        return filled

    def _cut(self, tensor: torch.Tensor, value: Value, known: dict[str, int]) -> torch.Tensor:
        """As the graph's reader expects it: the strides of a smaller tensor, too."""
        if not self._varies(value):
            return tensor
        size = _numbers(value.size, known)
        cut = tensor.new_empty_strided(size, _numbers(value.stride, known))
        return cut.copy_(self._true_part(tensor, value, size))

    def _true_part(self, tensor: torch.Tensor, value: Value, size: Sequence[int]) -> torch.Tensor:
        for dim, extent in enumerate(value.size):
            if extent == self.graph.symbols[self.place]:
                tensor = tensor.narrow(dim, 0, size[dim])
        return tensor

    def _varies(self, value: Value) -> bool:
        return self.graph.symbols[self.place] in value.size


class GrowingGraph:
    """A graph with symbols, as generated code opens it."""

    def __init__(self, key: str, text: str, device: int) -> None:
        self._text, self._device = text, device
        self._exact = _torch.CompiledGraph(key, text, device)
        self._alone: set[tuple[int, ...]] = set()  # sizes that have programs of their own
        self._lock = threading.Lock()
        self._padded: _Padded | None = None
        self._tried = False

    def launch(self, inputs: list[torch.Tensor], symbols: list[int], numbers: Numbers = ()) -> list[torch.Tensor]:
        padded = None if tuple(symbols) in self._alone or 0 in symbols else self._padded_for(symbols)
        if padded is None:
            return _torch.launch_graph(self._exact, inputs, symbols, numbers)
        return padded.launch(inputs, symbols, numbers)

    def _padded_for(self, symbols: list[int]) -> _Padded | None:
        with self._lock:
            if not self._alone:
                self._alone.add(tuple(symbols))
                return None
            if not self._tried:
                self._tried, self._padded = True, self._pad(symbols)
            if self._padded is None:
                return None
            varying = {sizes[: self._padded.place] + sizes[self._padded.place + 1 :] for sizes in self._alone}
            others = (*symbols[: self._padded.place], *symbols[self._padded.place + 1 :])
            few = len(self._padded.graph.calls) < _WORTHWHILE_CALLS and len(self._alone) < _SMALL_SIZES
            if few or others not in varying:
                self._alone.add(tuple(symbols))
                return None
            return self._padded

    def _pad(self, symbols: list[int]) -> _Padded | None:
        """For the symbol that has changed."""
        graph, (first,) = from_text(self._text), self._alone
        changed = [place for place, size in enumerate(symbols) if size != first[place]]
        if len(changed) != 1:
            _log.info("%s: compiled for every size, %d of them vary", graph.name, len(changed))
            return None
        try:
            padded = pad_graph(graph, graph.symbols[changed[0]])
        except Unpaddable as reason:
            _log.info(
                "%s: compiled for every size, %s cannot be padded: %s", graph.name, graph.symbols[changed[0]], reason
            )
            return None
        return _Padded(padded, _torch.CompiledGraph(key_of(padded), to_text(padded), self._device), changed[0])


def _numbers(extents: Sequence[Extent], known: dict[str, int]) -> list[int]:
    return [evaluate(extent, known) for extent in extents]
