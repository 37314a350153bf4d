"""Reads nodes of Inductor's graphs as calls on values: what a node computes, and how its tensors lie in their storages."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from openspyre.compiler.ir import Hint
from torch_spyre.inductor.border import OpOverload
from torch_spyre.inductor.graph import Argument, Expression, Extent, GraphCall, Named, Number, Ref, Value
from torch_spyre.inductor.importing.fx_nodes import (
    Nodes,
    TensorFacts,
    extent_of,
    is_host_number,
    number_before_rounding,
    symbols_of,
)
from torch_spyre.inductor.importing.origins import origin_of
from torch_spyre.inductor.lowering.lower_call import NotImportable

Node = torch.fx.Node
ALL_RESULTS = "spyre_all_results"  # in a node's meta: its lowering computes results that nobody reads, too
KNOWN_NUMBERS = "spyre_known_numbers"  # in a node's meta: its lowering must know the integers it computes with
_NUMBERS = ("Tensor", "Optional[Tensor]", "number", "Optional[number]")  # types that take numbers to compute with


@lru_cache(maxsize=4096)
def _signature(target: Any) -> tuple[str, tuple[tuple[str, Any, bool], ...]]:
    """An operator's name, and its arguments: name, default, whether it computes with it.

    torch makes a schema's arguments anew whenever it is asked.
    """
    arguments = [(a.name, a.default_value, str(a.type) in _NUMBERS) for a in target._schema.arguments]
    return str(target), tuple(arguments)


class Reader:
    """Describes nodes as values and calls; `values` is shared by all calls of one bundle."""

    def __init__(self, nodes: Nodes) -> None:
        self.values: list[Value] = []
        self.symbols: set[str] = set()
        self.numbers: list[Node] = []
        self._nodes = nodes
        self._numbers: dict[Value, int] = {}
        self._buffers: dict[int, str] = {}
        self._starts: dict[int, Any] = {}  # torch may describe a tensor that a call makes with the offset of its source
        self._seen: dict[int, int] = {}  # tensors of the graph, by identity: it keeps them alive

    def value(self, tensor: torch.Tensor, owner: str, *, made: bool = False) -> int:
        """The number of a tensor's value; `owner` names its buffer if it is new, `made` tells that a call makes it."""
        found = self._seen.get(id(tensor))
        if found is None:
            found = self._seen[id(tensor)] = self._described(self._nodes.tensor(tensor), owner, made)
        return found

    def _described(self, tensor: TensorFacts, owner: str, made: bool) -> int:
        buffer = self._buffers.setdefault(tensor.storage, owner)
        start = self._starts.setdefault(tensor.storage, tensor.offset if made else 0)
        self.symbols |= tensor.symbols
        described = Value(buffer, tensor.dtype, tensor.size, tensor.stride, self.extent(tensor.offset - start))
        number = self._numbers.setdefault(described, len(self.values))
        if number == len(self.values):
            self.values.append(described)
        return number

    def extent(self, number: Any) -> Extent:
        self.symbols |= symbols_of(number)
        return extent_of(number)

    def sizes(self, tensor: torch.Tensor) -> tuple[Extent, ...]:
        return tuple(self.extent(extent) for extent in tensor.shape)

    def call(self, node: Node, hints: tuple[Hint, ...] = ()) -> GraphCall:
        """A node as a call in the scopes of hints, its results being new values."""
        if not isinstance(node.target, OpOverload):
            raise NotImportable(f"{node.target} is no operator of torch's")
        name, parameters = _signature(node.target)
        given = {parameter: value for (parameter, _, _), value in zip(parameters, node.args)}  # noqa: B905 (defaults follow)
        given |= node.kwargs
        known = KNOWN_NUMBERS in node.meta
        arguments = tuple(
            [
                (self._computed_with if computes and not known else self.argument)(given.get(parameter, default))
                for parameter, default, computes in parameters
            ]
        )
        return GraphCall(name, arguments, self._results(node), origin_of(node), hints)

    def _results(self, node: Node) -> tuple[int, ...]:
        value: Any = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return (self.value(value, node.name, made=True),)
        everything = node.meta.get(ALL_RESULTS, False)
        read = {place for place in range(len(value)) if everything} | {user.args[1] for user in node.users}
        return tuple(
            self.value(tensor, f"{node.name}.{place}", made=True)
            if isinstance(tensor, torch.Tensor) and place in read
            else -1
            for place, tensor in enumerate(value)
        )

    def _computed_with(self, given: Any) -> Argument:
        """An integer that is an operand, as `pos` in `x * pos`, is brought by the launch: other values need no other program."""
        whole = isinstance(given, Node) and isinstance(given.meta.get("val"), torch.SymInt)
        return self._brought(given, "int64") if whole else self.argument(given)

    def argument(self, given: Any) -> Argument:
        match given:
            case Node():
                return self._from_node(given)
            case None | bool() | int() | float() | str():
                return given
            case list() | tuple():
                return tuple(self.argument(item) for item in given)
            case torch.dtype() | torch.layout() | torch.memory_format():
                return Named(type(given).__name__, str(given).removeprefix("torch."))
            case torch.device():
                return Named("device", str(given))
            case torch.SymInt():
                return self._number(given)
        raise NotImportable(f"an argument of type {type(given).__name__}")

    def _from_node(self, node: Node) -> Argument:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            tensor = self._nodes.tensor(value)
            if tensor.is_on_card:
                return Ref(self.value(value, node.name))
            if is_host_number(node) and not value.dtype.is_complex:
                return self._brought(number_before_rounding(node), tensor.dtype)
            raise NotImportable(f"it reads a tensor on {value.device}")
        if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
            return self._number(value)
        if isinstance(value, (float, torch.SymFloat)):
            return self._brought(node, "float64")
        raise NotImportable(f"it reads a {type(value).__name__} that only the launch knows")

    def _brought(self, node: Node, dtype: str) -> Number:
        if node not in self.numbers:
            self.numbers.append(node)
        return Number(self.numbers.index(node), dtype)

    def _number(self, value: Any) -> Argument:
        extent = self.extent(value)
        return extent if isinstance(extent, int) else Expression(extent)
