"""Values and calls that a padded graph has beside the graph's own: masks, masked values, rows in buffers of their own."""

from __future__ import annotations

from collections.abc import Callable

from openspyre.spec.origin import NOWHERE
from torch_spyre.inductor.graph import (
    Argument,
    Expression,
    Extent,
    Graph,
    GraphCall,
    Named,
    Number,
    Ref,
    Value,
    names_in,
)
from torch_spyre.inductor.lowering.alignment import Placement, blocks_of, in_blocks

LOWEST = float("-inf")


class Unpaddable(NotImplementedError):
    """Why a graph cannot serve other sizes than its own."""


class AddedValues:
    """Of a graph whose `symbol` varies. What is made twice is made once: `shared`."""

    def __init__(self, graph: Graph, symbol: str) -> None:
        self.graph, self.symbol = graph, symbol
        self.values = list(graph.values)
        self.calls: list[GraphCall] = []
        self.origin = NOWHERE  # of what is being padded
        self.true_size = Number(graph.numbers, "int64")
        self._shared: dict[object, int] = {}  # numbers of values made once: masks, masked values, picked rows
        self._bounded: dict[
            tuple[int, int], int
        ] = {}  # indices into so long a dim: those with the bounds of the true one

    def _mentions(self, extent: Extent) -> bool:
        return isinstance(extent, str) and self.symbol in names_in(extent)

    def _made(self, key: object, make: Callable[[], int]) -> int:
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def _result(self, target: str, arguments: tuple[Argument, ...], dtype: str, size: tuple[Extent, ...]) -> int:
        number, buffer = len(self.values), f"padding{len(self.values)}"
        self.values.append(Value(buffer, dtype, size, _dense(size)))
        self.calls.append(GraphCall(target, arguments, (number,), self.origin))
        return number

    def _view(self, number: int, size: tuple[Extent, ...], stride: tuple[Extent, ...], offset: Extent = 0) -> int:
        of = self.values[number]
        self.values.append(Value(of.buffer, of.dtype, size, stride, offset))
        return len(self.values) - 1

    def _places(self, length: Extent, first: int = 0) -> int:
        """first, first + 1, ..."""
        text: Argument = Expression(length) if isinstance(length, str) else length
        made = (Named("dtype", "int64"), Named("device", "spyre:0"), False)
        arguments = (text, first, 1, *made)
        return self._made(
            ("places", length, first), lambda: self._result("prims.iota.default", arguments, "int64", (length,))
        )

    def _along(self, line: int, dim: int, rank: int) -> int:
        """A line of values as a tensor with one dim that is not 1."""
        size: tuple[Extent, ...] = tuple(self.values[line].size[0] if d == dim else 1 for d in range(rank))
        return self._view(line, size, tuple(int(d == dim) for d in range(rank)))

    def _behind(self, extent: Extent) -> int:
        """True for the padding of a dim."""
        found = blocks_of(extent, self.symbol)
        assert found is not None
        blocks, shift = found
        rows = f"{self.symbol} + {shift}"

        def make() -> int:
            places = Ref(self._places(rows, -shift))
            return self._result("aten.ge.Scalar", (places, self.true_size), "bool", (rows,))

        def repeat() -> int:
            row = self._view(self._made(("behind", shift), make), (blocks, rows), (0, 1))
            whole = self._result("aten.clone.default", (Ref(row), None), "bool", (blocks, rows))
            return self._view(whole, (extent,), (1,))

        return self._made(("behind", blocks, shift), repeat) if blocks > 1 else self._made(("behind", shift), make)

    def _masked(self, number: int, dim: int, fill: object) -> int:
        value = self.values[number]
        dim %= len(value.size)

        def make() -> int:
            mask = self._along(self._behind(value.size[dim]), dim, len(value.size))
            arguments = (Ref(number), Ref(mask), fill)
            return self._result("aten.masked_fill.Scalar", arguments, value.dtype, value.size)  # type: ignore[arg-type]

        return self._made((number, dim, fill, type(fill)), make)

    def _within(self, index: int, extent: Extent) -> int:
        """Indices into a padded dim: those below 0 count from the true end, and those beyond are beyond the padding, too.

        Both by the padding's length, so that the card finds as many too many.
        """
        shift = blocks_of(extent, self.symbol)
        assert shift is not None and shift[0] == 1
        key = index, shift[1]
        if key not in self._bounded:
            self._bounded[key] = self._moved_by_padding(index, shift[1])
        return self._bounded[key]

    def _moved_by_padding(self, index: int, shift: int) -> int:
        value = self.values[index]

        def made(target: str, *arguments: Argument, dtype: str = value.dtype) -> Ref:
            return Ref(self._result(target, arguments, dtype, value.size))

        padding = Ref(self._view(self._padding(value.dtype), (1,) * len(value.size), (0,) * len(value.size)))
        rows = made("aten.add.Scalar", Ref(index), -shift, 1) if shift else Ref(index)
        behind = made("aten.ge.Scalar", rows, self.true_size, dtype="bool")
        below = made("aten.lt.Scalar", Ref(index), 0, dtype="bool")
        up, down = (made(f"aten.{name}.Tensor", Ref(index), padding, 1) for name in ("add", "sub"))
        return made("aten.where.self", below, down, made("aten.where.self", behind, up, Ref(index))).value

    def _padding(self, dtype: str) -> int:
        """How many rows are padding."""
        made = (Named("dtype", dtype), Named("device", "spyre:0"), False)

        def make() -> int:
            bucket = self._result("prims.iota.default", (1, Expression(self.symbol), 1, *made), dtype, (1,))
            return self._result("aten.sub.Tensor", (Ref(bucket), self.true_size, 1), dtype, (1,))

        return self._made(("padding", dtype), make)

    def _forget(self, written: set[str]) -> None:
        """What was made of buffers is old when they are written."""
        self._shared = {}
        self._bounded = {key: made for key, made in self._bounded.items() if self.values[key[0]].buffer not in written}

    def _length_mask(self, query: int, keys: Extent) -> int:
        """Scores of padded keys are -inf for every query."""
        dtype, rank, queries = self.values[query].dtype, len(self.values[query].size), self.values[query].size[-2]

        def make() -> int:
            made = (Named("dtype", dtype), Named("layout", "strided"), Named("device", "spyre:0"), False)
            zeros = self._result("aten.full.default", ((Expression(str(keys)),), 0.0, *made), dtype, (keys,))
            line = self._masked(zeros, 0, LOWEST)
            return self._view(line, (*(1,) * (rank - 2), queries, keys), (*(0,) * (rank - 1), 1))

        return self._made(("length", dtype, rank, queries, keys), make)

    def _rows(self, number: int, place: Placement) -> int:
        """Rows so far from the true end, in a buffer of their own, and the view of them."""
        view, tail = self.values[number], place.tail
        if view.size != in_blocks(view, self.symbol).size:
            raise Unpaddable("rows at the end of a flattened dim")
        whole_number = next(n for n, v in enumerate(self.graph.values) if v.buffer == view.buffer)
        whole = in_blocks(self.values[whole_number], self.symbol)
        whole_number = self._view(whole_number, whole.size, whole.stride, whole.offset)
        assert tail is not None
        along = [n for n, step in zip(view.size, place.steps, strict=True) if step is not None and step[0] == tail]
        count = along[0] if along else 1
        assert isinstance(count, int)
        places = Ref(self._places(count, -place.back))
        index = self._result("aten.add.Tensor", (places, self.true_size, 1), "int64", (count,))
        size = tuple(count if dim == tail else n for dim, n in enumerate(whole.size))
        picked = self._result("aten.index_select.default", (Ref(whole_number), tail, Ref(index)), whole.dtype, size)
        stride, offset = place.in_buffer(self.values[picked].stride)
        return self._view(picked, view.size, stride, offset)

    def _last_for_padding(self, number: int, dim: int, extent: Extent) -> int:
        """The first `extent` rows, but the last true one of them in place of padding."""
        value = self.values[number]
        size = tuple(extent if d == dim else n for d, n in enumerate(value.size))

        def make() -> int:
            picks = self._made(("picks", extent), lambda: self._picks(extent))
            return self._result("aten.index_select.default", (Ref(number), dim, Ref(picks)), value.dtype, size)

        return self._made(("last", number, dim), make)

    def _picks(self, extent: Extent) -> int:
        """0, 1, ..., and the last of them again for the padding."""
        found = blocks_of(extent, self.symbol)
        assert found is not None and found[0] == 1
        last = self._result("aten.add.Tensor", (Ref(self._places(1, found[1] - 1)), self.true_size, 1), "int64", (1,))
        arguments = (Ref(self._behind(extent)), Ref(last), Ref(self._places(extent)))
        return self._result("aten.where.self", arguments, "int64", (extent,))


def _dense(size: tuple[Extent, ...]) -> tuple[Extent, ...]:
    strides: list[Extent] = []
    step: Extent = 1
    for extent in reversed(size):
        strides.append(step)
        known = isinstance(step, int) and isinstance(extent, int)
        step = step * extent if known else f"({step})*({extent})"  # type: ignore[operator]
    return tuple(reversed(strides))
