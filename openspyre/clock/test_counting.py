"""What a launch adds to the counters, of bundles written by hand: sizes of tensors and products on paper."""

from __future__ import annotations

import pytest

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.bundle_function import Execute, Loop
from openspyre.artifact.superdsc import BROADCAST, Component, SuperDsc
from openspyre.clock import time_bundle
from openspyre.clock.counting import launch_work
from openspyre.clock.test_bundles import bundle, op, rows_op, tensor
from openspyre.spec.counters import LaunchWork

MEMORY, SCRATCHPAD = Component.MEMORY, Component.SCRATCHPAD
BYTES = 2 * 2048 * 512  # of a tensor of rows_op


def counted(made: Bundle) -> LaunchWork:
    return launch_work(made, time_bundle(made))


def product(m: int, k: int, n: int, splits: tuple[int, int, int]) -> SuperDsc:
    axes = {"mb": (m, splits[0]), "out": (n, splits[1]), "in": (k, splits[2])}
    a, b = tensor("mb in", "in", {"out": BROADCAST}), tensor("in out", "out", {"mb": BROADCAST})
    return op("batchmatmul", axes, [a, b, tensor("mb out", "out", {"in": BROADCAST})], 2)


def test_bytes_are_told_by_place_and_direction() -> None:
    work = counted(bundle([rows_op("add", [MEMORY, SCRATCHPAD, MEMORY]), rows_op("exp", [MEMORY, SCRATCHPAD])]))
    assert (work.steps, work.macs, work.ring_bytes) == (2, 0, 0)
    assert (work.memory_read_bytes, work.memory_written_bytes) == (2 * BYTES, BYTES)
    assert (work.scratchpad_read_bytes, work.scratchpad_written_bytes) == (BYTES, BYTES)


def test_a_product_counts_macs_and_what_the_arrays_need_at_their_best() -> None:
    work = counted(bundle([product(512, 4096, 1024, (4, 2, 4))]))
    assert work.macs == 512 * 1024 * 4096
    assert work.ring_bytes == 3 * 2 * 512 * 1024  # three of four cores pass their sums on
    assert work.array_ns == pytest.approx(work.macs / (32 * 1024 * 1.5), abs=1)  # 32 cores, 1024 a cycle, 1.5 GHz
    assert 0 < work.array_ns < work.predicted_ns


def test_loops_multiply_all_but_the_time_of_what_overlaps() -> None:
    ops = [product(64, 64, 64, (1, 1, 1)), rows_op("exp", [MEMORY, MEMORY])]
    once = counted(bundle(ops))
    looped = counted(bundle(ops, (Loop(5, (Execute("sdsc_0.json", (), 0), Execute("sdsc_1.json", (), 1))),)))
    assert (looped.steps, looped.macs) == (10, 5 * 64 * 64 * 64)
    assert looped.memory_read_bytes == 5 * once.memory_read_bytes == 5 * (2 * 2 * 64 * 64 + BYTES)
    assert looped.predicted_ns == pytest.approx(5 * once.predicted_ns, abs=5)


def test_a_restickify_is_a_relayout() -> None:
    axes = {"mb": (256, 4), "out": (128, 2)}
    turned = op("ReStickifyOpHBM", axes, [tensor("mb out", "out", {}), tensor("out mb", "mb", {})], 1)
    work = counted(bundle([turned, rows_op("exp", [MEMORY, MEMORY])]))
    assert (work.relayouts, work.steps) == (1, 2)
