"""Sizes that a graph reads off what it computes are computed from its inputs' instead.

A bundle that needs such a number to run could not make the tensor it is read off.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from torch_spyre.inductor.border import map_nodes
from torch_spyre.inductor.graph import evaluate
from torch_spyre.inductor.importing.fx_nodes import extent_of, fake_tensors, is_on_card, symbols_of

Node = torch.fx.Node
_size = torch.ops.aten.sym_size.int
_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.pow, operator.neg)


def read_sizes_off_inputs(graph: torch.fx.Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=_size):
        if node.args[0].op == "placeholder" or not is_on_card(node.args[0]):
            continue
        with graph.inserting_before(node):
            computed = _computed(graph, node.meta["val"])
        if computed is not None:
            node.replace_all_uses_with(computed)
    for node in graph.nodes:
        if node.target in _ARITHMETIC and "val" not in node.meta:
            node.meta["val"] = node.target(*map_nodes(node.args, lambda given: given.meta["val"]))


def size_of_input(graph: torch.fx.Graph, symbol: str) -> Node | None:
    """A node whose value is the symbol, if an input is that number or has that size."""
    inputs = graph.find_nodes(op="placeholder")
    for node in inputs:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and str(value.node.expr) == symbol:
            return node
    for node in inputs:
        for tensor in fake_tensors(node):
            for dim, extent in enumerate(tensor.shape):
                if isinstance(extent, torch.SymInt) and str(extent.node.expr) == symbol:
                    size = graph.call_function(_size, (node, dim))
                    size.meta["val"] = extent
                    return size
    return None


def _computed(graph: torch.fx.Graph, size: Any) -> Node | None:
    """Nodes that compute a size; None where it is not made of the inputs' by arithmetic."""
    known: dict[str, Any] = {}
    for symbol in sorted(symbols_of(size)):
        if (found := size_of_input(graph, symbol)) is None:
            return None
        known[symbol] = torch.fx.Proxy(found)
    try:
        made: Any = evaluate(extent_of(size), known)  # a proxy's operators make nodes
    except torch.fx.proxy.TraceError:  # a comparison does not: the larger of two
        return None
    return made.node if known else None
