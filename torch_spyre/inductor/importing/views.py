"""Views and writes in place as Inductor leaves them in a graph, put right where it would be wrong to take them literally."""

from __future__ import annotations

from typing import Any

import torch

from torch_spyre.inductor.border import map_nodes
from torch_spyre.inductor.importing.fx_nodes import fake_tensors, is_on_card, is_view, mutates, storage_of

_aten = torch.ops.aten
_NOT_SURE = (_aten.diagonal.default, _aten.unfold.default)


def separate_inputs(graph: torch.fx.Graph) -> None:
    """Inputs that lie in one storage when a graph is compiled may lie in several, or elsewhere in it, when it is called: each is
    described by a storage of its own. Of those that overlap and are written torch itself has made one input."""
    inputs = [node for node in graph.find_nodes(op="placeholder") if is_on_card(node)]
    if len({storage_of(node.meta["val"]) for node in inputs}) == len(inputs):
        return
    views = {node for node in graph.nodes if is_view(node)}
    taken: set[int] = set()
    moved: set[torch.fx.Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder" and is_on_card(node):
            if storage_of(node.meta["val"]) in taken:
                node.meta["val"] = _alone(node.meta["val"])
                moved.add(node)
            taken.add(storage_of(node.meta["val"]))
        elif moved.intersection(node.all_input_nodes) and (node in views or mutates(node)):
            node.meta["val"] = _seen_again(node)
            moved.add(node)


def _alone(fake: torch.Tensor) -> torch.Tensor:
    with fake.fake_mode:  # type: ignore[attr-defined]
        flat = torch.empty(fake.untyped_storage().nbytes() // fake.itemsize, dtype=fake.dtype, device=fake.device)
        return flat.as_strided(fake.shape, fake.stride(), fake.storage_offset())


def _seen_again(node: torch.fx.Node) -> Any:
    """What a view, or a write in place, returns of arguments that are described anew."""
    if mutates(node):
        return node.args[0].meta["val"]  # type: ignore[union-attr]
    args, kwargs = map_nodes((node.args, node.kwargs), lambda given: given.meta["val"])
    with fake_tensors(node)[0].fake_mode:  # type: ignore[attr-defined]
        return node.target(*args, **kwargs)  # type: ignore[operator]


def name_views(graph: torch.fx.Graph) -> None:
    """Views that Inductor would turn into loops are named by sizes, strides and offset; only those of known size:
    a symbol would have to be found as a node first."""
    for node in list(graph.nodes):
        if node.target in _NOT_SURE and is_view(node) and is_on_card(node):
            value = fake_tensors(node)[0]
            places = (*value.shape, *value.stride(), value.storage_offset())
            source = node.args[0]
            if all(isinstance(number, int) for number in places) and fake_tensors(source)[0].dtype == value.dtype:
                node.target = _aten.as_strided.default
                node.args = (source, list(value.shape), list(value.stride()), value.storage_offset())
                node.kwargs = {}


def keep_sources(graph: torch.fx.Graph) -> None:
    """A graph ends by copying the new values of its inputs into them. Those values are from before any of these copies, so one
    that lies in an input which is overwritten first is put aside (`x, y = y, x` in place)."""
    copies = [node for node in graph.find_nodes(op="call_function", target=_aten.copy_.default) if _to_input(node)]
    before = {node: place for place, node in enumerate(graph.nodes)}
    written: set[int] = set()
    for node in copies:
        source = node.args[1]
        old = isinstance(source, torch.fx.Node) and before[source] < before[copies[0]]
        if old and storage_of(source.meta["val"]) in written:
            with graph.inserting_before(copies[0]):
                kept = graph.call_function(_aten.clone.default, (source,))
                kept.meta["val"] = torch.empty_like(source.meta["val"])
            node.args = (node.args[0], kept)
        written.add(storage_of(node.args[0].meta["val"]))


def _to_input(node: torch.fx.Node) -> bool:
    return isinstance(node.args[0], torch.fx.Node) and node.args[0].op == "placeholder"
