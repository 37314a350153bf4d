"""Random graphs under random hints of tiles, through all passes, bundle, back end and card, against numpy and against no tiles.

Values are small whole numbers: exact in every order of addition, so that accumulators must give the very sums.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from openspyre.artifact import bundle_function
from openspyre.artifact.emitted import Emitted
from openspyre.artifact.superdsc import Component
from openspyre.backend import host_form
from openspyre.compiler import ir, pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.loops import listed
from openspyre.compiler.tiling.groups import Untileable
from openspyre.spec.addressing import row_major
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.machine import SPYRE
from openspyre.spec.planning import PLANNING
from openspyre.tools.test_loops import ran

pytestmark = pytest.mark.filterwarnings("ignore::openspyre.spec.errors.HintWarning")
SIZES = {"A": (4, 6, 12), "B": (64, 128, 192, 96), "C": (2, 64, 256)}
EXACT = 1024  # whole numbers that 16 bits hold
FOLDS: dict[str, Any] = {"sum": np.sum, "amax": np.max, "amin": np.min}
MAPS: dict[str, Any] = {"neg": np.negative, "abs": np.abs, "relu": lambda x: np.maximum(x, 0)}
PAIRS: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum}


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor along named dims, and what numpy says it holds."""

    name: str
    dims: tuple[str, ...]
    array: NDArray[Any] = field(repr=False)

    def along(self, dims: tuple[str, ...]) -> NDArray[Any]:
        """Broadcast along dims it does not have."""
        own = [self.dims.index(dim) if dim in self.dims else None for dim in dims]
        moved = self.array.transpose([place for place in own if place is not None])
        return moved[tuple(np.newaxis if place is None else slice(None) for place in own)]

    def access(self, dims: tuple[str, ...]) -> ir.Access:
        by_dim = dict(zip(self.dims, row_major(self.array.shape), strict=True))
        return ir.Access(self.name, 0, tuple(by_dim.get(dim, 0) for dim in dims), "float16")


@dataclass(slots=True)
class Graph:
    """Ops one behind the other, all in the same scopes."""

    sizes: dict[str, int]
    hints: tuple[ir.Hint, ...]
    values: list[Value] = field(default_factory=list)
    ops: list[ir.Op] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)

    def given(self, dims: tuple[str, ...], rng: np.random.Generator) -> Value:
        array = rng.integers(-2, 3, [self.sizes[dim] for dim in dims]).astype(np.float64)
        value = Value(f"x{len(self.inputs)}", dims, array)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def add(
        self, row: str, dims: tuple[str, ...], inputs: tuple[Value, ...], reduced: str = "", hinted: bool = True
    ) -> None:
        """`dims`: of the op, in its order."""
        kept = tuple(dim for dim in dims if dim != reduced)
        if row == "batchmatmul":
            first, second = (value.along(dims) for value in inputs)
            array = (first * second).sum(dims.index(reduced))
        elif reduced:
            array = FOLDS[row](inputs[0].along(dims), axis=dims.index(reduced))
        else:
            array = {**MAPS, **PAIRS}[row](*[value.along(dims) for value in inputs])
        array = np.broadcast_to(array, [self.sizes[dim] for dim in kept])
        if np.abs(array).max() > EXACT:
            reject()
        out = Value(f"t{len(self.ops)}", kept, array)
        named = tuple(ir.Dim(dim.lower(), self.sizes[dim], reduced=dim == reduced) for dim in dims)
        accesses = tuple(value.access(dims) for value in inputs)
        hints = self.hints if hinted else ()
        self.ops.append(ir.Op(out.name, row, named, accesses, (out.access(dims),), hints=hints))
        self.values.append(out)

    def program(self) -> ir.Program:
        """The last value is its result, y."""
        last = self.values[-1].name
        outside = [_buffer(value, ir.Role.INPUT) for value in self.inputs]
        made = [value for value in self.values if value not in self.inputs]
        buffers = [*outside, *(_buffer(value, ir.Role.TEMP) for value in made[:-1])]
        y = replace(_buffer(made[-1], ir.Role.OUTPUT), name="y", layout=None)

        def named(access: ir.Access) -> ir.Access:
            return access.on("y") if access.buffer == last else access

        ops = [replace(op, outputs=tuple(map(named, op.outputs))) for op in self.ops]
        return ir.Program("tiles", (*buffers, y), tuple(ops))


def _buffer(value: Value, role: ir.Role) -> ir.Buffer:
    size = value.array.shape
    layout = SpyreTensorLayout(list(size), "float16") if role is ir.Role.INPUT else None
    named = [ir.NamedDim(*dim) for dim in zip(value.dims, size, row_major(size), strict=True)]
    return ir.Buffer(value.name, "float16", size, row_major(size), role, layout, named=tuple(named) if layout else ())


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    sizes = {dim: draw(st.sampled_from(some)) for dim, some in SIZES.items()}
    names = draw(st.lists(st.sampled_from(sorted(SIZES)), min_size=1, max_size=2))
    hints: list[ir.Hint] = []
    for number, name in enumerate(names):
        left = sizes[name] // prod(hint.tiles[1] for hint in hints if hint.tiles is not None and hint.tiles[0] == name)
        counts = [n for n in (2, 3, 4, 6) if left % n == 0] or [1]
        hints.append(ir.Hint(number, tiles=(name, draw(st.sampled_from(counts)))))
    graph = Graph(sizes, tuple(hints))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    graph.given(("A", "B"), rng)
    for _ in range(draw(st.integers(1, 4))):
        x = draw(st.sampled_from(graph.values))
        kind = draw(st.sampled_from(["map", "pair", "pair", "fold", "product"]))
        if kind == "map" or not x.dims:
            graph.add(draw(st.sampled_from(sorted(MAPS))), x.dims, (x,))
        elif kind == "fold":
            graph.add(draw(st.sampled_from(sorted(FOLDS))), x.dims, (x,), draw(st.sampled_from(x.dims)))
        elif kind == "product" and x.dims == ("A", "B"):
            graph.add("batchmatmul", ("A", "C", "B"), (x, graph.given(("B", "C"), rng)), "B")
        else:
            new = draw(st.sampled_from([x.dims, x.dims[-1:], None]))
            other = draw(st.sampled_from(graph.values)) if new is None else graph.given(new, rng)
            dims = tuple(dim for dim in "ABC" if dim in {*x.dims, *other.dims})
            graph.add(draw(st.sampled_from(sorted(PAIRS))), dims, (x, other))
    return graph


_seen: Counter[str] = Counter()


@settings(max_examples=60, deadline=None)
@given(graphs(), st.sampled_from([1, 4, 32]))
def test_tiles_give_the_same_numbers(graph: Graph, cores: int) -> None:
    program, machine = graph.program(), replace(SPYRE, cores=cores)
    arrays = {value.name: value.array.astype(np.float16) for value in graph.inputs}
    try:
        lowered = pipeline.run(program, machine, verify=True)
    except Untileable as error:
        _seen["refused"] += 1
        assert any(op.name in str(error) for op in graph.ops), error
        return
    _seen["tiled"] += any(isinstance(node, ir.Loop) for node in lowered.body)
    _, found = ran(lowered, arrays)
    np.testing.assert_array_equal(found, graph.values[-1].array)
    whole = replace(program, body=tuple(replace(op, hints=()) for op in program.ops))
    np.testing.assert_array_equal(ran(pipeline.run(whole, machine, verify=True), arrays)[1], found)


@settings(max_examples=40, deadline=None)
@given(graphs(), st.sampled_from([512, 1024, 4096]))
def test_what_a_core_cannot_reach_is_tiled(graph: Graph, limit: int) -> None:
    program = replace(graph.program(), body=tuple(replace(op, hints=()) for op in graph.program().ops))
    machine = replace(SPYRE, cores=4, max_span_bytes_per_core_and_tensor=limit)
    arrays = {value.name: value.array.astype(np.float16) for value in graph.inputs}
    try:
        lowered = pipeline.run(program, machine, replace(PLANNING, span_tiling=True), verify=True)
    except InvalidArgument:  # nothing keeps a core that near
        return
    _seen["spans"] += any(isinstance(node, ir.Loop) for node in lowered.body)
    np.testing.assert_array_equal(ran(lowered, arrays)[1], graph.values[-1].array)


def test_most_of_these_graphs_are_tiled() -> None:
    """A generator whose graphs are all refused, or whose hints all fall away, would test nothing."""
    assert (_seen["tiled"] > 5 and _seen["spans"] > 0) or not sum(_seen.values()), _seen


@pytest.mark.parametrize("counts", [(2,), (4, 2)])
def test_a_chain_of_tiles_is_one_nest_of_loops(counts: tuple[int, ...]) -> None:
    hints = tuple(ir.Hint(n, tiles=("AB"[n], count)) for n, count in enumerate(counts))
    graph = Graph({"A": 8, "B": 128}, hints)
    rng = np.random.default_rng(0)
    x, y = (graph.given(("A", "B"), rng) for _ in range(2))
    graph.add("add", ("A", "B"), (x, y))
    graph.add("mul", ("A", "B"), (graph.values[-1], y))
    lowered = pipeline.run(graph.program(), verify=True)
    bundle, found = ran(lowered, {value.name: value.array.astype(np.float16) for value in graph.inputs})
    np.testing.assert_array_equal(found, graph.values[-1].array)
    node = bundle.function.body[0]
    for count in counts:
        assert isinstance(node, bundle_function.Loop) and node.count == count
        inner, node = node, node.body[0]
    assert len(inner.body) == len(list(listed(lowered.body))) == 5


@pytest.mark.parametrize("row", ["exp", "sum"])
def test_the_host_has_no_scratchpads_in_loops_either(row: str) -> None:
    """Tiles, and an accumulator that comes into a loop, are values in memory there."""
    hints = ir.Hint(0, tiles=("A", 4)), ir.Hint(1, tiles=("B", 2))
    graph = Graph({"A": 8, "B": 128}, hints)
    x = graph.given(("A", "B"), np.random.default_rng(0))
    graph.add("neg", ("A", "B"), (x,))
    graph.add("sum" if row == "sum" else "abs", ("A", "B"), (graph.values[-1],), "B" if row == "sum" else "")
    emitted = emit_bundle(pipeline.run(graph.program(), replace(SPYRE, cores=2), verify=True))

    def inside(one: Emitted) -> int:
        ops = [execution.shared.op for execution in one.executions]
        return sum(tensor.component is Component.SCRATCHPAD for op in ops for tensor in op.tensors)

    assert inside(emitted) > 2 and inside(host_form(emitted)) == 0
