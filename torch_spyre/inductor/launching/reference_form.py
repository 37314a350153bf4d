"""A graph as the reference's front end has it when its planner begins: for the strategy `documented`.

Sums of products are two calls, and products of batches have the dims that torch folded away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from openspyre.spec.addressing import row_major
from torch_spyre.inductor.graph import Argument, Graph, GraphCall, Ref, Value
from torch_spyre.inductor.launching.reference_spelling import spelled
from torch_spyre.inductor.lowering.graph_lowerings import BATCHED_PRODUCT

_SUMS = {"aten.addmm.default": "aten.mm.default", "aten.baddbmm.default": "aten.bmm.default"}
_PRODUCTS = ("aten.mm.default", "aten.bmm.default")


def reference_form(graph: Graph) -> Graph:
    """The same results, in other steps."""
    work = _Work(graph)
    calls = [step for call in graph.calls for step in work.steps(call)]
    return replace(graph, values=tuple(work.values), calls=tuple(calls))


# --- products ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Work:
    graph: Graph
    values: list[Value]
    wholes: dict[str, Value]
    seen_as: dict[str, set[tuple[object, ...]]]  # buffer -> the sizes in which calls and the caller see it

    def __init__(self, graph: Graph) -> None:
        self.graph, self.values, self.wholes, self.seen_as = graph, list(graph.values), {}, {}
        for value in graph.values:
            self.wholes.setdefault(value.buffer, value)
        read = [number for call in graph.calls for number in _read(call.arguments)]
        sizes = [(graph.values[number], graph.values[number].size) for number in read]
        sizes += [(graph.values[number], size) for number, size in zip(graph.outputs, graph.shown, strict=True)]
        for value, size in sizes:
            self.seen_as.setdefault(value.buffer, set()).add(size if value.offset == 0 else ())

    def steps(self, call: GraphCall) -> Iterator[GraphCall]:
        if call.target in _PRODUCTS:
            first, second = call.arguments
            yield from self._product(call, call.target, first, second)
        elif call.target in _SUMS and all(isinstance(a, int | float) for a in call.arguments[3:]):
            yield from self._sum(call)
        else:
            yield from spelled(call, self.values)

    def _sum(self, call: GraphCall) -> Iterator[GraphCall]:
        """beta * added + alpha * product; where a number is 1 there is no call, where beta is 0 nothing is added."""
        added, first, second, beta, alpha = call.arguments
        made = self.values[call.results[0]]
        if not _is_plain(made) or not isinstance(added, Ref) or (beta == 0 and alpha == 1):
            yield call
            return
        lead = self._lead(call, first, second)
        size = made.size if lead is None else (*lead, made.size[-1])
        self.values[call.results[0]] = _dense(made, made.buffer, size)
        product = self._new(made, f"{made.buffer}.product", size)
        yield from self._product(replace(call, results=(product,)), _SUMS[call.target], first, second, lead)
        if alpha != 1:
            scaled = call.results[0] if beta == 0 else self._new(made, f"{made.buffer}.scaled", size)
            yield replace(call, target="aten.mul.Tensor", arguments=(Ref(product), alpha), results=(scaled,))
            product = scaled
        if beta == 0:
            return
        if beta != 1:
            factor = self._new(self.values[added.value], f"{made.buffer}.added", self.values[added.value].size)
            yield replace(call, target="aten.mul.Tensor", arguments=(added, beta), results=(factor,))
            added = Ref(factor)
        yield replace(call, target="aten.add.Tensor", arguments=(Ref(product), added, 1))

    def _product(
        self, call: GraphCall, target: str, first: Argument, second: Argument, lead: tuple[int, ...] | None = None
    ) -> Iterator[GraphCall]:
        lead = lead or self._lead(call, first, second)
        if lead is None or not isinstance(first, Ref) or not isinstance(second, Ref):
            yield replace(call, target=target, arguments=(first, second))
            return
        (result,) = call.results
        made = self.values[result]
        a, b = self.values[first.value], self.values[second.value]
        batch = lead[:-1] if target == "aten.mm.default" else lead
        rows = (lead[-1],) if target == "aten.mm.default" else (int(a.size[-2]),)
        self.values[result] = _dense(made, made.buffer, (*batch, *rows, made.size[-1]))
        unfolded = [self._unfolded(a, (*batch, *rows)), self._unfolded(b, (*batch, int(b.size[-2])))]
        shared = target == "aten.mm.default"
        yield replace(call, target=BATCHED_PRODUCT, arguments=(*map(Ref, unfolded), shared))

    def _lead(self, call: GraphCall, first: Argument, second: Argument) -> tuple[int, ...] | None:
        """The dims that torch folded into one for a product, if no reader of the result sees them folded."""
        made = self.values[call.results[0]]
        if not isinstance(first, Ref) or not isinstance(second, Ref) or not _is_plain(made):
            return None
        if made.size in self.seen_as.get(made.buffer, set()):
            return None
        factors = (first,) if len(made.size) == 2 else (first, second)
        found = [self._folded(self.values[ref.value], made.size[0]) for ref in factors]
        return next((lead for lead in found if lead is not None), None)

    def _folded(self, value: Value, length: object) -> tuple[int, ...] | None:
        """The first dims of the buffer that a value lies in, as many as are so long together; None if that is the first alone."""
        size = [extent for extent in self.wholes[value.buffer].size if isinstance(extent, int)]
        if len(size) < len(self.wholes[value.buffer].size):
            return None
        return next((tuple(size[:end]) for end in range(2, len(size)) if prod(size[:end]) == length), None)

    def _unfolded(self, value: Value, outer: tuple[int, ...]) -> int:
        """A factor with these dims before its last: its first dim is theirs together, or it has none of its own for them."""
        inner = value.size[-1:] if len(value.size) == 2 and prod(outer) == value.size[0] else value.size[-2:]
        own = outer if len(inner) == 1 else outer[:-1]
        step = value.stride[0] if len(inner) == 1 or len(value.size) == 3 else 0
        strides = tuple(int(step) * s for s in row_major(own))
        rest = value.stride[-len(inner) :]
        self.values.append(Value(value.buffer, value.dtype, (*own, *inner), (*strides, *rest), value.offset))
        return len(self.values) - 1

    def _new(self, like: Value, name: str, size: tuple[object, ...]) -> int:
        self.values.append(_dense(like, name, size))
        return len(self.values) - 1


def _dense(like: Value, name: str, size: Sequence[object]) -> Value:
    known = tuple(int(extent) for extent in size)  # type: ignore[call-overload]
    return Value(name, like.dtype, known, row_major(known))


def _is_plain(value: Value) -> bool:
    """Whether a value is all of its buffer, row by row, and its sizes are numbers."""
    if not all(isinstance(extent, int) for extent in (*value.size, *value.stride)) or value.offset != 0:
        return False
    return value.stride == row_major(value.size)  # type: ignore[arg-type]


def _read(arguments: Sequence[Argument]) -> Iterator[int]:
    for argument in arguments:
        match argument:
            case Ref(value=number):
                yield number
            case tuple():
                yield from _read(argument)
