"""Random views through passes, bundle, back end and card, against numpy: transposed, sliced, stepped, broadcast, folded.

Values are small whole numbers, exact in every format and order of addition.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from openspyre.artifact import Problem, write_launch
from openspyre.artifact.bundle_check import check_bundle
from openspyre.artifact.launch_spec import read_launch_spec
from openspyre.compiler import ir, pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.spec.addressing import row_major
from openspyre.spec.formats import formats_of
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.machine import MIB, SPYRE, Machine
from openspyre.tools.bundle import read
from openspyre.tools.launch_images import untiled
from openspyre.tools.launches import execute, prepare

SIZES = st.sampled_from([1, 2, 3, 5, 31, 33, 64, 65, 130])
LARGEST = 64 * MIB  # room for a test's arrays; what a core cannot reach is tested on a card that reaches less far


@dataclass(frozen=True, slots=True)
class Case:
    """A buffer with its values, and a view of it: an access over the op's dims, and the same in numpy."""

    buffer: ir.Buffer
    values: NDArray[Any]
    access: ir.Access
    seen: NDArray[Any]


def whole_numbers(rng: np.random.Generator, size: tuple[int, ...], dtype: str) -> NDArray[Any]:
    return rng.integers(0, 2 if dtype == "bool" else 4, size).astype(formats_of(dtype).numpy)


@st.composite
def views(draw: st.DrawFn, name: str, shape: tuple[int, ...], dtype: str) -> Case:
    """A buffer of some larger shape and dim order, and a view of the wanted shape into it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    order = draw(st.permutations(range(len(shape))))
    cuts: list[slice | None] = []
    size: list[int] = []
    for dim in order:
        if shape[dim] > 1 and draw(st.integers(0, 5)) == 0:
            cuts.append(None)  # broadcast along this dim
            continue
        start, step, rest = (
            draw(st.sampled_from([0, 0, 0, 1, 64])),
            draw(st.sampled_from([1, 1, 1, 2])),
            draw(st.integers(0, 1)),
        )
        cuts.append(slice(start, start + (shape[dim] - 1) * step + 1, step))
        size.append(start + (shape[dim] - 1) * step + 1 + rest)
    dims = tuple(size)
    layout = SpyreTensorLayout(dims, dtype, draw(st.permutations(range(len(dims)))))
    assume(layout.device_bytes <= LARGEST)
    buffer = ir.Buffer(name, dtype, dims, row_major(dims), ir.Role.INPUT, layout)
    values = whole_numbers(rng, dims, dtype)
    return _seen(buffer, values, shape, order, cuts)


def _seen(
    buffer: ir.Buffer, values: NDArray[Any], shape: tuple[int, ...], order: Any, cuts: list[slice | None]
) -> Case:
    part = values[tuple(cut for cut in cuts if cut is not None)]
    offset, strides, kept = 0, [0] * len(shape), 0
    axes: list[int] = []
    for dim, cut in zip(order, cuts, strict=True):
        if cut is not None:
            offset += cut.start * buffer.stride[kept]
            strides[dim] = cut.step * buffer.stride[kept]
            kept += 1
            axes.append(dim)
    inverse = sorted(range(len(axes)), key=lambda place: axes[place])
    turned = part.transpose(inverse) if axes else part
    full = turned.reshape([shape[dim] if dim in axes else 1 for dim in range(len(shape))])
    access = ir.Access(buffer.name, offset, tuple(strides), buffer.dtype)
    return Case(buffer, values, access, np.broadcast_to(full, shape))


def _is_counted_otherwise(problem: Problem, machine: Machine) -> bool:
    """Cores reach what is computed with, counted to the last element; the documents' rule counts whole steps of the outermost dim,
    at most twice as many. Moves that a pass adds are not divided by their reach."""
    move = problem.field.split(".")[0].partition("_")[2] in ("ReStickifyOpHBM", "identity")
    reach = re.fullmatch(r"each core reaches over (\d+) bytes", problem.found)
    return reach is not None and (move or int(reach[1]) <= 2 * machine.max_span_bytes_per_core_and_tensor)


def run(program: ir.Program, arrays: dict[str, NDArray[Any]], machine: Machine = SPYRE) -> NDArray[Any]:
    """What the card makes of the bundle as it is read back from its directory."""
    emitted = emit_bundle(pipeline.run(program, machine))
    problems = check_bundle(emitted.bundle, machine)
    assert [p for p in problems if not _is_counted_otherwise(p, machine)] == []
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "bundle"
        write_launch(emitted, directory, arrays)
        again, spec = read(directory), read_launch_spec(directory)
        assert again.ops == emitted.bundle.ops
        assert spec is not None
        results = execute(prepare(again, {}, spec, directory))
    ((image, out),) = [(image, a) for image, a in zip(results, spec, strict=True) if a.name == "out"]
    assert out.layout is not None
    return untiled(image, out.size, out.layout, out.dtype, out.stride)


def reaching_a_share(share: int, *buffers: ir.Buffer) -> Machine:
    largest = max(buffer.layout.device_bytes for buffer in buffers if buffer.layout is not None)
    return replace(SPYRE, max_span_bytes_per_core_and_tensor=max(largest // share, 1024))


def result(size: tuple[int, ...], dtype: str) -> ir.Buffer:
    return ir.Buffer("out", dtype, size, row_major(size), ir.Role.OUTPUT)


@settings(max_examples=60)
@given(
    st.data(),
    st.lists(SIZES, max_size=4),
    st.sampled_from(["float16", "float32", "int64", "int32", "bool", "uint8"]),
    st.sampled_from([None, 2, 5]),
)
def test_two_views_multiplied(data: st.DataObject, sizes: list[int], dtype: str, share: int | None) -> None:
    """Also where a core reaches a share of the larger buffer only."""
    shape = tuple(sizes) if prod(sizes) < 300_000 else tuple(sizes[:2])
    a, b = data.draw(views("a", shape, dtype)), data.draw(views("b", shape, dtype))
    out = result(shape, dtype)
    dims = tuple(ir.Dim(f"d{i}", n) for i, n in enumerate(shape))
    op = ir.Op("mul", "mul", dims, (a.access, b.access), (ir.Access("out", 0, out.stride, dtype),))
    machine = SPYRE if share is None else reaching_a_share(share, a.buffer, b.buffer)
    found = run(ir.Program("p", (a.buffer, b.buffer, out), (op,)), {"a": a.values, "b": b.values}, machine)
    np.testing.assert_array_equal(found, a.seen * b.seen)


@settings(max_examples=60)
@given(
    st.data(),
    st.lists(SIZES, min_size=1, max_size=3),
    st.sampled_from(["sum", "amax"]),
    st.sampled_from(["float32", "int32"]),
)
def test_a_view_folded_along_some_dims(data: st.DataObject, sizes: list[int], row: str, dtype: str) -> None:
    shape = tuple(sizes)
    x = data.draw(views("x", shape, dtype))
    folded = [data.draw(st.booleans()) for _ in shape]
    kept = tuple(n for n, fold in zip(shape, folded, strict=True) if not fold)
    out = result(kept, dtype)
    dims = tuple(ir.Dim(f"d{i}", n, reduced=fold) for i, (n, fold) in enumerate(zip(shape, folded, strict=True)))
    strides = iter(out.stride)
    target = ir.Access("out", 0, tuple(0 if fold else next(strides) for fold in folded), dtype)
    found = run(ir.Program("p", (x.buffer, out), (ir.Op(row, row, dims, (x.access,), (target,)),)), {"x": x.values})
    axes = tuple(i for i, fold in enumerate(folded) if fold)
    expected = (np.sum if row == "sum" else np.max)(x.seen, axis=axes) if axes else x.seen
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=40)
@given(st.data(), st.sampled_from([1, 2, 3]), SIZES, SIZES, SIZES, st.sampled_from(["float16", "float32"]))
def test_two_views_contracted(data: st.DataObject, batch: int, m: int, n: int, k: int, dtype: str) -> None:
    a, b = data.draw(views("a", (batch, m, k), dtype)), data.draw(views("b", (batch, k, n), dtype))
    out = result((batch, m, n), dtype)
    dims = (ir.Dim("b", batch), ir.Dim("m", m), ir.Dim("n", n), ir.Dim("k", k, reduced=True))
    batch_a, m_a, k_a = a.access.strides
    batch_b, k_b, n_b = b.access.strides
    left = replace(a.access, strides=(batch_a, m_a, 0, k_a))
    right = replace(b.access, strides=(batch_b, 0, n_b, k_b))
    target = ir.Access("out", 0, (*out.stride, 0), dtype)
    op = ir.Op("mm", "batchmatmul", dims, (left, right), (target,))
    found = run(ir.Program("p", (a.buffer, b.buffer, out), (op,)), {"a": a.values, "b": b.values})
    exact = a.seen.astype(np.float32) @ b.seen.astype(np.float32)
    if dtype == "float32":
        np.testing.assert_array_equal(found, exact)
    else:
        np.testing.assert_allclose(found.astype(np.float32), exact, rtol=2**-10)
