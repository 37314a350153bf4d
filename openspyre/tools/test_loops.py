"""Loops of the IR through the bundle, the back end and the card, against numpy. Values are small whole numbers."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from openspyre.artifact import bundle_function
from openspyre.artifact.bundle import Bundle, bundle_texts
from openspyre.artifact.bundle_function import Execute
from openspyre.backend import FuseSteps, compile_emitted, fused_on_host
from openspyre.backend.superdsc import compile_bundle
from openspyre.card import cards, programs
from openspyre.compiler import ir
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.loops import unrolled
from openspyre.compiler.passes.divide_work import DivideWork
from openspyre.compiler.passes.place_buffers import PlaceBuffers
from openspyre.compiler.passes.stage_products import StageProducts
from openspyre.compiler.verify import Verifier
from openspyre.program.model import Program, Repeat, Step
from openspyre.program.verify import problems
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.tools.bundle import read
from openspyre.tools.launch_images import number_image, tiled, untiled
from openspyre.tools.launches import execute, prepare

Arrays = dict[str, NDArray[Any]]


def buffer(name: str, size: tuple[int, ...], role: ir.Role) -> ir.Buffer:
    return ir.Buffer(name, "float16", size, row_major(size), role, SpyreTensorLayout(list(size), "float16"))


def lowered(program: ir.Program) -> ir.Program:
    program = PlaceBuffers().run(DivideWork().run(StageProducts().run(program)))
    assert Verifier(lowered=True).problems(program) == []
    return program


def ran(program: ir.Program, arrays: Arrays) -> tuple[Bundle, NDArray[Any]]:
    """The bundle as it is read back from its files, and what its launch leaves in y."""
    emitted = emit_bundle(program)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        for file, text in bundle_texts(emitted.bundle).items():
            (directory / file).write_text(text)
        bundle = read(directory)
        images = {
            number: tiled(arrays[argument.name], argument.layout, None)
            for number, argument in enumerate(emitted.arguments)
            if argument.name in arrays
        }
        images |= {
            number: number_image(argument.value, argument.layout)
            for number, argument in enumerate(emitted.arguments)
            if argument.value is not None and argument.layout is not None
        }
        after = execute(prepare(bundle, images, None, directory))
    names = [argument.name for argument in emitted.arguments]
    y = program.buffer("y")
    assert y.layout is not None
    found = untiled(after[names.index("y")], y.size, y.layout, y.dtype)
    given = {names[number]: image for number, image in images.items()}
    compiled = compile_emitted(emitted)
    assert problems(compiled) == []
    on_host = fused_on_host(emitted)
    assert on_host.problems == ()
    for made in (compiled, FuseSteps().run(compiled), on_host.program):
        left = launched(made, given, y.layout.device_bytes)
        np.testing.assert_array_equal(untiled(left, y.size, y.layout, y.dtype), found)
    return bundle, found


def launched(program: Program, images: dict[str, bytes], bytes_: int) -> bytes:
    """The memory of y after a launch of what the compiler's own back end makes."""
    card = cards.get()
    buffers = {name: card.allocate(len(images.get(name, bytes(bytes_)))) for name in program.symbols}
    for name, buffer in buffers.items():
        buffer.write_memory(images.get(name, bytes(bytes_)))
    loaded = programs.load(program)
    try:
        loaded.run(buffers, {}, card.index)
    finally:
        loaded.unload()
    return buffers["y"].read_memory()


def whole_numbers(seed: int, *size: int) -> NDArray[Any]:
    return np.random.default_rng(seed).integers(-4, 5, size).astype(np.float16)


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 5)),
    st.tuples(st.integers(1, 3), st.sampled_from([64, 128])) | st.tuples(st.just(1), st.integers(1, 130)),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_tiles_in_loops_are_computed_one_by_one(
    rows: tuple[int, int], columns: tuple[int, int], backwards: bool, seed: int
) -> None:
    """y = x + x - b, tile by tile through temps; the rows in order or from the last tile to the first."""
    size, tile = (rows[0] * rows[1], columns[0] * columns[1]), (rows[1], columns[1])
    dims = (ir.Dim("m", tile[0]), ir.Dim("n", tile[1]))
    down, right = tile[0] * size[1], tile[1]
    start, step = ((rows[0] - 1) * down, -down) if backwards else (0, down)

    def part(name: str) -> ir.Access:
        return ir.Access(name, start, (size[1], 1), "float16", (step, right))

    held = [ir.Access(name, 0, row_major(tile), "float16") for name in ("t", "u")]
    bias = ir.Access("b", 0, (0, 1), "float16", (0, right))
    body = (
        ir.Op("double", "add", dims, (part("x"), part("x")), (held[0],)),
        ir.Op("less", "sub", dims, (held[0], bias), (held[1],)),
        ir.Op("out", "neg", dims, (held[1],), (part("y"),)),
    )
    temps = [buffer(name, tile, ir.Role.TEMP) for name in ("t", "u")]
    outside = buffer("x", size, ir.Role.INPUT), buffer("b", size[1:], ir.Role.INPUT), buffer("y", size, ir.Role.OUTPUT)
    program = ir.Program("tiles", (*outside, *temps), (ir.Loop(rows[0], (ir.Loop(columns[0], body),)),))
    arrays = {"x": whole_numbers(seed, *size), "b": whole_numbers(seed + 1, size[1])}
    bundle, found = ran(lowered(program), arrays)
    np.testing.assert_array_equal(found, arrays["b"] - 2 * arrays["x"])
    assert [type(node) for node in bundle.function.body] == [bundle_function.Loop]
    np.testing.assert_array_equal(ran(lowered(unrolled(program)), arrays)[1], found)


@settings(max_examples=10, deadline=None)
@given(
    st.integers(2, 4), st.integers(1, 9), st.sampled_from([64, 70, 128]), st.sampled_from([64, 65]), st.integers(0, 99)
)
def test_a_product_is_computed_tile_by_tile(tiles: int, m: int, k: int, n: int, seed: int) -> None:
    """Rows of the first operand move; the second one is brought to whole sticks of k within the loop where it has none."""
    dims = (ir.Dim("m", m), ir.Dim("n", n), ir.Dim("k", k, reduced=True))
    factors = ir.Access("a", 0, (k, 0, 1), "float16", (m * k,)), ir.Access("b", 0, (0, 1, n), "float16")
    op = ir.Op("product", "batchmatmul", dims, factors, (ir.Access("y", 0, (n, 1, 0), "float16", (m * n,)),))
    sizes = {"a": (tiles * m, k), "b": (k, n), "y": (tiles * m, n)}
    buffers = tuple(
        buffer(name, size, ir.Role.OUTPUT if name == "y" else ir.Role.INPUT) for name, size in sizes.items()
    )
    program = lowered(ir.Program("products", buffers, (ir.Loop(tiles, (op,)),)))
    arrays = {name: whole_numbers(seed, *sizes[name]) for name in ("a", "b")}
    bundle, found = ran(program, arrays)
    np.testing.assert_array_equal(found, arrays["a"].astype(np.float64) @ arrays["b"].astype(np.float64))
    assert [type(node) for node in bundle.function.body] == [bundle_function.Loop]


def test_a_thousand_tiles_are_one_loop_of_the_bundle_and_of_the_program() -> None:
    size, dims = (1000, 64), (ir.Dim("m", 1), ir.Dim("n", 64))
    accesses = [ir.Access(name, 0, (64, 1), "float16", (64,)) for name in ("x", "y")]
    op = ir.Op("neg", "neg", dims, (accesses[0],), (accesses[1],))
    buffers = buffer("x", size, ir.Role.INPUT), buffer("y", size, ir.Role.OUTPUT)
    arrays = {"x": whole_numbers(0, *size)}
    bundle, found = ran(lowered(ir.Program("long", buffers, (ir.Loop(1000, (op,)),))), arrays)
    np.testing.assert_array_equal(found, -arrays["x"])
    assert [type(node) for node in bundle.function.body] == [bundle_function.Loop]
    (repeat,) = compile_bundle(bundle, [size[0] * 128] * 2).body
    assert isinstance(repeat, Repeat) and repeat.count == 1000 and all(isinstance(node, Step) for node in repeat.body)


def test_a_body_that_changes_from_iteration_to_iteration_is_unrolled() -> None:
    """A relayout goes by a view, which has its offset in itself: its executions are apart."""
    dims = (ir.Dim("m", 2), ir.Dim("n", 70))
    x, y = buffer("x", (6, 70), ir.Role.INPUT), buffer("y", (6, 70), ir.Role.OUTPUT)
    x = replace(x, layout=SpyreTensorLayout([6, 70], [70, 1], "float16", [1, 0]))
    source, target = (ir.Access(name, 0, (70, 1), "float16", (140,)) for name in ("x", "y"))
    program = ir.Program("moves", (x, y), (ir.Loop(3, (ir.Op("move", "relayout", dims, (source,), (target,)),)),))
    arrays = {"x": whole_numbers(3, 6, 70)}
    bundle, found = ran(PlaceBuffers().run(program), arrays)
    np.testing.assert_array_equal(found, arrays["x"])
    assert [type(node) for node in bundle.function.body] == [Execute] * 3
