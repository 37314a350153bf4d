"""Imported graphs by key: a graph being compiled finds its text here, generated code carries that text with it."""

from __future__ import annotations

from torch_spyre.inductor.graph import Graph, key_of

_graphs: dict[str, Graph] = {}


def keep(graph: Graph) -> str:
    """Remember a graph; the key names it in Inductor's graph."""
    key = key_of(graph)
    _graphs[key] = graph
    return key


def find(key: str) -> Graph:
    return _graphs[key]
