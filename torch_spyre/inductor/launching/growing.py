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
from torch_spyre.inductor.graph import Extent, Value, evaluate, from_text, key_of, names_in, to_text
from torch_spyre.inductor.lowering.pad_graph import PaddedGraph, Unpaddable, pad_graph

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
    """A padded graph, opened. Its size is symbol `place` of the graph it was made of; those that vary with it are so much larger."""

    made: PaddedGraph
    compiled: _torch.CompiledGraph
    place: int
    larger: dict[int, int]  # by place

    def serves(self, symbols: Sequence[int], fixed: set[tuple[int, ...]]) -> bool:
        """Whether sizes vary together as before, and all else is as it was."""
        together = all(symbols[place] - symbols[self.place] == more for place, more in self.larger.items())
        return together and self.fixed(symbols) in fixed

    def fixed(self, symbols: Sequence[int]) -> tuple[int, ...]:
        varying = {self.place, *self.larger}
        return tuple(size for place, size in enumerate(symbols) if place not in varying)

    def launch(self, inputs: list[torch.Tensor], symbols: list[int], numbers: Numbers) -> list[torch.Tensor]:
        graph, true = self.made.graph, symbols[self.place]
        kept = [size for place, size in enumerate(symbols) if place not in self.larger]
        before = dict(zip(graph.symbols, kept, strict=True))
        after = before | {self.made.symbol: bucket(true + self.made.most) - self.made.most}
        given = [self._filled(x, graph.values[number], after) for x, number in zip(inputs, graph.inputs, strict=True)]
        results = _torch.launch_graph(self.compiled, given, list(after.values()), [*numbers, true])
        return [self._cut(x, graph.values[number], before) for x, number in zip(results, graph.outputs, strict=True)]

    def _filled(self, tensor: torch.Tensor, value: Value, known: dict[str, int]) -> torch.Tensor:
        if not self._lies_otherwise(value):
            return tensor
        filled = tensor.new_empty_strided(_numbers(value.size, known), _numbers(value.stride, known)).zero_()
        self._true_part(filled, value, tensor.shape).copy_(tensor)
        return filled

    def _cut(self, tensor: torch.Tensor, value: Value, known: dict[str, int]) -> torch.Tensor:
        """As the graph's reader expects it: the strides of a smaller tensor, too."""
        if not self._lies_otherwise(value):
            return tensor
        size = _numbers(value.size, known)
        cut = tensor.new_empty_strided(size, _numbers(value.stride, known))
        return cut.copy_(self._true_part(tensor, value, size))

    def _true_part(self, tensor: torch.Tensor, value: Value, size: Sequence[int]) -> torch.Tensor:
        for dim, extent in enumerate(value.size):
            if self._varies(extent):
                tensor = tensor.narrow(dim, 0, size[dim])
        return tensor

    def _lies_otherwise(self, value: Value) -> bool:
        """Whether it has another size when padded, or other strides."""
        steps = (step for extent, step in zip(value.size, value.stride, strict=True) if extent != 1)
        return any(map(self._varies, (*value.size, *steps)))

    def _varies(self, extent: Extent) -> bool:
        return isinstance(extent, str) and self.made.symbol in names_in(extent)


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
            if self._alone and not self._tried:
                self._tried, self._padded = True, self._pad(symbols)
            padded = self._padded
            if padded is None:
                if not self._alone:
                    self._alone.add(tuple(symbols))
                return None
            few = len(padded.made.graph.calls) < _WORTHWHILE_CALLS and len(self._alone) < _SMALL_SIZES
            if few or not padded.serves(symbols, {padded.fixed(sizes) for sizes in self._alone}):
                self._alone.add(tuple(symbols))
                return None
            return padded

    def _pad(self, symbols: list[int]) -> _Padded | None:
        """For the symbols that have changed, if all of them have by as much."""
        graph, (first,) = from_text(self._text), self._alone
        places = [place for place, size in enumerate(symbols) if size != first[place]]
        if len({symbols[place] - first[place] for place in places}) != 1:
            _log.info("%s: compiled for every size, because several vary", graph.name)
            return None
        least = min(places, key=lambda place: symbols[place])
        larger = {place: symbols[place] - symbols[least] for place in places if place != least}
        name = graph.symbols[least]
        try:
            made = pad_graph(graph, name, {graph.symbols[place]: more for place, more in larger.items()})
        except Unpaddable as reason:
            _log.info("%s: compiled for every size, because %s cannot be padded: %s", graph.name, name, reason)
            return None
        opened = _torch.CompiledGraph(key_of(made.graph), to_text(made.graph), self._device)
        return _Padded(made, opened, least, larger)


def _numbers(extents: Sequence[Extent], known: dict[str, int]) -> list[int]:
    return [evaluate(extent, known) for extent in extents]
