"""Rows of measurements as kernels: every spelling of the public tables, and rows that make no sense."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.clock.__main__ import add_predictions, main
from bench.clock.measured import Measured, kernel_of, measured
from openspyre.clock.kernels import (
    Chain,
    Division,
    Form,
    Kernel,
    Layout,
    Matmul,
    Move,
    Pointwise,
    Reduction,
    Runs,
    Softmax,
)
from openspyre.clock.predict import predict

SWEEP = [
    "op",
    "rows",
    "cols",
    "M",
    "K",
    "N",
    "tiles",
    "lx",
    "cores",
    "kernel_us_median",
    "cv_percent",
    "io_hbm_bytes",
    "log_date",
]
CARD = [
    "src",
    "op",
    "shape",
    "B",
    "M",
    "N",
    "K",
    "split",
    "split_b",
    "split_m",
    "split_n",
    "split_k",
    "cores",
    "metric",
    "value_us",
    "note",
]
MM = 1_048_576  # elements of 1024 x 1024


def swept(op: str, rows: int, cols: int, **more: object) -> dict[str, str]:
    given = {"op": op, "rows": rows, "cols": cols, "tiles": 0, "lx": 0, "cores": 32, **more}
    return {name: str(given.get(name, "")) for name in SWEEP}


def carded(op: str, **more: object) -> dict[str, str]:
    given = {"op": op, **more}
    return {name: str(given.get(name, "")) for name in CARD}


@pytest.mark.parametrize(
    ("row", "kernel"),
    [
        (swept("add", 2048, 1024), Pointwise(Form.BINARY, 4 * 2 * MM, 2 * 2 * MM, 32, Runs(64 * 128, 2048 * 128), 1024)),
        # More sticks in a row than rows: whole columns of sticks for every core.
        (swept("copy", 128, 16384), Pointwise(Form.COPY, 4 * MM, 4 * MM, 32, Runs(), 16384)),
        (swept("amax", 2048, 8192, cores=8), Reduction(32 * MM, 2048 * 128, 2048, 262144, 8, stride=2048 * 128)),
        (swept("softmax_row_tiling", 8192, 2048, tiles=8, lx=1), Softmax(8192, 2048, 32, 8, Runs(32 * 128, 1024 * 128))),
        (swept("add5_sep", 2048, 1024, lx=1), Chain(4, 4 * MM, 32, Runs(64 * 128, 2048 * 128), separate=True)),
        (swept("transpose", 1024, 1024), Layout(Move.RESTICKIFY, 1024, 1024, 4 * MM)),
        (swept("transpose_outer", 512, 2048, io_hbm_bytes=16 * MM), Layout(Move.OUTER, 512, 2048, 16 * MM, depth=4)),
        (swept("bmm_layout", 1024, 2048, io_hbm_bytes=41943040), Matmul(4, 1024, 1024, 2048, None, 32, recorded=False, three_dims=True)),
        (swept("bmm_wd_3d2d", 1024, 2048, io_hbm_bytes=29360128), Matmul(4, 1024, 1024, 2048, None, 32, True, recorded=False)),
        (swept("matmul_k_tiling", 2048, 2048, tiles=8, io_hbm_bytes=25822232704), None),
        (swept("no such op", 64, 64), None),
        (carded("matmul", B=1, M=512, N=4096, K=4096, split_b=1, split_m=4, split_n=8, split_k=1, cores=32),
         Matmul(1, 512, 4096, 4096, Division(1, 4, 8, 1), 32)),
        (carded("matmul", B=1, M=2, N=25600, K=4096, split="mb=1,out=8,in=4"), Matmul(1, 2, 25600, 4096, Division(1, 1, 8, 4), 32)),
        (carded("pointwise_add", shape="[[1, 512, 4096], [1, 512, 4096]]", split="torch-spyre"),
         Pointwise(Form.BINARY, 8 * MM, 4 * MM, 32, Runs(16 * 128, 512 * 128), 4096)),
        (carded("softmax", shape="[1_512_4096", split="torch-spyre"), Softmax(512, 4096, 32, 1, Runs(16 * 128, 512 * 128))),
        (carded("softmax", shape="[1_512_4096", split="torch-spyre:Memset-(Device)"), None),
        (carded("matmul", shape="[1_512_4096__4096_4096", split="sendnn"), None),
        (carded("mlp", shape="[[512,4096]]", split="torch-spyre"), None),
    ],
)  # fmt: skip
def test_a_row_is_a_kernel_or_nothing(row: dict[str, str], kernel: Kernel | None) -> None:
    assert kernel_of(row) == kernel


@pytest.mark.parametrize(
    "shape", ["[[1, 512, 4096], [4096, 12800]]", "[1,512,4096]x[4096,12800]", "[1_512_4096__4096_12800"]
)
def test_a_product_without_sizes_is_read_from_its_shape(shape: str) -> None:
    kernel = kernel_of(carded("matmul", shape=shape, split="torch-spyre"))
    assert isinstance(kernel, Matmul) and (kernel.m, kernel.n, kernel.k) == (512, 12800, 4096)
    assert not kernel.recorded and kernel.division == Division(1, 4, 8, 1)  # what the planner chose then


def test_n_is_solved_from_the_bytes() -> None:
    kernel = kernel_of(swept("matmul_row_tiling", 2048, 2048, tiles=1, io_hbm_bytes=25165824))
    assert isinstance(kernel, Matmul) and kernel.n == 2048


@given(
    st.fixed_dictionaries(
        {
            name: st.sampled_from(
                [
                    "",
                    "0",
                    "-1",
                    "64",
                    "2048",
                    "1e400",
                    "nan",
                    "x",
                    "add",
                    "mmwd",
                    "bmm_wd",
                    "cat0",
                    "matmul",
                    "[[",
                    "softmax",
                ]
            )
            for name in {*SWEEP, *CARD}
        }
    )
)
@example({"op": "cat0", "shape": "0"})
@example({"op": "add0", "M": "32", "N": "2048"})
@example({"op": "mm", "rows": "1e14", "M": "1e14", "K": "1e14", "N": "1e14", "cores": "1e14"})
@example({"op": "matmul", "M": "64", "N": "64", "K": "64", "split": "mb=0,out=0"})
def test_odd_rows_are_no_reason_to_fall(row: dict[str, str]) -> None:
    kernel = kernel_of(row)
    assert kernel is None or predict(kernel).time_us > 0


def test_times_the_profiler_cannot_resolve_are_no_measurements() -> None:
    row = carded("pointwise_add", shape="[[4,1,4096],[4,1,4096]]", value_us="1.0")
    assert kernel_of(row) is not None and measured(row) is None


def test_hangs_are_read_but_not_fitted() -> None:
    sizes = {"B": 1, "M": 512, "N": 4096, "K": 4096, "split_b": 1, "cores": 32, "metric": "kernel_device_us(profiler)"}
    hang = measured(carded("matmul", **sizes, split_m=2, split_n=2, split_k=8, value_us=162780.65))
    sound = measured(carded("matmul", **sizes, split_m=4, split_n=8, split_k=1, value_us=317.36))
    assert isinstance(hang, Measured) and not hang.fitted
    assert isinstance(sound, Measured) and sound.fitted


def test_predict_adds_a_column_and_keeps_the_rest(tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    rows = [swept("add", 2048, 1024, kernel_us_median=107.9), swept("mystery", 1, 1), {}]
    with source.open("w", newline="") as file:
        writer = csv.DictWriter(file, SWEEP)
        writer.writeheader()
        writer.writerows(rows)
    assert add_predictions(source, target) == (3, 1)
    with target.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["op"] for row in found] == ["add", "mystery", ""]
    assert float(found[0]["predicted_us"]) == pytest.approx(107.9, rel=0.1)
    assert [row["predicted_us"] for row in found[1:]] == ["", ""]


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no measurements in"):
        main(["fit", str(tmp_path)])
    with pytest.raises(SystemExit, match="no such file"):
        main(["predict", str(tmp_path / "none.csv"), str(tmp_path / "out.csv")])
