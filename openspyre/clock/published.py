"""The published formula for whole programs: a second model beside the clock, for reports alone (SPYRE_DUMP_COST).

What is not published is not here: the term for divided sums and that for operands that do not fit. Of products it is a lower bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import exp, prod

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.bundle_function import Address, Execute, Node
from openspyre.artifact.superdsc import Component, SuperDsc, Tensor
from openspyre.clock.kernels import Form, Layout, Matmul, Pointwise, Reduction, RoundTrip
from openspyre.clock.places import bytes_of, inputs_of, outputs_of
from openspyre.clock.work import kernel_of

_GB_PER_S = 150.0
_TURNAROUND_NS_PER_BYTE = 0.00574
_REREAD = 0.85  # of what is read again in every tile
_MACS_PER_NS, _BATCHED_MACS_PER_NS = 1140.0, 160.0
_OVER_ROWS, _RESTICKIFY, _BROADCAST = 113.0, 116.0, 118.0  # GB/s of a single op
_REDUCTION_BY_CORES = {1: 0.11, 2: 0.22, 4: 0.43, 8: 0.54, 16: 0.54, 32: 1.0}
_LARGE_WORKING_SET = 512 << 10


@dataclass(frozen=True, slots=True)
class OpCost:
    """Bytes of one op over all its runs. `reread_bytes`: what every tile reads again, counted in `hbm_bytes`."""

    name: str
    hbm_bytes: int
    trip: int
    hbm_per_iter: int
    lx_bytes: int
    reread_bytes: int


@dataclass(frozen=True, slots=True)
class GroupCost:
    """Ops that hand on through scratchpads, or a loop with all that is in it. `loop_ids`: loops in the order of the text."""

    predicted_us: float
    loop_ids: tuple[int, ...]
    ops: tuple[OpCost, ...]


@dataclass(frozen=True, slots=True)
class CostReport:
    name: str
    groups: tuple[GroupCost, ...]

    @property
    def total_us(self) -> float:
        return sum(group.predicted_us for group in self.groups)

    @property
    def hbm_bytes(self) -> int:
        return sum(op.hbm_bytes for group in self.groups for op in group.ops)

    @property
    def reread_bytes(self) -> int:
        return sum(op.reread_bytes for group in self.groups for op in group.ops)

    def json(self) -> str:
        """On one line."""
        totals = {"total_us": self.total_us, "hbm_bytes": self.hbm_bytes, "reread_bytes": self.reread_bytes}
        return json.dumps(
            {"name": self.name, "model": "published formula"} | totals | {"groups": [asdict(g) for g in self.groups]}
        )

    def __str__(self) -> str:
        again = f", {self.reread_bytes / 1e6:.1f} MB of it read again" if self.reread_bytes else ""
        lines = [
            f"{self.name}: {self.total_us:.1f} us by the published formula, {self.hbm_bytes / 1e6:.1f} MB through memory{again}"
        ]
        for group in self.groups:
            loops = f", loops {', '.join(map(str, group.loop_ids))}" if group.loop_ids else ""
            lines.append(f"  {group.predicted_us:.1f} us: {', '.join(op.name for op in group.ops)}{loops}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Run:
    """An execution with the loops around it: how often each goes round, and its number."""

    execute: Execute
    op: SuperDsc
    counts: tuple[int, ...]
    loops: tuple[int, ...]

    @property
    def trip(self) -> int:
        return prod(self.counts)


def published_cost(bundle: Bundle) -> CostReport:
    """Every group of a launch. Of what comes from outside, each tensor counts once, whoever reads it."""
    seen: set[tuple[Address, int]] = set()
    groups = []
    for runs in _groups(_runs(bundle, bundle.function.body, (), (), [0])):
        moved = [_moved(run, seen, bundle.has_pool) for run in runs]
        loops = tuple(dict.fromkeys(loop for run in runs for loop in run.loops))
        costs = tuple(_op_cost(run, each) for run, each in zip(runs, moved, strict=True))
        groups.append(GroupCost(_time_ns(runs, moved) * 1e-3, loops, costs))
    return CostReport(bundle.name, tuple(groups))


def _runs(
    bundle: Bundle, body: tuple[Node, ...], counts: tuple[int, ...], loops: tuple[int, ...], number: list[int]
) -> Iterator[_Run]:
    for node in body:
        if isinstance(node, Execute):
            yield _Run(node, bundle.ops[node.file], counts, loops)
        else:
            number[0] += 1
            yield from _runs(bundle, node.body, (*counts, node.count), (*loops, number[0] - 1), number)


def _groups(runs: Iterator[_Run]) -> Iterator[list[_Run]]:
    group: list[_Run] = []
    for run in runs:
        same_loop = bool(group) and bool(run.loops) and run.loops[:1] == group[-1].loops[:1]
        handed = not run.loops and any(tensor.component is Component.SCRATCHPAD for tensor in inputs_of(run.op))
        if group and not (same_loop or (handed and not group[-1].loops)):
            yield group
            group = []
        group.append(run)
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class _Moved:
    read: int
    written: int
    reread: int
    near: int


def _moved(run: _Run, seen: set[tuple[Address, int]], has_pool: bool) -> _Moved:
    """Bytes over all runs. What a loop does not move is read again in each of its rounds."""
    if isinstance(kernel_of(run.op), RoundTrip):
        return _Moved(0, 0, 0, 0)
    read = reread = written = near = 0
    for tensor in (*inputs_of(run.op), *(() if run.op.index is None else (run.op.tensors[run.op.index],))):
        size, address = bytes_of(run.op, tensor), _address(run.execute, tensor)
        if address is None:
            near += size * run.trip
            continue
        different = _different(run, address)
        outside = not (has_pool and address.parameter == 0)
        if outside and (address, size) in seen:
            continue
        seen.add((address, size))
        read += size * different
        reread += size * (run.trip - different)
    for tensor in outputs_of(run.op):
        size, address = bytes_of(run.op, tensor), _address(run.execute, tensor)
        if address is None:
            near += size * run.trip
        else:
            written += size * _different(run, address)
    return _Moved(read, written, reread, near)


def _address(execute: Execute, tensor: Tensor) -> Address | None:
    """Of the first core, with what loops add to it; None in the scratchpads."""
    if tensor.component is Component.SCRATCHPAD or not tensor.starts:
        return None
    start = tensor.starts[0]
    return dict(execute.symbols)[start] if start < 0 else Address(None, start)


def _different(run: _Run, address: Address) -> int:
    advance = (*address.advance, *(0,) * len(run.counts))
    return prod(count for count, step in zip(run.counts, advance, strict=False) if step)


def _op_cost(run: _Run, moved: _Moved) -> OpCost:
    whole = moved.read + moved.written + moved.reread
    return OpCost(run.op.name, whole, run.trip, whole // run.trip, moved.near, moved.reread)


def _time_ns(runs: list[_Run], moved: list[_Moved]) -> float:
    read, written = sum(each.read for each in moved), sum(each.written for each in moved)
    if len(runs) == 1 and runs[0].trip == 1:
        rate = _rate_of_one(runs[0].op)
        if rate is not None:
            return (read + written) / rate
    memory = (read + written) / _GB_PER_S + _TURNAROUND_NS_PER_BYTE * min(read, written)
    memory /= _efficiency(runs)
    memory += _REREAD * sum(each.reread for each in moved) / _GB_PER_S
    return max(memory, sum(_compute_ns(run) for run in runs))


def _rate_of_one(op: SuperDsc) -> float | None:
    """GB/s of an op that is a bundle of its own, where it has one."""
    match kernel_of(op):
        case Reduction(rows=rows, cores=cores, over_rows=False):
            share = _REDUCTION_BY_CORES[max(n for n in _REDUCTION_BY_CORES if n <= cores)]
            return min(_GB_PER_S, 114 + 61 * exp(-rows / 3700)) * share
        case Reduction():
            return _OVER_ROWS
        case Layout():
            return _RESTICKIFY
        case Pointwise(form=Form.ALONG_ROWS | Form.ALONG_COLUMNS):
            return _BROADCAST
    return None


def _efficiency(runs: list[_Run]) -> float:
    """Of memory, where tiles are small or their working set is large."""
    tiled = [run for run in runs if run.trip > 1]
    if not tiled:
        return 1.0
    products = [kernel for run in tiled if isinstance(kernel := kernel_of(run.op), Matmul)]
    if products:
        rows = min(_rows_per_core(kernel) for kernel in products)
        return float(min(0.95, (rows / 13) ** 0.68))
    largest = max(tiled, key=lambda run: prod(axis.size for axis in run.op.axes)).op
    columns = largest.axis[largest.tensors[largest.outputs[0]].stick].size
    rows = max(1.0, prod(axis.size for axis in largest.axes) / columns / largest.cores)
    held = max(sum(bytes_of(run.op, tensor) for tensor in run.op.tensors) / run.op.cores for run in tiled)
    spilling = min(1.0, (_LARGE_WORKING_SET / held) ** 0.06) if held > _LARGE_WORKING_SET else 1.0
    return float(min(1.0, min(1.08, (rows / 7.9) ** 0.5 * (columns / 2048) ** 0.38)) * spilling)


def _rows_per_core(kernel: Matmul) -> float:
    return kernel.m / (kernel.division.m if kernel.division is not None else 1)


def _compute_ns(run: _Run) -> float:
    kernel = kernel_of(run.op)
    if not isinstance(kernel, Matmul):
        return 0.0
    macs = kernel.b * kernel.m * kernel.n * kernel.k
    filled = float(min(1.0, (_rows_per_core(kernel) / 64) ** 0.35))
    batched = kernel.three_dims and kernel.b >= 4 and kernel.cores >= 8
    peak = _BATCHED_MACS_PER_NS if batched else _MACS_PER_NS
    return run.trip * macs / kernel.cores / (peak * filled)
