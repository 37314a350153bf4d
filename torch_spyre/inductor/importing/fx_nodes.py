"""What our passes ask of a graph's nodes again and again: the tensors they return, whether they are views, whether they write."""

from __future__ import annotations

import operator
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from openspyre.spec.formats import DataFormats, get_device_dtype
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.inductor.border import OpOverload, PythonPrinter
from torch_spyre.inductor.graph import Extent
from torch_spyre.ops.calls import dtype_name

Node = torch.fx.Node
_INT = {int}
_CASTS = ("prims.convert_element_type.default", "aten._to_copy.default")
_printer = PythonPrinter()


def fake_tensors(node: Node) -> list[torch.Tensor]:
    """The tensors a node returns, as the graph describes them."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return [value]
    found = value if isinstance(value, (tuple, list)) else ()
    return [tensor for tensor in found if isinstance(tensor, torch.Tensor)]


def storage_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def is_on_card(node: Node) -> bool:
    tensors = fake_tensors(node)
    return bool(tensors) and all(tensor.device.type == DEVICE_NAME for tensor in tensors)


def is_view(node: Node) -> bool:
    """Whether all a node returns lies in storages of its arguments, and it writes nothing."""
    if node.op != "call_function" or mutates(node):
        return False
    given = {storage_of(tensor) for argument in node.all_input_nodes for tensor in fake_tensors(argument)}
    made = fake_tensors(node)
    return bool(made) and all(storage_of(tensor) in given for tensor in made)


def mutates(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and _is_mutable(node.target)


def draws_numbers(node: Node) -> bool:
    """Whether a node draws from a card's generator."""
    seeded = isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
    return seeded and is_on_card(node)


@lru_cache(maxsize=4096)
def _is_mutable(target: Any) -> bool:
    return bool(target._schema.is_mutable)


def is_number_of_sizes(node: Node) -> bool:
    """Whether a node computes with sizes only, as `s0 * 2` or `x.shape[0]` do; `item()` reads elements."""
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)):
        return False
    return not isinstance(node.target, OpOverload) or node.target.name().startswith("aten::sym_")


def has_no_elements(tensor: torch.Tensor) -> bool:
    return any(isinstance(extent, int) and extent == 0 for extent in tensor.shape)


def symbolic_numbers(*nodes: Node) -> list[torch.SymInt]:
    """Numbers in what nodes return, their tensors' sizes among them, that the launch will know."""
    sizes = [n for node in nodes for t in fake_tensors(node) for n in (*t.shape, *t.stride(), t.storage_offset())]
    numbers = [*(node.meta.get("val") for node in nodes), *sizes]
    return [number for number in numbers if isinstance(number, torch.SymInt)]


def is_host_number(node: Node) -> bool:
    """Whether a node is a tensor without dims on the host: a number to the card."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dim() == 0 and value.device.type == "cpu"


def number_before_rounding(node: Node) -> Node:
    """Where a launch may read a number: it is rounded to float32 there, if the graph does it or not."""
    while str(node.target) in _CASTS and isinstance(node.args[0], Node) and is_host_number(node.args[0]):
        kinds = node.args[0].meta["val"].dtype, node.meta["val"].dtype
        if kinds != (torch.float64, torch.float32):
            break
        node = node.args[0]
    return node


def extent_of(number: Any) -> Extent:
    """A size as a graph writes it."""
    if isinstance(number, int):
        return number
    expression = number.node.expr
    return int(expression) if expression.is_Integer else str(_printer.doprint(expression))


def symbols_of(number: Any) -> set[str]:
    return set() if isinstance(number, int) else {str(symbol) for symbol in number.node.expr.free_symbols}


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """A tensor of a graph: where and how it lies."""

    fake: torch.Tensor
    storage: int
    device: torch.device
    dtype: str
    size: tuple[Extent, ...]
    stride: tuple[Extent, ...]
    offset: Any  # a number, or torch's own symbol
    symbols: frozenset[str]
    is_on_card: bool
    has_format: bool  # the card can compute with it
    is_empty: bool

    @classmethod
    def of(cls, fake: torch.Tensor) -> TensorFacts:
        size: tuple[Any, ...]
        stride: tuple[Any, ...]
        size, stride, offset = tuple(fake.shape), fake.stride(), fake.storage_offset()
        symbols: set[str] = set()
        if not {*map(type, size), *map(type, stride)} <= _INT:
            symbols.update(*map(symbols_of, (*size, *stride)))
            size, stride = tuple(map(extent_of, size)), tuple(map(extent_of, stride))
        dtype, device = dtype_name(fake.dtype), fake.device
        lies = (storage_of(fake), device, dtype, size, stride, offset, frozenset(symbols))
        return cls(fake, *lies, device.type == DEVICE_NAME, _has_format(dtype), 0 in size)


@lru_cache(maxsize=64)
def _has_format(dtype: str) -> bool:
    return get_device_dtype(dtype) is not DataFormats.INVALID


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """`passes_on`: it computes nothing on the card and stays where it is: a view, a part of a result, a number from sizes."""

    tensors: tuple[TensorFacts, ...]
    storages: tuple[int, ...]
    mutates: bool
    passes_on: bool

    @property
    def is_on_card(self) -> bool:
        return bool(self.tensors) and all(tensor.is_on_card for tensor in self.tensors)

    @property
    def is_empty(self) -> bool:
        """Whether nothing a node returns has elements; there must be something."""
        return bool(self.tensors) and all(tensor.is_empty for tensor in self.tensors)


class Nodes:
    """The facts of a graph's nodes and tensors, each read once. They hold while only uses of nodes are changed."""

    def __init__(self) -> None:
        self._facts: dict[Node, NodeFacts] = {}
        self._tensors: dict[int, TensorFacts] = {}  # by identity: the facts keep the tensors alive
        self.taken: set[Hashable] = set()  # likenesses of nodes that a lowering takes

    def __getitem__(self, node: Node) -> NodeFacts:
        found = self._facts.get(node)
        if found is None:
            found = self._facts[node] = self._read(node)
        return found

    def tensor(self, fake: torch.Tensor) -> TensorFacts:
        found = self._tensors.get(id(fake))
        if found is None:
            found = self._tensors[id(fake)] = TensorFacts.of(fake)
        return found

    def storages_read(self, node: Node) -> set[int]:
        return {storage for source in node.all_input_nodes for storage in self[source].storages}

    def storages_touched(self, node: Node) -> set[int]:
        """Those of which a node reads or writes elements: what is empty asks for no order."""
        if self[node].is_empty and not self[node].mutates:
            return set()
        return {t.storage for source in node.all_input_nodes for t in self[source].tensors if not t.is_empty}

    def stays_on_host(self, node: Node) -> bool:
        """Whether a node reads and makes nothing but tensors and numbers of the host."""
        touched = [tensor for near in (node, *node.all_input_nodes) for tensor in self[near].tensors]
        return node.op == "call_function" and bool(touched) and all(t.device.type == "cpu" for t in touched)

    def cards(self, node: Node) -> set[torch.device]:
        """Those on which a node's tensors lie, what it reads and what it makes."""
        near = (node, *node.all_input_nodes)
        return {tensor.device for other in near for tensor in self[other].tensors if tensor.is_on_card}

    def likeness(self, node: Node) -> Hashable:
        """Equal for nodes that call the same operator on tensors that lie alike, with equal numbers and names."""
        storages: dict[int, int] = {}
        made = node.meta["val"] if isinstance(node.meta["val"], (list, tuple)) else (node.meta["val"],)
        read = frozenset([user.args[1] for user in node.users]) if len(made) > 1 else None
        given = [self._alike(argument, storages) for argument in (*node.args, *node.kwargs.items())]
        return (node.target, read, *given, *[self._alike(value, storages) for value in made])

    def _alike(self, given: Any, storages: dict[int, int]) -> Hashable:
        if isinstance(given, Node):
            given = given.meta.get("val")
        if isinstance(given, torch.Tensor):
            tensor = self.tensor(given)
            place = storages.setdefault(tensor.storage, len(storages))
            return place, tensor.device, tensor.dtype, tensor.size, tensor.stride, extent_of(tensor.offset)
        if isinstance(given, (list, tuple)):
            return tuple([self._alike(item, storages) for item in given])
        return type(given), repr(given)

    def _read(self, node: Node) -> NodeFacts:
        tensors = tuple(map(self.tensor, fake_tensors(node)))
        storages, writes = tuple(tensor.storage for tensor in tensors), mutates(node)
        views = node.op == "call_function" and not writes and bool(tensors)
        passes_on = (
            node.target is operator.getitem
            or (views and self.storages_read(node).issuperset(storages))
            or is_number_of_sizes(node)
        )
        return NodeFacts(tensors, storages, writes, passes_on)
