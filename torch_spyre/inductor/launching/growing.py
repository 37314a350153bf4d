"""Graphs whose sizes vary: they run as a padded graph, of which one program serves all sizes of a bucket.

Until it is known which sizes vary, each has a program of its own; and so have all sizes of graphs that cannot be padded, and the first
ones of graphs that are compiled quickly.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from torch_spyre import _torch
from torch_spyre.inductor.graph import Extent, Value, evaluate, from_text, launch_key, names_in, to_text
from torch_spyre.inductor.lowering.alignment import blocks_of
from torch_spyre.inductor.lowering.buckets import Buckets, buckets_of
from torch_spyre.inductor.lowering.pad_graph import PaddedGraph, Unpaddable, pad_graph

_log = logging.getLogger("spyre.compiler")
_WORTHWHILE_CALLS = 40  # of a graph: smaller ones are compiled within some tens of milliseconds
_SMALL_SIZES = 4  # that these have programs of their own for

Numbers = Sequence[int | float | torch.Tensor]


@dataclass(frozen=True, slots=True)
class _Padded:
    """A padded graph, opened. Its size is symbol `place` of the graph it was made of; those that vary with it are so much larger."""

    made: PaddedGraph
    compiled: _torch.CompiledGraph
    place: int
    larger: dict[int, int]  # by place
    buckets: Buckets
    others: tuple[int, ...] | None = None  # the only sizes that it has for the symbols that do not vary; None: any
    fitting: dict[tuple[int, ...], bool] = field(default_factory=dict)  # sizes seen: whether they fit

    def serves(self, symbols: Sequence[int], fixed: set[tuple[int, ...]]) -> bool:
        """Whether sizes vary together as before, no dim is empty, and all else is as it was."""
        others = self.fixed(symbols)
        return (
            self.vary_together(symbols)
            and symbols[self.place] + self.made.least > 0
            and (not others or others in (fixed if self.others is None else {self.others}))
            and self.fits(tuple(symbols))
        )

    def fits(self, symbols: tuple[int, ...]) -> bool:
        """Whether views lie in the padded graph as in the true sizes, and inputs and outputs have room for the padding."""
        if symbols not in self.fitting:
            self.fitting[symbols] = self._fits(symbols)
        return self.fitting[symbols]

    def _fits(self, symbols: tuple[int, ...]) -> bool:
        before, after = self._known(symbols)
        return (
            symbols[self.place] >= self.made.fits_from
            and all(evaluate(end, before) < evaluate(room, before) for end, room in self.made.inside)
            and not any(self._meets_itself(value, after) for value in self._handed_over())
        )

    def _handed_over(self) -> set[Value]:
        """Inputs and outputs that are copied, by size and strides alone."""
        graph = self.made.graph
        values = (graph.values[number] for number in (*graph.inputs, *graph.outputs))
        return {replace(value, buffer="", dtype="") for value in values if self._lies_otherwise(value)}

    def _meets_itself(self, value: Value, known: dict[str, int]) -> bool:
        """Whether padded rows lie where others do: those of a part of a larger tensor, or one row that is seen many times."""
        size, stride = _numbers(value.size, known), _numbers(value.stride, known)
        end = 0
        for step, extent in sorted((step, extent) for extent, step in zip(size, stride, strict=True) if extent > 1):
            if step <= end:
                return True
            end += (extent - 1) * step
        return False

    def _known(self, symbols: Sequence[int]) -> tuple[dict[str, int], dict[str, int]]:
        """The graph's symbols, as they are and as they are padded."""
        kept = [size for place, size in enumerate(symbols) if place not in self.larger]
        if self.others is not None:
            kept = [symbols[self.place]]
        before = dict(zip(self.made.graph.symbols, kept, strict=True))
        padded = self.buckets.padded(symbols[self.place], self.made.most)
        return before, before | {self.made.symbol: padded}

    def vary_together(self, symbols: Sequence[int]) -> bool:
        return all(symbols[place] - symbols[self.place] == more for place, more in self.larger.items())

    @property
    def is_quickly_compiled(self) -> bool:
        """So that nobody who named no bounds needs buckets at once."""
        return len(self.made.graph.calls) < _WORTHWHILE_CALLS and self.buckets.granularity is None

    def fixed(self, symbols: Sequence[int]) -> tuple[int, ...]:
        varying = {self.place, *self.larger}
        return tuple(size for place, size in enumerate(symbols) if place not in varying)

    def launch(self, inputs: list[torch.Tensor], symbols: list[int], numbers: Numbers) -> list[torch.Tensor]:
        graph, true = self.made.graph, symbols[self.place]
        before, after = self._known(symbols)
        given = [
            self._filled(x, graph.values[number], after, true) for x, number in zip(inputs, graph.inputs, strict=True)
        ]
        results = _torch.launch_graph(self.compiled, given, list(after.values()), [*numbers, true])
        for x, filled, number in zip(inputs, given, graph.inputs, strict=True):
            if number in graph.updated and x is not filled:
                self._copy(filled, x, graph.values[number], true)
        return [self._cut(x, graph.values[number], before) for x, number in zip(results, graph.outputs, strict=True)]

    def _filled(self, tensor: torch.Tensor, value: Value, known: dict[str, int], true: int) -> torch.Tensor:
        if not self._lies_otherwise(value):
            return tensor
        filled = _clear(tensor.new_empty_strided(_numbers(value.size, known), _numbers(value.stride, known)))
        self._copy(tensor, filled, value, true)
        return filled

    def _cut(self, tensor: torch.Tensor, value: Value, known: dict[str, int]) -> torch.Tensor:
        """As the graph's reader expects it: the strides of a smaller tensor, too."""
        if not self._lies_otherwise(value):
            return tensor
        cut = tensor.new_empty_strided(_numbers(value.size, known), _numbers(value.stride, known))
        self._copy(tensor, cut, value, known[self.made.symbol])
        return cut

    def _copy(self, source: torch.Tensor, target: torch.Tensor, value: Value, true: int) -> None:
        """The true rows; one of the two has padding behind them, in each block of a flattened dim."""
        self._true_part(target, value, true).copy_(self._true_part(source, value, true))

    def _true_part(self, tensor: torch.Tensor, value: Value, true: int) -> torch.Tensor:
        dim = 0
        for extent in value.size:
            blocks, shift = (self._varies(extent) and blocks_of(extent, self.made.symbol)) or (0, 0)
            if blocks > 1:
                tensor, dim = tensor.unflatten(dim, (blocks, -1)), dim + 1
            if blocks:
                tensor = tensor.narrow(dim, 0, true + shift)
            dim += 1
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
        self._growth = from_text(text).growth
        self._alone: set[tuple[int, ...]] = set()  # sizes that have programs of their own
        self._lock = threading.Lock()
        self._padded: _Padded | None = None
        self._beside: dict[tuple[int, ...], _Padded | None] = {}  # where one batch is padded: those for others
        self._refused: set[frozenset[int]] = set()  # places of sizes along which it cannot be padded
        self._assumed: tuple[int, ...] | None = None  # sizes of which it was not known yet that they vary together

    def launch(self, inputs: list[torch.Tensor], symbols: list[int], numbers: Numbers = ()) -> list[torch.Tensor]:
        padded = None if tuple(symbols) in self._alone or 0 in symbols else self._padded_for(symbols)
        if padded is None:
            return _torch.launch_graph(self._exact, inputs, symbols, numbers)
        return padded.launch(inputs, symbols, numbers)

    def _padded_for(self, symbols: list[int]) -> _Padded | None:
        with self._lock:
            if self._padded is None:
                self._assumed = None if self._alone else tuple(symbols)
                self._padded = self._pad_if_known(symbols)
            elif self._assumed is not None and not self._padded.vary_together(symbols):
                self._alone.add(self._assumed)
                self._assumed = None
                self._padded = self._pad_if_known(symbols)
            padded = self._padded
            seen = {padded.fixed(sizes) for sizes in self._alone} if padded is not None else set()
            if padded is not None and padded.others is not None and padded.fixed(symbols) in seen:
                padded = self._padded_beside(padded, symbols)
            few = padded is not None and padded.is_quickly_compiled and len(self._alone) < _SMALL_SIZES
            if padded is None or few or not padded.serves(symbols, seen):
                self._alone.add(tuple(symbols))
                return None
            return padded

    def _padded_beside(self, padded: _Padded, symbols: list[int]) -> _Padded | None:
        """The graph that is padded for these other sizes."""
        others = padded.fixed(symbols)
        if others == padded.others or not padded.vary_together(symbols):
            return padded
        if others not in self._beside:
            self._beside[others] = self._pad(symbols, dict.fromkeys((padded.place, *padded.larger), 0))
        return self._beside[others]

    def _changed(self, symbols: list[int]) -> dict[int, int]:
        """Places of sizes that vary, and by how much they have: by as much, since a launch that tells them from the others.

        Before the first launch: if all are known to vary, they are assumed to do so together.
        """
        if not self._alone:
            known = bool(self._growth) and all(growth.changes for growth in self._growth)
            found = [dict.fromkeys(range(len(symbols)), 0)] if known else []
        else:
            found = [
                {p: size - sizes[p] for p, size in enumerate(symbols) if size != sizes[p]} for sizes in self._alone
            ]
        return next((c for c in found if len(set(c.values())) == 1 and frozenset(c) not in self._refused), {})

    def _pad_if_known(self, symbols: list[int]) -> _Padded | None:
        changed = self._changed(symbols)
        made = self._pad(symbols, changed) if changed else None
        if changed and made is None:
            self._refused.add(frozenset(changed))
        return made

    def _pad(self, symbols: list[int], changed: dict[int, int]) -> _Padded | None:
        """For the symbols that have changed, all of them by as much."""
        graph = from_text(self._text)
        least = min(changed, key=lambda place: symbols[place])
        larger = {place: symbols[place] - symbols[least] for place in changed if place != least}
        name = graph.symbols[least]
        together = {graph.symbols[place]: more for place, more in larger.items()}
        fixed = {n: symbols[place] for place, n in enumerate(graph.symbols) if n != name and n not in together}
        others = None
        try:
            try:
                made = pad_graph(graph, name, together)
            except Unpaddable:
                if not fixed:
                    raise
                made, others = pad_graph(graph, name, together, fixed), tuple(fixed.values())
        except Unpaddable as reason:
            _log.info("%s: compiled for every size, because %s cannot be padded: %s", graph.name, name, reason)
            return None
        opened = _torch.CompiledGraph(launch_key(made.graph), to_text(made.graph), self._device)
        buckets = buckets_of(self._growth[least], f"{name} of {graph.name}") if self._growth else Buckets()
        return _Padded(made, opened, least, larger, buckets, others)


def _clear(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.zero_()


def _numbers(extents: Sequence[Extent], known: dict[str, int]) -> list[int]:
    return [evaluate(extent, known) for extent in extents]
