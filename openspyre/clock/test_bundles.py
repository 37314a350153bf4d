"""Bundles written by hand: what is counted of each op, and a launch against what was measured of its kernel."""

from __future__ import annotations

from math import prod

import pytest

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.bundle_function import Execute, Function, Loop, Node
from openspyre.artifact.superdsc import BROADCAST, ONE_LANE, PRESENT, Axis, Component, Stick, SuperDsc, Tensor
from openspyre.clock import Resource, kernel_of, time_bundle
from openspyre.clock.kernels import Division, Form, Layout, Matmul, Pointwise, Reduction, Runs
from openspyre.clock.places import traffic_of
from openspyre.spec.formats import DataFormats

FP16 = DataFormats.SEN169_FP16
MEMORY, SCRATCHPAD = Component.MEMORY, Component.SCRATCHPAD


def tensor(order: str, stick: str, scales: dict[str, int], where: Component = MEMORY, start: int = 0) -> Tensor:
    names = tuple(order.split())
    told = tuple((name, scales.get(name, PRESENT)) for name in names)
    return Tensor("t", "OUTPUT", FP16, names, (Stick(stick, 64),), told, where, (start,))


def op(name: str, axes: dict[str, tuple[int, int]], tensors: list[Tensor], inputs: int) -> SuperDsc:
    splits = [split for _, split in axes.values()]
    cores = tuple((0,) * len(axes) for _ in range(prod(splits)))
    found = tuple(Axis(label, size, split) for label, (size, split) in axes.items())
    return SuperDsc(
        f"0_{name}",
        name,
        "sfp",
        FP16,
        found,
        cores,
        tuple(tensors),
        tuple(range(inputs)),
        tuple(range(inputs, len(tensors))),
    )


def rows_op(
    name: str, where: list[Component], small: int | None = None, rows: int = 2048, columns: int = 512
) -> SuperDsc:
    """[rows, columns] over 32 cores by rows; tensor `small` has one value a row."""
    tensors = [
        tensor("mb out", "out", {"out": ONE_LANE} if number == small else {}, place, number << 34)
        for number, place in enumerate(where)
    ]
    return op(name, {"mb": (rows, 32), "out": (columns, 1)}, tensors, len(where) - 1)


def bundle(ops: list[SuperDsc], body: tuple[Node, ...] | None = None) -> Bundle:
    files = {f"sdsc_{number}.json": each for number, each in enumerate(ops)}
    listed = tuple(Execute(file, (), number) for number, file in enumerate(files))
    return Bundle("by hand", Function((), body or listed), files)


def test_an_add_is_counted_in_bytes_and_runs() -> None:
    kernel = kernel_of(rows_op("add", [MEMORY] * 3, rows=512, columns=4096))
    size = 2 * 512 * 4096
    # 16 rows a core: runs of 16 sticks, and 512 sticks from one column of them to the next.
    assert kernel == Pointwise(Form.BINARY, 2 * size, size, 32, Runs(16 * 128, 512 * 128), 4096, 0)


def test_what_is_broadcast_is_read_once() -> None:
    along_columns = op(
        "add",
        {"mb": (96, 32), "out": (320, 1)},
        [tensor("mb out", "out", {}), tensor("out mb", "out", {"mb": BROADCAST}), tensor("mb out", "out", {})],
        2,
    )
    kernel = kernel_of(along_columns)
    assert isinstance(kernel, Pointwise) and kernel.form is Form.ALONG_COLUMNS
    assert kernel.read_bytes == 2 * 96 * 320 + 2 * 320
    assert kernel_of(rows_op("sub", [MEMORY] * 3, small=1)).form is Form.ALONG_ROWS  # type: ignore[union-attr]
    assert kernel_of(rows_op("identity", [MEMORY] * 2)).form is Form.COPY  # type: ignore[union-attr]


def test_scratchpads_are_counted_apart_from_memory() -> None:
    found = traffic_of(rows_op("exp", [SCRATCHPAD, MEMORY]))
    assert (found.read_bytes, found.written_bytes, found.scratchpad_bytes) == (0, 2 * 2048 * 512, 2 * 2048 * 512)


def test_reductions_along_sticks_and_over_rows() -> None:
    along = kernel_of(rows_op("sum", [MEMORY, MEMORY], small=1))
    assert along == Reduction(2 * 2048 * 512, 128 * 2048, 2048, 2048 * 8, 32, stride=2048 * 128)
    over = op(
        "sumnonstick",
        {"mb": (256, 4), "out": (48, 8)},
        [tensor("out mb", "mb", {}), tensor("mb out", "mb", {"out": BROADCAST})],
        1,
    )
    kernel = kernel_of(over)
    assert isinstance(kernel, Reduction) and kernel.over_rows and kernel.written_bytes == 2 * 256


def matmul(
    axes: dict[str, tuple[int, int]], first: str, second: str, result: str, where: Component = MEMORY
) -> SuperDsc:
    tensors = [tensor(first, "in", {}, where), tensor(second, "out", {}), tensor(result, "out", {})]
    return op("batchmatmul", axes, tensors, 2)


def test_roles_of_a_products_dims_come_from_who_has_them() -> None:
    axes = {"mb": (512, 4), "out": (4096, 8), "in": (4096, 1)}
    kernel = kernel_of(matmul(axes, "mb in", "in out", "mb out", SCRATCHPAD))
    assert kernel == Matmul(1, 512, 4096, 4096, Division(1, 4, 8, 1), 32, first_resident=True)


def test_a_batch_may_lie_between_the_sticks_or_outside() -> None:
    axes = {"x": (4, 2), "mb": (64, 16), "out": (64, 1), "in": (128, 1)}
    between = kernel_of(matmul(axes, "x mb in", "x in out", "x mb out"))
    outside = kernel_of(matmul(axes, "mb x in", "in x out", "mb x out"))
    assert isinstance(between, Matmul) and between.plain == (False, False) and between.batched
    assert isinstance(outside, Matmul) and outside.plain == (True, True) and outside.division == Division(2, 16, 1, 1)
    # One second operand for all of the batch: the batch is more rows.
    shared = kernel_of(matmul(axes, "mb x in", "in out", "mb x out"))
    assert isinstance(shared, Matmul) and (shared.b, shared.m) == (1, 256)


def test_a_restickify_moves_its_tensor_twice() -> None:
    moved = op(
        "ReStickifyOpHBM",
        {"mb": (1024, 16), "out": (4096, 2)},
        [tensor("mb out", "out", {}), tensor("out mb", "mb", {})],
        1,
    )
    kernel = kernel_of(moved)
    assert isinstance(kernel, Layout) and kernel.bytes == 2 * 2 * 1024 * 4096
    assert time_bundle(bundle([moved])).card_us == pytest.approx(145.3, rel=0.03)  # measured


def softmax(near: Component) -> list[SuperDsc]:
    """Of 2048 x 512: the input cloned, then five ops, all but the ends in `near`."""
    return [
        rows_op("identity", [MEMORY, near]),
        rows_op("max", [near, near], small=1),
        rows_op("sub", [near, near, near], small=1),
        rows_op("exp", [near, near]),
        rows_op("sum", [near, near], small=1),
        rows_op("realdiv", [near, near, MEMORY], small=1),
    ]


def test_a_softmax_of_single_ops_in_scratchpads_takes_what_was_measured_of_the_whole() -> None:
    timing = time_bundle(bundle(softmax(SCRATCHPAD)))
    assert timing.card_us == pytest.approx(36.0, rel=0.15)
    assert sum(step.time_us for step in timing.steps) == pytest.approx(timing.card_us)
    assert all(step.time_us <= step.alone.time_us for step in timing.steps)  # they overlap


def test_through_memory_it_takes_several_times_as_long() -> None:
    near, far = (time_bundle(bundle(softmax(where))).card_us for where in (SCRATCHPAD, MEMORY))
    assert far > 2.5 * near


def test_loops_multiply_and_only_neighbours_in_one_body_overlap() -> None:
    ops = softmax(SCRATCHPAD)
    once = time_bundle(bundle(ops))
    body = tuple(Execute(f"sdsc_{number}.json", (), number) for number in range(len(ops)))
    looped = time_bundle(bundle(ops, (Loop(4, body),)))
    assert looped.card_us == pytest.approx(4 * once.card_us)
    apart = time_bundle(bundle(ops, tuple(Loop(1, (execute,)) for execute in body)))
    assert apart.card_us > once.card_us


def test_a_launch_says_what_bounds_it_and_counts_the_host_apart() -> None:
    timing = time_bundle(bundle([rows_op("add", [MEMORY] * 3)]))
    assert timing.by_resource() == {Resource.MEMORY: pytest.approx(timing.card_us)}
    assert timing.host_us == 0 and timing.total_us == pytest.approx(timing.card_us + timing.launch.time_us)
    assert timing.band == timing.steps[0].alone.band.p90


def test_reading_what_was_just_written_costs_more() -> None:
    first = rows_op("add", [MEMORY] * 3, rows=2048, columns=4096)
    tensors = list(first.tensors)
    tensors[0], tensors[2] = tensors[2], tensors[1]
    second = op("add", {"mb": (2048, 32), "out": (4096, 1)}, tensors, 2)
    chain, apart = time_bundle(bundle([first, second])), time_bundle(bundle([first, first]))
    assert apart.card_us < chain.card_us
    assert chain.card_us == pytest.approx(936, rel=0.05)  # add3 of 2048 x 4096 through memory, measured
