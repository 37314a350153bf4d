"""Reads nodes of Inductor's graphs: which are views, what a node computes, and how its tensors lie in their storages."""

from __future__ import annotations

from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.inductor.border import OpOverload, PythonPrinter
from torch_spyre.inductor.graph import Argument, Expression, Extent, GraphCall, Named, Number, Ref, Value
from torch_spyre.inductor.splicing import NotImportable
from torch_spyre.ops.calls import dtype_name

Node = torch.fx.Node
ALL_RESULTS = "spyre_all_results"  # in a node's meta: its lowering computes results that nobody reads, too
KNOWN_NUMBERS = "spyre_known_numbers"  # in a node's meta: its lowering must know the integers it computes with
_printer = PythonPrinter()
_CASTS = ("prims.convert_element_type.default", "aten._to_copy.default")


def fake_tensors(node: Node) -> list[torch.Tensor]:
    """The tensors a node returns, as the graph describes them."""
    value = node.meta.get("val")
    found = value if isinstance(value, (tuple, list)) else [value]
    return [tensor for tensor in found if isinstance(tensor, torch.Tensor)]


def symbolic_numbers(*nodes: Node) -> list[torch.SymInt]:
    """Numbers in what nodes return, their tensors' sizes among them, that the launch will know."""
    sizes = [n for node in nodes for t in fake_tensors(node) for n in (*t.shape, *t.stride(), t.storage_offset())]
    numbers = [*(node.meta.get("val") for node in nodes), *sizes]
    return [number for number in numbers if isinstance(number, torch.SymInt)]


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


def is_number_of_sizes(node: Node) -> bool:
    """Whether a node computes with sizes only, as `s0 * 2` or `x.shape[0]` do; `item()` reads elements."""
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)):
        return False
    return not isinstance(node.target, OpOverload) or node.target.name().startswith("aten::sym_")


def reads_card_only(node: Node) -> bool:
    """Whether an operator reads tensors of the card and returns nothing: a check."""
    read = [tensor for source in node.all_input_nodes for tensor in fake_tensors(source)]
    nothing = isinstance(node.target, OpOverload) and not node.target._schema.returns
    return nothing and bool(read) and all(tensor.device.type == DEVICE_NAME for tensor in read)


def stays_on_host(node: Node) -> bool:
    """Whether a node reads and makes nothing but tensors and numbers of the host."""
    touched = [*fake_tensors(node), *(tensor for source in node.all_input_nodes for tensor in fake_tensors(source))]
    return node.op == "call_function" and bool(touched) and all(tensor.device.type == "cpu" for tensor in touched)


def is_host_number(node: Node) -> bool:
    """Whether a node is a tensor without dims on the host: a number to the card."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dim() == 0


def number_before_rounding(node: Node) -> Node:
    """Where a launch may read a number: it is rounded to float32 there, if the graph does it or not."""
    while str(node.target) in _CASTS and isinstance(node.args[0], Node) and is_host_number(node.args[0]):
        kinds = node.args[0].meta["val"].dtype, node.meta["val"].dtype
        if kinds != (torch.float64, torch.float32):
            break
        node = node.args[0]
    return node


def has_no_elements(tensor: torch.Tensor) -> bool:
    return any(isinstance(extent, int) and extent == 0 for extent in tensor.shape)


def is_empty(node: Node) -> bool:
    """Whether nothing a node returns or writes has elements."""
    return all(has_no_elements(tensor) for tensor in fake_tensors(node))


def mutates(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def origin_of(node: Node) -> str:
    """The model's line that made a node."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    return next((line for line in reversed(lines) if line.startswith("File ")), "")


def _takes_numbers(argument: Any) -> bool:
    return str(argument.type) in ("Tensor", "Optional[Tensor]", "number", "Optional[number]")


class Reader:
    """Describes nodes as values and calls; `values` is shared by all calls of one bundle."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.symbols: set[str] = set()
        self.numbers: list[Node] = []
        self._numbers: dict[Value, int] = {}
        self._buffers: dict[int, str] = {}
        self._starts: dict[int, Any] = {}  # torch may describe a tensor that a call makes with the offset of its source
        self._seen: dict[int, int] = {}  # tensors of the graph, by identity: it keeps them alive

    def value(self, tensor: torch.Tensor, owner: str, *, made: bool = False) -> int:
        """The number of a tensor's value; `owner` names its buffer if it is new, `made` tells that a call makes it."""
        found = self._seen.get(id(tensor))
        if found is None:
            found = self._seen[id(tensor)] = self._described(tensor, owner, made)
        return found

    def _described(self, tensor: torch.Tensor, owner: str, made: bool) -> int:
        buffer = self._buffers.setdefault(storage_of(tensor), owner)
        start = self._starts.setdefault(storage_of(tensor), tensor.storage_offset() if made else 0)
        offset = self.extent(tensor.storage_offset() - start)
        size = tuple(self.extent(n) for n in tensor.shape)
        stride = tuple(self.extent(n) for n in tensor.stride())
        described = Value(buffer, dtype_name(tensor.dtype), size, stride, offset)
        if described not in self._numbers:
            self._numbers[described] = len(self.values)
            self.values.append(described)
        return self._numbers[described]

    def extent(self, number: Any) -> Extent:
        if isinstance(number, int):
            return number
        expression = number.node.expr
        if expression.is_Integer:
            return int(expression)
        self.symbols |= {str(symbol) for symbol in expression.free_symbols}
        return str(_printer.doprint(expression))

    def call(self, node: Node) -> GraphCall:
        """A node as a call, its results being new values."""
        if not isinstance(node.target, OpOverload):
            raise NotImportable(f"{node.target} is no operator of torch's")
        schema = node.target._schema
        given = dict(node.kwargs)
        for argument, value in zip(schema.arguments, node.args):  # noqa: B905 (defaults follow)
            given[argument.name] = value
        arguments = tuple(
            (self._computed_with if _takes_numbers(a) and KNOWN_NUMBERS not in node.meta else self.argument)(
                given.get(a.name, a.default_value)
            )
            for a in schema.arguments
        )
        return GraphCall(str(node.target), arguments, self._results(node), origin_of(node))

    def _results(self, node: Node) -> tuple[int, ...]:
        value = node.meta.get("val")
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
            case list() | tuple():
                return tuple(self.argument(item) for item in given)
            case torch.dtype() | torch.layout() | torch.memory_format():
                return Named(type(given).__name__, str(given).removeprefix("torch."))
            case torch.device():
                return Named("device", str(given))
            case torch.SymInt():
                return self._number(given)
            case None | bool() | int() | float() | str():
                return given
        raise NotImportable(f"an argument of type {type(given).__name__}")

    def _from_node(self, node: Node) -> Argument:
        value = node.meta.get("val")
        if is_host_number(node) and not value.dtype.is_complex:
            return self._brought(number_before_rounding(node), dtype_name(value.dtype))
        if isinstance(value, torch.Tensor):
            if value.device.type != DEVICE_NAME:
                raise NotImportable(f"it reads a tensor on {value.device}")
            return Ref(self.value(value, node.name))
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
