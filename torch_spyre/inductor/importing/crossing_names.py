"""Names of dims that go from one launch of a graph to the next: those of the tensors that a launch makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from openspyre.compiler.ir import Access, Dim, NamedDim
from openspyre.compiler.named_dims import walked
from openspyre.compiler.passes.name_dims import Names as NamesOfProgram
from torch_spyre.inductor.graph import Extent, Graph, Value
from torch_spyre.inductor.importing.hints import Names
from torch_spyre.inductor.lowering.expand import expand
from torch_spyre.inductor.lowering.lowering_cache import bound


def names_of_outputs(graph: Graph, symbols: Mapping[str, int], device: torch.device) -> dict[int, Names]:
    """By output, in the order of the graph's; found with these sizes. Dims that are named as a whole have their names in all sizes."""
    plain = replace(graph, calls=tuple(replace(call, hints=()) for call in graph.calls))
    named = NamesOfProgram(expand(plain, symbols, device).program).by_buffer
    values = [graph.values[number] for number in graph.outputs]
    found = {
        place: tuple(_names(value, bound(value, symbols), named[value.buffer])) for place, value in enumerate(values)
    }
    return {place: names for place, names in found.items() if any(name for name, _ in names)}


def _names(value: Value, sized: Value, named: Sequence[NamedDim]) -> Iterator[tuple[str, Extent]]:
    """The dims of a value, cut where its names begin and end; what has none is called ""."""
    dims = tuple(Dim(str(d), n) for d, n in enumerate(sized.size))  # type: ignore[arg-type]
    parts = walked(Access(value.buffer, 0, sized.stride, value.dtype), dims, named).parts  # type: ignore[arg-type]
    for d, (dim, extent) in enumerate(zip(dims, value.size, strict=True)):
        cut = list(_cut(dim.size, sized.stride[d], parts.get(d, ())))  # type: ignore[arg-type]
        yield from [(cut[0][0], extent)] if len(cut) == 1 else cut


def _cut(size: int, stride: int, parts: Sequence[NamedDim]) -> Iterator[tuple[str, int]]:
    end = stride * size
    for part in parts:
        above, rest = divmod(end, part.stride * part.size)
        if rest or part.stride % stride:
            yield "", end // stride
            return
        if above > 1:
            yield "", above
        yield part.name, part.size
        end = part.stride
    if end > stride:
        yield "", end // stride
