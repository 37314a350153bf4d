"""Views and writes in place as Inductor leaves them in a graph, put right where it would be wrong to take them literally."""

from __future__ import annotations

import torch

from torch_spyre.inductor.fx_reader import fake_tensors, is_on_card, is_view, storage_of

_aten = torch.ops.aten
_NOT_SURE = (_aten.diagonal.default, _aten.unfold.default)


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
