"""Imported graphs by key, for as long as Inductor works on them: the node of a bundle owns its graph, generated code its text."""

from __future__ import annotations

from weakref import WeakValueDictionary

from torch_spyre.inductor.graph import Graph, launch_key

_graphs: WeakValueDictionary[str, Graph] = WeakValueDictionary()


def keep(graph: Graph) -> tuple[str, Graph]:
    """The key that names a graph in Inductor's, and the object to hold on to: equal graphs of the same lines share one."""
    key = launch_key(graph)
    return key, _graphs.setdefault(key, graph)


def find(key: str) -> Graph:
    return _graphs[key]
