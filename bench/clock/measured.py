"""Rows of measurements as kernels: every spelling of the public tables, and None for what is no kernel the clock knows."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path

from bench.clock.published import august_division, default_split, june_division
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

CORES = 32
_MAX_COUNT = {"cores": 1024, "B": 1 << 16}  # of other sizes 2^24: no card holds more, and divisors are tried one by one
Row = Mapping[str, str | None]
Shape = tuple[str | int, ...]

_FORMS = {
    **dict.fromkeys(("add", "mul", "sub", "div", "realdiv", "maximum", "minimum", "pointwise_add"), Form.BINARY),
    **dict.fromkeys(("neg", "exp", "abs", "relu", "sqrt", "rsqrt", "reciprocal", "log"), Form.UNARY),
    **dict.fromkeys(("gelu", "silu", "sigmoid", "tanh", "softplus", "mish"), Form.FUNCTION),
    "copy": Form.COPY,
    "bcast": Form.ALONG_COLUMNS,
    "mulbcast": Form.ALONG_COLUMNS,
    "bcastcol": Form.ALONG_ROWS,
}
_ROW_REDUCTIONS = ("amax", "mean", "read", "sumrow", "sum", "max", "amin")
# Rows that say nothing about their shape: hangs, hints nobody honoured, times far from all neighbours.
_LEFT_OUT = {
    (512, 4096, 4096, Division(1, 2, 2, 8)),
    (512, 4096, 4096, Division(1, 4, 1, 8)),
    (64, 4096, 4096, Division(1, 1, 4, 8)),
    (512, 4096, 12800, Division(1, 1, 4, 8)),
    (64, 12800, 4096, Division(1, 32, 1, 1)),
}
_UNKNOWN_DIVISIONS = {(1024, 16384, 1024), (2048, 6144, 2048), (2048, 8192, 1024)}


@dataclass(frozen=True, slots=True)
class Measured:
    """One row: what ran, how long it took, and whether a fit should look at it."""

    kernel: Kernel
    us: float
    series: str  # the source and op
    shape: Shape  # rows of one shape are held out together
    fitted: bool = True


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return [{k: v or "" for k, v in row.items() if isinstance(k, str)} for row in csv.DictReader(file)]


def measured(row: Row) -> Measured | None:
    """The row as a measurement, if it is one of a kernel the clock knows."""
    kernel = kernel_of(row)
    us = _number(row, "kernel_us_median") or _number(row, "value_us")
    if kernel is None or us is None or us <= 2:  # the profiler of the tools resolves 1 us
        return None
    op = _text(row, "op")
    series = op if _text(row, "rows") else f"card {_text(row, 'op').split(' ')[0]}"
    return Measured(kernel, us, series, shape_of(kernel), _is_fitted(row, kernel, us))


def shape_of(kernel: Kernel) -> Shape:
    match kernel:
        case Matmul():
            return ("matmul", kernel.b, kernel.m, kernel.n, kernel.k)
        case Layout():
            return (kernel.rows, kernel.columns)
        case Softmax():
            return (kernel.rows, kernel.columns)
        case Chain():
            return ("chain", kernel.tensor_bytes, kernel.runs.bytes)
        case Reduction():
            return (kernel.rows, kernel.sticks * 64 // max(1, kernel.rows))
        case Pointwise():
            return (kernel.written_bytes // (2 * max(1, kernel.columns)), kernel.columns)
    return (repr(kernel),)


def _is_fitted(row: Row, kernel: Kernel, us: float) -> bool:
    """Section by section of what must be left out: broken runs, unknown divisions, other builds."""
    if isinstance(kernel, Matmul) and kernel.b == 1:
        if kernel.division is not None and (kernel.m, kernel.n, kernel.k, kernel.division) in _LEFT_OUT:
            return False
        if (kernel.m, kernel.n, kernel.k) == (64, 2880, 2880) or (kernel.m, kernel.n, kernel.k) in _UNKNOWN_DIVISIONS:
            return False
    if _text(row, "src").startswith("AdnanHoque") and not _text(row, "split_m"):
        return False  # several builds under one name
    if _text(row, "src").startswith("torch-spyre") and isinstance(kernel, Softmax):
        return False
    if isinstance(kernel, Matmul) and kernel.b == 64 and kernel.division == Division(4, 1, 1, 4):
        return False
    is_write = _text(row, "op").startswith("write")
    return not (is_write and _dims(row) == (4096, 8192))


def kernel_of(row: Row) -> Kernel | None:
    """The kernel of a row of either table; None if it is none, or says too little."""
    try:
        return _swept(row) if _text(row, "rows") else _carded(row)
    except (ValueError, ZeroDivisionError, OverflowError, IndexError):
        return None


def _text(row: Row, name: str) -> str:
    return (row.get(name) or "").strip()


def _number(row: Row, name: str) -> float | None:
    try:
        found = float(_text(row, name))
    except ValueError:
        return None
    return found if 0 < found < 1e15 else None  # neither nan nor infinite


def _count(row: Row, name: str, otherwise: int = 0) -> int:
    found = _number(row, name)
    if found is None or found < 1:
        return otherwise
    if name != "io_hbm_bytes" and found > _MAX_COUNT.get(name, 1 << 24):
        raise ValueError(f"{found:g} {name}")
    return int(found)


def _dims(row: Row) -> tuple[int, int]:
    rows, columns = _count(row, "rows") or _count(row, "M"), _count(row, "cols") or _count(row, "N")
    if rows < 1 or columns < 1:
        rows, columns = _rows_and_columns(_text(row, "shape"))
    if rows < 1 or columns < 1:
        raise ValueError(f"no tensor of {rows} rows and {columns} columns")
    return rows, columns


def _rows_and_columns(text: str) -> tuple[int, int]:
    sizes = _sizes(text)[0]
    return prod(sizes[:-1]), sizes[-1]


def _sizes(text: str) -> list[tuple[int, ...]]:
    """Sizes of each tensor: "[[1, 512], [512, 64]]", "[1,512]x[512,64]", "[1_512__512_64", "512x64"."""
    apart = text.replace("__", "|") if "_" in text else re.sub(r"\]\s*[,x]\s*\[", "|", text)
    found = [tuple(int(size) for size in re.findall(r"\d+", part)) for part in apart.split("|")]
    found = [sizes for sizes in found if sizes]
    if not found:
        raise ValueError(f"no sizes in {text!r}")
    return found


def runs_of(rows: int, columns: int, cores: int) -> Runs:
    """How a core's part of [rows, columns] lies in sticks, divided as the default does."""
    sticks = ceil(columns / 64)
    by_rows, by_sticks = default_split(rows, sticks, cores)
    if by_rows == 1 and by_sticks > 1:
        return Runs()  # whole columns of sticks, one behind the other
    return Runs(rows // by_rows * 128, rows * 128)


def _pointwise(form: Form, rows: int, columns: int, cores: int) -> Pointwise:
    tensor = 2 * rows * ceil(columns / 64) * 64
    inputs = 2 if form is Form.BINARY else 1
    return Pointwise(form, inputs * tensor, tensor, cores, runs_of(rows, columns, cores), columns)


def _reduction(rows: int, columns: int, cores: int) -> Reduction:
    sticks = rows * ceil(columns / 64)
    return Reduction(128 * sticks, 128 * rows, rows, sticks, cores, stride=128 * rows)


def _swept(row: Row) -> Kernel | None:
    rows, columns = _dims(row)
    cores = _count(row, "cores", CORES)
    return _of_name(_text(row, "op"), row, rows, columns, cores)


def _of_name(op: str, row: Row, rows: int, columns: int, cores: int) -> Kernel | None:
    tiles, resident, tensor = max(1, _count(row, "tiles")), _text(row, "lx") == "1", 2 * rows * columns
    if op in _FORMS:
        return _pointwise(_FORMS[op], rows, columns, cores)
    if op in _ROW_REDUCTIONS:
        return _reduction(rows, columns, cores)
    if op in ("sumcol", "sumall"):
        if op == "sumall":
            return _reduction(rows, columns, cores)
        return Reduction(tensor, 2 * columns, rows, tensor // 128, cores, over_rows=True)
    if op == "ctsum":
        # Partial sums stay in scratchpads if a tile's columns alone occupy at least half of the cores.
        spilled = not resident or columns // tiles // 64 < cores // 2
        return Reduction(tensor, 2 * columns, rows, tensor // 128, cores, over_rows=True, tiles=tiles, spilled=spilled)
    if op.startswith("softmax"):
        return Softmax(rows, columns, cores, tiles, runs_of(max(1, rows // tiles), columns, cores))
    if op.startswith("write"):
        return Pointwise(
            Form.ALONG_ROWS, 128 * rows + 2 * columns, tensor, cores, runs_of(rows, columns, cores), columns
        )
    if op == "add_indep2":
        one = _pointwise(Form.BINARY, rows, columns, cores)
        return Pointwise(Form.BINARY, 2 * one.read_bytes, 2 * one.written_bytes, cores, one.runs, columns)
    if found := re.fullmatch(r"add([2-9])(_sep)?( chain LX (on|off))?", op):
        separate = bool(found[2])
        stays = found[4] == "on" if found[4] else resident and not separate
        return Chain(int(found[1]) - 1, tensor, cores, runs_of(rows, columns, cores), stays, separate)
    return _layout(op, row, rows, columns, cores) or _product(op, row, rows, columns, cores)


def _layout(op: str, row: Row, rows: int, columns: int, cores: int) -> Layout | None:
    tensor = 2 * rows * columns
    if op == "transpose":
        return Layout(Move.RESTICKIFY, rows, columns, 2 * tensor)
    if op == "cat1":
        return Layout(Move.CAT_COLUMNS, rows, columns, 3 * tensor, runs_of(rows, columns, cores))
    if op == "cat0":
        return Layout(Move.CAT_ROWS, rows, columns, 3 * tensor)
    if op.startswith("transpose_outer"):
        told = re.search(r"\[R,\s*(\d+),\s*C\]", op)
        depth = int(told[1]) if told else round(_count(row, "io_hbm_bytes") / (2 * tensor))
        return Layout(Move.OUTER, rows, columns, 2 * tensor * depth, depth=depth) if depth >= 1 else None
    return None


def _product(op: str, row: Row, rows: int, columns: int, cores: int) -> Matmul | None:
    if _count(row, "tiles") > 1:
        return None  # coarse tiles of matmuls took 100 to 1000 times as long on that build
    traffic = _count(row, "io_hbm_bytes")
    if op in ("mm", "mmwd") or op.startswith(("matmul", "mm_")):
        m, k = _count(row, "M", rows), _count(row, "K", columns)
        n = _count(row, "N") or _solved(m, k, traffic)
        return _assumed(m, n, k, cores) if n else None
    if op.startswith("bmm"):
        shared = "3d2d" in op
        found = _batch(rows, columns, traffic, shared)
        if found is None:
            return None
        b, n = found
        if b == 1 and shared:
            return _assumed(rows, n, columns, cores)
        # Tiled runs with one tile are the planner's division; the others repeat a shape in divisions nobody recorded.
        division = august_division(b, rows, n, columns, cores, shared) if op == "bmm_k_tiling" else None
        plain = (False, False) if op == "bmm_wd" else None
        return Matmul(b, rows, n, columns, division, cores, shared, recorded=False, three_dims=not shared, plain=plain)
    return None


def _assumed(m: int, n: int, k: int, cores: int) -> Matmul:
    return Matmul(1, m, n, k, june_division(m, n, k, cores), cores, recorded=False)


def _solved(m: int, k: int, traffic: int) -> int:
    """N from the bytes of both operands and the result; 0 if that is no whole number."""
    n, rest = divmod(traffic // 2 - m * k, k + m)
    return n if rest == 0 and n > 0 else 0


def _batch(m: int, k: int, traffic: int, shared: bool) -> tuple[int, int] | None:
    """The batch and N that give these bytes, for the first usual N."""
    for n in (1024, 512, 2048, 4096, 256, 128, 64):
        once = 2 * k * n if shared else 0
        each = 2 * (m * k + m * n + (0 if shared else k * n))
        b, rest = divmod(traffic - once, each)
        if rest == 0 and b > 0 and (shared or b & (b - 1) == 0):
            return b, n
    return None


def _carded(row: Row) -> Kernel | None:
    op, split, metric = _text(row, "op"), _text(row, "split"), _text(row, "metric")
    if split.startswith("sendnn") or ":Mem" in split or "Mem" in metric:
        return None  # another compiler's kernels, or no kernel
    cores = _count(row, "cores", CORES)
    if op in ("matmul", "mm", "mmwd", "linear") or op.startswith("bmm"):
        return _carded_product(row, op, split, cores)
    if op == "softmax":
        rows, columns = _dims(row)
        return Softmax(rows, columns, cores, 1, runs_of(rows, columns, cores))
    if op in ("mlp", "attention") or "swiglu" in op:
        return None  # several kernels, of which the row does not tell which
    rows, columns = _dims(row)
    return _of_name(op, row, rows, columns, cores)


def _carded_product(row: Row, op: str, split: str, cores: int) -> Matmul | None:
    b, m, n, k = (_count(row, name) for name in "BMNK")
    if not (m and n and k):
        first, second = _sizes(_text(row, "shape"))[:2]
        b, m, n, k = 1, prod(first[:-1]), second[-1], first[-1]
    b = max(1, b)
    if min(m, n, k) < 1:
        return None
    told = _told_division(row, split)
    if found := re.search(r"layout A=(\w+) B=(\w+)", op):
        return Matmul(
            b, m, n, k, None, cores, recorded=False, three_dims=True, plain=(found[1] == "alt", found[2] == "alt")
        )
    shared = "3d2d" in op
    if b > 1:
        return Matmul(b, m, n, k, None if shared else told, cores, shared, recorded=told is not None)
    if told is None:
        return _assumed(m, n, k, cores)
    if op.startswith("bmm full"):
        return Matmul(1, m, n, k, told, told.cores, three_dims=True)
    return Matmul(1, m, n, k, told, told.cores)


def _told_division(row: Row, split: str) -> Division | None:
    told = tuple(_count(row, f"split_{dim}") for dim in "bmnk")
    if all(told[1:]):
        return Division(max(1, told[0]), *told[1:])
    named = {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", split)}
    if named:
        return Division(*(max(1, named.get(name, 1)) for name in ("x", "mb", "out", "in")))
    return None
