"""The published formula on the documents' worked example, and term by term."""

from __future__ import annotations

import json
from math import exp

import pytest

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.bundle_function import Address, Execute, Function, Loop, Parameter
from openspyre.artifact.superdsc import Axis, Component, Stick, SuperDsc, Tensor
from openspyre.clock.published import CostReport, published_cost
from openspyre.spec.formats import DataFormats

FP16 = DataFormats.SEN169_FP16
MEMORY, SCRATCHPAD = Component.MEMORY, Component.SCRATCHPAD


def tensor(order: str, symbol: int, where: Component = MEMORY, missing: str = "") -> Tensor:
    labels = tuple(order.split())
    scales = tuple((label, -2 if label == missing else 1) for label in labels)
    return Tensor(
        "t", "OUTPUT", FP16, labels, (Stick("out" if "out" in order else "in", 64),), scales, where, (symbol,)
    )


def op(name: str, sizes: dict[str, int], splits: tuple[int, ...], *tensors: Tensor) -> SuperDsc:
    axes = tuple(Axis(label, size, split) for (label, size), split in zip(sizes.items(), splits, strict=True))
    cores = 1
    for split in splits:
        cores *= split
    last = len(tensors) - 1
    return SuperDsc(
        f"0_{name}", name, "sfp", FP16, axes, ((0,) * len(axes),) * cores, tensors, tuple(range(last)), (last,)
    )


def priced(*ops: SuperDsc, tiles: int = 1, advance: tuple[int, ...] = (0, 0, 0, 0)) -> CostReport:
    """Symbol -1 - p is parameter p; in tiles it moves by `advance[p]`."""
    symbols = tuple((-1 - p, Address(p, 0, (step,) if tiles > 1 else ())) for p, step in enumerate(advance))
    files = {f"sdsc_{number}.json": each for number, each in enumerate(ops)}
    body = tuple(Execute(file, symbols, number) for number, file in enumerate(files))
    names = tuple(Parameter(f"arg_{number}_base_addr") for number in range(4))
    return published_cost(Bundle("by hand", Function(names, (Loop(tiles, body),) if tiles > 1 else body), files))


def softmax(rows: int, columns: int) -> list[SuperDsc]:
    """Read once, kept, written once."""
    near = tensor("mb out", 0, SCRATCHPAD)
    sizes = {"mb": rows, "out": columns}
    middle = [op(name, sizes, (32, 1), near, near) for name in ("sub", "exp")]
    return [
        op("identity", sizes, (32, 1), tensor("mb out", -1), near),
        *middle,
        op("realdiv", sizes, (32, 1), near, tensor("mb out", -2)),
    ]


def test_a_softmax_of_4096_rows_takes_320_us_tiled_or_not() -> None:
    whole = priced(*softmax(4096, 2048))
    assert round(whole.total_us, 1) == 320.0 and whole.hbm_bytes == 2 * 16_777_216 and len(whole.groups) == 1
    tiled = priced(*softmax(512, 2048), tiles=8, advance=(512, 512, 0, 0))
    assert round(tiled.total_us, 1) == 320.0 and tiled.hbm_bytes == whole.hbm_bytes
    assert tiled.groups[0].loop_ids == (0,) and {cost.trip for cost in tiled.groups[0].ops} == {8}


def test_a_product_in_eight_tiles_reads_its_weight_eight_times() -> None:
    sizes = {"mb": 512, "out": 1024, "in": 2048}
    product = op("batchmatmul", sizes, (8, 4, 1), tensor("mb in", -1), tensor("in out", -2), tensor("mb out", -3))
    report = priced(product, tiles=8, advance=(512, 0, 512, 0))
    assert round(report.total_us, 1) == 423.1
    assert (round(report.hbm_bytes / 1e6, 1), round(report.reread_bytes / 1e6, 1)) == (58.7, 29.4)
    (cost,) = report.groups[0].ops
    assert (cost.trip, cost.hbm_per_iter) == (8, report.hbm_bytes // 8)
    assert json.loads(report.json())["total_us"] == report.total_us and "29.4 MB of it read again" in str(report)


def test_single_ops_have_rates_of_their_own() -> None:
    sizes = {"mb": 4096, "out": 2048}
    moved = 2 * 16_777_216
    turned = priced(op("ReStickifyOpHBM", sizes, (32, 1), tensor("mb out", -1), tensor("mb out", -2)))
    assert turned.total_us == pytest.approx(moved / 116 * 1e-3)
    summed = priced(op("sum", sizes, (32, 1), tensor("mb out", -1), tensor("mb out", -2, missing="out")))
    assert summed.total_us == pytest.approx((16_777_216 + 128 * 4096) / (114 + 61 * exp(-4096 / 3700)) * 1e-3)
    few = priced(op("sum", sizes, (8, 1), tensor("mb out", -1), tensor("mb out", -2, missing="out")))
    assert few.total_us == pytest.approx(summed.total_us / 0.54)


def test_a_large_product_is_bound_by_its_arrays_and_what_comes_from_outside_counts_once() -> None:
    sizes = {"mb": 4096, "out": 4096, "in": 4096}
    first = op("batchmatmul", sizes, (32, 1, 1), tensor("mb in", -1), tensor("in out", -2), tensor("mb out", -3))
    again = op("batchmatmul", sizes, (32, 1, 1), tensor("mb in", -1), tensor("in out", -2), tensor("mb out", -4))
    one, two = priced(first), priced(first, again)
    assert one.total_us == pytest.approx(4096**3 / 32 / 1140 * 1e-3)
    assert [group.ops[0].hbm_bytes for group in two.groups] == [3 * 2 * 4096 * 4096, 2 * 4096 * 4096]
