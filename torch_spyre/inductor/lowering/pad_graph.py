"""A graph for all sizes up to a bucket's: dims of one symbol are padded, and what would read across the padding is masked.

The symbol then stands for the bucket's size, and a number that each launch brings for the true one. Padding comes behind the true
elements of a dim, or of each block of a dim that is a flattened batch: pointwise calls may compute on it, sums and products along it
see 0, maxima and scores -inf, indices 0; where rows are written, the last is written again. Indices into a padded dim have the true
size's bounds.
A call that is not understood so makes the graph `Unpaddable`: it is compiled for every size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from openspyre.spec.ops import Kind
from torch_spyre.inductor.graph import (
    Argument,
    Expression,
    Extent,
    Graph,
    GraphCall,
    Ref,
    Value,
    names_in,
    unified,
)
from torch_spyre.inductor.lowering.alignment import NotAligned, Placement, blocks_of, in_blocks, placement, shift_of
from torch_spyre.inductor.lowering.padded_values import LOWEST, AddedValues, Unpaddable
from torch_spyre.ops import eager
from torch_spyre.ops.calls import Binding

_ALIKE = {
    "prims.convert_element_type.default",
    "aten.clone.default",
    "aten._to_copy.default",
    "aten.copy.default",
    "aten.copy_.default",
}
_MADE = ("full", "zeros", "ones", "empty", "scalar_tensor", "new_")
_GATHERS = {"embedding": (1,), "index_select": (2,), "gather": (2,), "index.Tensor": (1,)}  # arguments that are indices
_WRITES = {"scatter.src": (2, 3), "scatter.value": (2,)}  # index and what is written, which lie alike
_PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2)}
_ATTENTION = "aten._scaled_dot_product_fused_attention_overrideable.default"
_FILLS: dict[str, int | bool | float] = {  # what changes no fold
    "sum": 0, "nansum": 0, "count_nonzero": 0, "any": False, "all": True, "prod": 1, "amax": LOWEST, "amin": -LOWEST,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PaddedGraph:
    """A graph for sizes up to the symbol's; it takes one number more, the last: the true size.

    Extents are from symbol + `least` to symbol + `most`, and none may be empty. Its views lie as its sizes say where the symbol is
    `fits_from` or more, and of each pair of expressions in `inside` the first is less than the second.
    """

    graph: Graph
    symbol: str
    least: int
    most: int
    fits_from: int = 0
    inside: frozenset[tuple[str, str]] = frozenset()


def pad_graph(
    graph: Graph, symbol: str, others: Mapping[str, int], fixed: Mapping[str, int] | None = None
) -> PaddedGraph:
    """Other symbols that vary with this one are always so much larger; those that are fixed are these numbers."""
    padding = _Padding(unified(graph, symbol, others, fixed), symbol)
    made, shifts = padding.run(), padding.shifts or {0}
    return PaddedGraph(made, symbol, min(shifts), max(shifts), padding.fits_from, frozenset(padding.inside))


class _Padding(AddedValues):
    def __init__(self, graph: Graph, symbol: str) -> None:
        super().__init__(graph, symbol)
        self.shifts: set[int] = set()  # of extents: how much larger than the symbol they are
        self.wholes: dict[str, Value] = {}
        for value in graph.values:
            self.wholes.setdefault(value.buffer, value)
        self.fits_from = 0
        self.inside: set[tuple[str, str]] = set()
        self._moved: dict[int, int] = {}  # views of rows at the end: the number of the value that has them

    def run(self) -> Graph:
        graph, places = self.graph, [self._placed(value) for value in self.graph.values]
        tails = {number: place for number, place in enumerate(places) if place is not None and place.tail is not None}
        if any(number in tails for number in (*graph.inputs, *graph.outputs)):
            raise Unpaddable("an input or output begins at the end of another")
        known = {graph.values[number].buffer for number in graph.inputs}
        for call in graph.calls:
            self.origin = call.origin.changed("rewrite", "pad_graph", "one program serves all sizes of a bucket")
            for number in _references(call.arguments):
                if number in tails and number not in self._moved:
                    self._moved[number] = self._rows(number, tails[number])
            if any(
                number in tails or self._stops_early(number, places[number]) for number in call.results if number >= 0
            ):
                raise Unpaddable(f"{call.target} writes a part of a buffer")
            self._add(replace(call, arguments=tuple(map(self._seen, call.arguments))))
            written = {self.values[number].buffer for number in call.results if number >= 0}
            if written & known:  # what was made of it before is old
                self._forget(written)
                self._moved = {}
            known |= written
        numbers = graph.numbers + 1
        return replace(
            graph, name=f"{graph.name} padded", values=tuple(self.values), calls=tuple(self.calls), numbers=numbers
        )

    # --- what may be padded ----------------------------------------------------------------------------------------------

    def _placed(self, value: Value) -> Placement | None:
        whole = self.wholes[value.buffer]
        if not any(self._mentions(extent) for v in (value, whole) for extent in (*v.size, *v.stride, v.offset)):
            return None
        for extent in filter(self._mentions, value.size):
            blocks = blocks_of(extent, self.symbol)
            if blocks is None:
                raise Unpaddable(f"a size is {', '.join(map(str, value.size))}, not {self.symbol} and a number")
            self.shifts.add(blocks[1])
        try:
            place = placement(value, whole, self.symbol, self.graph.symbols)
        except NotAligned as problem:
            raise Unpaddable(str(problem)) from None
        self.fits_from = max(self.fits_from, place.least)
        self.inside |= set(place.inside)
        return place

    def _stops_early(self, number: int, place: Placement | None) -> bool:
        """Whether padding of a view is true rows of its buffer."""
        if place is None:
            return False
        view, whole = (
            in_blocks(v, self.symbol) for v in (self.values[number], self.wholes[self.values[number].buffer])
        )
        padded = [
            (shift, step[0])
            for extent, step in zip(view.size, place.steps, strict=True)
            if step is not None and (shift := shift_of(extent, self.symbol)) is not None
        ]
        return any(place.start[dim] + shift != shift_of(whole.size[dim], self.symbol) for shift, dim in padded)

    def _is_padded(self, number: int, dim: int | None = None) -> bool:
        size = self.values[number].size
        return any(map(self._mentions, size)) if dim is None else bool(size) and self._mentions(size[dim])

    def _refuse_blocks(self, name: str, *extents: Extent) -> None:
        """For calls in which rows of one block would meet the padding of another."""
        if any((blocks_of(extent, self.symbol) or (1, 0))[0] > 1 for extent in extents):
            raise Unpaddable(f"{name} goes over a flattened dim")

    def _seen(self, argument: Argument) -> Argument:
        """With rows at the end in buffers of their own."""
        match argument:
            case Ref(value=number):
                return Ref(self._moved.get(number, number))
            case tuple():
                return tuple(map(self._seen, argument))
        return argument

    # --- calls -----------------------------------------------------------------------------------------------------------

    def _add(self, call: GraphCall) -> None:
        touched = [*_references(call.arguments), *(number for number in call.results if number >= 0)]
        if any(self._is_padded(number) for number in touched):
            call = self._masked_call(call)
        elif _names(call.arguments) & {self.symbol}:
            raise Unpaddable(f"{call.target} computes with the size")
        self.calls.append(call)

    def _masked_call(self, call: GraphCall) -> GraphCall:
        name = call.target.removeprefix("aten.").removesuffix(".default")
        sized: tuple[Argument, ...] = tuple(argument for argument in call.arguments if not isinstance(argument, tuple))
        if call.target == "prims.iota.default":
            sized = sized[1:]
        elif not name.startswith(_MADE):
            sized = call.arguments
        if self.symbol in _names(sized):
            raise Unpaddable(f"{call.target} computes with the size")
        if call.target == "prims.iota.default" or name in ("tril", "triu"):  # they count rows
            self._refuse_blocks(name, *self.values[call.results[0]].size)
        if call.target in _ALIKE or call.target == "prims.iota.default" or name.startswith(_MADE):
            return call
        found = eager.binding_of(call.target)
        if found is None:
            raise Unpaddable(f"{call.target} is not known along padding")
        binding = found[0]
        rule = _RULES.get(binding.rows[0].kind)
        if rule is None:
            raise Unpaddable(f"{call.target} is not known along padding")
        return rule(self, call, binding, name)

    def _alike(self, call: GraphCall, binding: Binding, name: str) -> GraphCall:
        return call

    def _joined(self, call: GraphCall, binding: Binding, name: str) -> GraphCall:
        """Along the padded dim one part has all there is; the others are empty."""
        parts, dim = call.arguments[:2]
        if not isinstance(parts, tuple) or not isinstance(dim, int):
            raise Unpaddable(f"{name} is not known along padding")
        sizes = [self.values[_reference(part)].size for part in parts]
        # An empty vector fits everywhere, by torch's tradition.
        pieces = [(size[dim], part) for size, part in zip(sizes, parts, strict=True) if size != (0,) and size[dim] != 0]
        padded = [self._mentions(extent) for extent, _ in pieces]
        if not any(padded) or len(pieces) == 1:
            return call
        self._refuse_blocks(name, *(extent for extent, _ in pieces))
        if padded.index(True) == len(padded) - 1:
            return call  # the padding is at the end
        if padded == [True, False] and pieces[1][0] == 1:
            return self._appended(call, dim, _reference(pieces[1][1]))
        raise Unpaddable(f"{name} joins along the padded dim")

    def _appended(self, call: GraphCall, dim: int, row: int) -> GraphCall:
        """A row behind the true ones, not behind the padding."""
        result, new = self.values[call.results[0]], self.values[row]
        dim %= len(result.size)
        joined = self._result(call.target, call.arguments, result.dtype, result.size)
        shift = shift_of(result.size[dim], self.symbol)
        assert shift is not None
        places = self._places(result.size[dim], 1 - shift)
        last = self._result("aten.eq.Scalar", (Ref(places), self.true_size), "bool", (result.size[dim],))
        here = self._along(last, dim, len(result.size))
        stride = tuple(0 if d == dim else step for d, step in enumerate(new.stride))
        everywhere = self._view(row, result.size, stride, new.offset)
        return GraphCall("aten.where.self", (Ref(here), Ref(everywhere), Ref(joined)), call.results, self.origin)

    def _reduced(self, call: GraphCall, binding: Binding, name: str) -> GraphCall:
        x = _reference(call.arguments[0])
        dims = self._padded_among(x, _given(call, binding, "dim"))
        if not dims:
            return call
        fill = _FILLS.get(name.partition(".")[0])
        if fill is None or (isinstance(fill, float) and not self.values[x].dtype.startswith(("float", "bfloat"))):
            raise Unpaddable(f"{name} goes over the padded dim")
        for dim in dims:
            x = self._masked(x, dim, fill)
        return _with(call, 0, Ref(x))

    def _along_rows(self, call: GraphCall, binding: Binding, name: str) -> GraphCall:
        if call.target == _ATTENTION:
            return self._attended(call)
        if name in ("native_layer_norm", "_fused_rms_norm"):
            shape = call.arguments[1]
            x = _reference(call.arguments[0])
            dims = range(-len(shape), 0) if isinstance(shape, tuple) else ()
            if any(self._is_padded(x, dim) for dim in dims):
                raise Unpaddable(f"{name} goes over the padded dim")
            return call
        x, dim = _reference(call.arguments[0]), _given(call, binding, "dim")
        if not self._padded_among(x, dim):
            return call
        if name not in ("_softmax", "_log_softmax"):
            raise Unpaddable(f"{name} goes over the padded dim")
        return _with(call, 0, Ref(self._masked(x, int(dim), LOWEST)))

    def _attended(self, call: GraphCall) -> GraphCall:
        query, key, value = (_reference(argument) for argument in call.arguments[:3])
        if self._is_padded(query, -1) or self._is_padded(key, -1):
            raise Unpaddable("attention goes over the padded dim")  # and is scaled by its size
        bias, causal = call.arguments[3], call.arguments[5]
        if not self._is_padded(key, -2):
            return call
        rows = [self.values[number].size[-2] for number in (query, key)]
        self._refuse_blocks("attention", *rows)
        lengths = [shift_of(length, self.symbol) for length in rows]
        if causal and lengths[0] != lengths[1]:
            raise Unpaddable("attention of queries that do not end with the keys")
        call = _with(call, 1, Ref(self._masked(key, -2, 0)))
        call = _with(call, 2, Ref(self._masked(value, -2, 0)))
        if isinstance(bias, Ref):
            if not self._is_padded(bias.value, -1):
                raise Unpaddable("attention's mask does not go along the keys")
            return _with(call, 3, Ref(self._masked(bias.value, -1, LOWEST)))
        return call if causal else _with(call, 3, Ref(self._length_mask(query, self.values[key].size[-2])))

    def _multiplied(self, call: GraphCall, binding: Binding, name: str) -> GraphCall:
        places = _PRODUCTS.get(name)
        if places is None:
            raise Unpaddable(f"{name} is not known along padding")
        first, second = (_reference(call.arguments[place]) for place in places)
        if self._is_padded(first, -1):
            call = _with(call, places[0], Ref(self._masked(first, -1, 0)))
            call = _with(call, places[1], Ref(self._masked(second, -2, 0)))
        return call

    def _gathered(self, call: GraphCall, binding: Binding, name: str) -> GraphCall:
        """Padded indices choose the first row, which is there; the others must be those of true rows."""
        self._refuse_blocks(name, *self.values[_reference(call.arguments[0])].size)
        if name == "index_copy" or name in _WRITES:
            return self._written(call, name)
        if name not in _GATHERS:
            raise Unpaddable(f"{name} would write padding")
        if name == "gather":
            self._refuse_walks_beyond(call, 2, exactly=False)
        for place in _GATHERS[name]:
            call = _with(call, place, self._with_true_bounds(call, place))
            call = _with(call, place, self._without_padding(call.arguments[place]))
        return call

    def _written(self, call: GraphCall, name: str) -> GraphCall:
        """In place of padding the last row is written once more, to where it goes anyway."""
        dim = call.arguments[1]
        along: dict[int, tuple[Extent, ...]]
        self._refuse_walks_beyond(call, 3 if name == "index_copy" else 2, exactly=True)
        if name == "index_copy":
            source = self.values[_reference(call.arguments[3])].size
            assert isinstance(dim, int)
            index = self.values[_reference(call.arguments[2])].size or (1,)
            along = {2: index, 3: tuple(n if d == dim % len(source) else 1 for d, n in enumerate(source))}
        else:
            along = {place: self.values[_reference(call.arguments[2])].size for place in _WRITES[name]}
        call = _with(call, 2, self._with_true_bounds(call, 2))
        for place, extents in along.items():
            for d, extent in enumerate(extents):
                if self._mentions(extent):
                    self._refuse_blocks(name, extent)
                    last = self._last_for_padding(_reference(call.arguments[place]), d, extent)
                    call = _with(call, place, Ref(last))
        return call

    def _refuse_walks_beyond(self, call: GraphCall, place: int, *, exactly: bool) -> None:
        """Dims that are walked together with the table's, unlike the indexed one: their padding must be padding of the table.

        What is written there must be just that; what is read may be less.
        """
        table, walked = (self.values[_reference(call.arguments[at])].size for at in (0, place))
        dim = call.arguments[1]
        assert isinstance(dim, int)
        for d, extent in enumerate(walked):
            if not table or d == dim % len(table) or not self._mentions(extent):
                continue
            room, shift = shift_of(table[d], self.symbol), shift_of(extent, self.symbol)
            if room is None or shift is None or shift > room or (exactly and shift != room):
                raise Unpaddable(f"{call.target} goes beyond the rows of {' x '.join(map(str, table))}")

    def _with_true_bounds(self, call: GraphCall, place: int) -> Argument:
        """The indices of a call, where the dim they count along is padded."""
        table, indices = self.values[_reference(call.arguments[0])].size, call.arguments[place]
        if isinstance(indices, tuple):
            return tuple(self._bounded_index(index, table[dim], table) for dim, index in enumerate(indices))
        counts_along = call.arguments[1] if len(call.arguments) > 2 and isinstance(call.arguments[1], int) else 0
        return self._bounded_index(indices, table[counts_along] if table else 1, table)

    def _bounded_index(self, index: Argument, extent: Extent, table: tuple[Extent, ...]) -> Argument:
        if not isinstance(index, Ref) or not any(map(self._mentions, table)):
            return index
        if self.values[index.value].dtype not in ("int64", "int32"):
            raise Unpaddable("a mask chooses rows")  # of as many dims as it has
        return Ref(self._within(index.value, extent)) if self._mentions(extent) else index

    def _without_padding(self, index: Argument) -> Argument:
        match index:
            case Ref(value=number):
                for dim, extent in enumerate(self.values[number].size):
                    if self._mentions(extent):
                        number = self._masked(number, dim, 0)
                return Ref(number)
            case tuple():
                return tuple(map(self._without_padding, index))
        return index

    def _ordered(self, call: GraphCall, binding: Binding, name: str) -> GraphCall:
        x, dim = _reference(call.arguments[0]), _given(call, binding, "dim")
        if binding.rows[0].kind is Kind.SORT and self._padded_among(x, dim):
            raise Unpaddable(f"{name} goes over the padded dim")
        self._refuse_blocks(name, *(self.values[x].size[d] for d in self._padded_among(x, dim)))
        return call  # a running sum has the padding behind it

    def _padded_among(self, x: int, dims: Any) -> list[int]:
        rank = len(self.values[x].size)
        chosen = range(rank) if dims is None or dims == () else dims if isinstance(dims, tuple) else (dims,)
        return [dim for dim in chosen if rank and self._is_padded(x, dim)]


def _references(arguments: tuple[Argument, ...]) -> list[int]:
    found: list[int] = []
    for argument in arguments:
        if isinstance(argument, Ref):
            found.append(argument.value)
        elif isinstance(argument, tuple):
            found += _references(argument)
    return found


def _reference(argument: Argument) -> int:
    if not isinstance(argument, Ref):
        raise Unpaddable(f"{argument!r} stands in place of a tensor")
    return argument.value


def _names(arguments: tuple[Argument, ...]) -> set[str]:
    """Symbols that a call computes with."""
    found: set[str] = set()
    for argument in arguments:
        if isinstance(argument, Expression):
            found |= names_in(argument.text)
        elif isinstance(argument, tuple):
            found |= _names(argument)
    return found


def _given(call: GraphCall, binding: Binding, name: str) -> Any:
    """An argument by its name; None if the operator has no such."""
    names = [argument.name for argument in binding.arguments]
    return call.arguments[names.index(name)] if name in names else None


def _with(call: GraphCall, place: int, argument: Argument) -> GraphCall:
    return replace(call, arguments=(*call.arguments[:place], argument, *call.arguments[place + 1 :]))


_Rule = Callable[[_Padding, GraphCall, Binding, str], GraphCall]
_RULES: dict[Kind, _Rule] = {
    Kind.POINTWISE: _Padding._alike,
    Kind.CREATION: _Padding._alike,
    Kind.MOVEMENT: _Padding._joined,
    Kind.REDUCTION: _Padding._reduced,
    Kind.ROWS: _Padding._along_rows,
    Kind.CONTRACTION: _Padding._multiplied,
    Kind.INDEXED: _Padding._gathered,
    Kind.SCAN: _Padding._ordered,
    Kind.SORT: _Padding._ordered,
}
