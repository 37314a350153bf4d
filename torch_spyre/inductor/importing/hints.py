"""Names of dims and hints of the graph being compiled: from the tensors it is called with, and the nodes that Dynamo traced."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from openspyre.compiler.ir import Hint
from torch_spyre._inductor.hints import PREFIX, TILES, number_of
from torch_spyre._inductor.propagate_named_dims import declared_size, named_sizes
from torch_spyre.inductor.graph import Extent, Growth
from torch_spyre.inductor.importing.growing_symbols import growths
from torch_spyre.inductor.importing.origins import lines_of

Node = torch.fx.Node
Names = tuple[tuple[str, Extent], ...]  # of a tensor's dims, with their sizes


@dataclass(frozen=True, slots=True)
class Traced:
    """What Dynamo's graph says beside what it computes: names per input, what is known of symbols, and all of it as text for keys of
    caches."""

    names: Mapping[int, Names]
    growth: Mapping[str, Growth]
    text: str


_traced: ContextVar[Traced | None] = ContextVar("_traced", default=None)


@contextmanager
def traced(module: Any, inputs: Sequence[Any]) -> Iterator[None]:
    """While Inductor works on Dynamo's graph. torch's caches know a graph by what it computes: `text_for_keys` tells the rest."""
    tensors = [(number, value) for number, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
    names = {number: found for number, value in tensors if (found := named_sizes(value))}
    modules = module.modules() if isinstance(module, torch.fx.GraphModule) else ()
    graphs = [part.graph for part in modules if isinstance(part, torch.fx.GraphModule)]
    hints = [found for graph in graphs for found in Scopes(graph).listed(graph)]
    growth = growths()
    said = (sorted(names.items()), hints, sorted(growth.items()))
    token = _traced.set(Traced(names, growth, (repr(said) if any(said) else "") + lines_of(graphs)))
    try:
        yield
    finally:
        _traced.reset(token)


def text_for_keys() -> str:
    known = _traced.get()
    return "" if known is None else known.text


def growth_of(symbol: str) -> Growth:
    known = _traced.get()
    return Growth() if known is None else known.growth.get(symbol, Growth())


def names_of_input(node: Node) -> Names:
    """AOTAutograd tells of each input of its graph which of Dynamo's it is."""
    known, place = _traced.get(), getattr(node.meta.get("desc"), "idx", None)
    return () if known is None or place is None or node.op != "placeholder" else known.names.get(place, ())


def names_of_result(node: Node) -> Names:
    """Of a result that comes from no tensor: what the innermost `named_dims` around it says."""
    if any(isinstance(source.meta.get("val"), torch.Tensor) for source in node.all_input_nodes):
        return ()
    given = [scope["named_dims"] for _, scope in _scopes_of(node) if "named_dims" in scope]
    value = node.meta.get("val")
    if not given or not isinstance(value, torch.Tensor):
        return ()
    return tuple((name, declared_size(name)) for name in given[-1])


class Scopes:
    """The scopes of a graph, counted from 0 in the order in which they were entered."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        # A gradient's nodes stand in the scopes of what they are the gradient of; but its inputs have no names.
        backward = any(node.name.startswith("tangents_") for node in graph.find_nodes(op="placeholder"))
        nodes = () if backward else [node for node in graph.nodes if node.op == "call_function"]
        numbers = sorted({number for node in nodes for number, _ in _scopes_of(node)})
        self._places = {number: place for place, number in enumerate(numbers)}
        self._launches: dict[int, set[Hashable]] = {}

    def note_launches(self, launch_of: Mapping[Node, Hashable]) -> None:
        for node, launch in launch_of.items():
            for number, _ in _scopes_of(node):
                self._launches.setdefault(number, set()).add(launch)

    def hints_of(self, node: Node) -> tuple[Hint, ...]:
        """The outermost first."""
        found = [(self._places[n], n, scope) for n, scope in _scopes_of(node) if n in self._places]
        hints = [_hint(place, scope, len(self._launches.get(n, ())) < 2) for place, n, scope in found]
        return tuple(hint for hint in hints if hint != Hint(hint.number, whole=hint.whole))

    def listed(self, graph: torch.fx.Graph) -> list[tuple[str, tuple[Hint, ...], Names]]:
        """Nodes with hints."""
        found = [(node.name, self.hints_of(node), _scopes_of(node)) for node in graph.nodes if _scopes_of(node)]
        return [(name, hints, tuple(names_asked(scopes))) for name, hints, scopes in found]


def names_asked(scopes: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[tuple[str, Extent]]:
    for _, scope in scopes:
        yield from ((name, declared_size(name)) for name in scope.get("named_dims", ()))


def _scopes_of(node: Node) -> list[tuple[int, Mapping[str, Any]]]:
    custom = node.meta.get("custom") or {}
    return sorted(((number_of(key), custom[key]) for key in custom if key.startswith(PREFIX)), key=lambda pair: pair[0])


def _hint(place: int, scope: Mapping[str, Any], whole: bool) -> Hint:
    tiles = next((next(iter(scope[name].items())) for name in TILES if name in scope), None)
    named, reduced = (tuple(scope[name]) if name in scope else None for name in _EXPECTED)
    return Hint(place, tuple(scope.get("work_div", {}).items()), tiles, named, reduced, whole)


_EXPECTED = ("expected_named_dims", "expected_reduction_dims")
