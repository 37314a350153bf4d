"""Chains in tiles without a hint: where the clock says that it pays, along dims that nobody sums, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from openspyre.compiler import pipeline
from openspyre.compiler.ir import Hint, Loop, Op, Program, Role
from openspyre.compiler.loops import listed
from openspyre.compiler.passes.plan_by_clock import time_program
from openspyre.compiler.passes.tile_by_clock import TileByClock
from openspyre.compiler.passes.tile_ops import TileOps
from openspyre.compiler.text import parse_program
from openspyre.compiler.timed import tile_search
from openspyre.compiler.timed.programs_of_tests import gated, product
from openspyre.compiler.timed.tile_search import TiledChain
from openspyre.spec.machine import SPYRE, Machine
from openspyre.spec.planning import Planning
from openspyre.spec.sharing import Memo, nothing_shared

GRAPHS = Path(__file__).parents[1] / "golden" / "plans"


def step_for(machine: Machine = SPYRE) -> TileByClock:
    return next(step for step in pipeline.passes(machine) if isinstance(step, TileByClock))


def before_tiles(program: Program) -> Program:
    for step in pipeline.passes():
        if isinstance(step, TileByClock):
            break
        program = step.run(program)
    return program


def graph(name: str) -> Program:
    return before_tiles(parse_program((GRAPHS / f"{name}.ir").read_text()))


def chains(program: Program, machine: Machine = SPYRE) -> list[TiledChain]:
    return step_for(machine).chains(program)


def names(program: Program, chain: TiledChain) -> list[str]:
    return [program.ops[number].name for number, _ in chain.dims]


def sums(program: Program) -> dict[str, list[tuple[int, int]]]:
    found = {op.name: [(dim.size, dim.split) for dim in op.dims if dim.reduced] for op, _ in listed(program.body)}
    return {name: splits for name, splits in found.items() if splits}


def test_a_gate_that_has_no_room_is_tiled() -> None:
    """Three results of 200 MiB; all scratchpads together have 50."""
    program = gated(8192, 4096, 12800)
    (chain,) = chains(program)
    assert names(program, chain) == ["gate", "up", "silu", "mul"]
    assert chain.gain.us > chain.gain.error_us > 0
    plans = [pipeline.run(program, SPYRE, Planning(clock_tiling=on), verify=True) for on in (False, True)]
    whole, tiled = (time_program(plan, SPYRE) for plan in plans)
    assert whole.card_us - tiled.card_us > whole.band * whole.card_us
    assert sums(plans[0]) == sums(plans[1])


def test_attention_is_tiled_head_by_head() -> None:
    program = graph("attention_unmasked_2048")
    (chain,) = chains(program)
    assert chain.gain.count == 32 and names(program, chain) == [op.name for op in program.ops]
    assert chain.gain.after_us < chain.gain.before_us / 5
    assert chain.large == "batchmatmul_0.scores"


@pytest.mark.parametrize("name", ["attention_512", "granite_layer", "granite_decode", "softmax", "swiglu", "gelu_mlp"])
def test_what_fits_is_left_as_it_is(name: str) -> None:
    program = graph(name)
    assert step_for().run(program) is program


def test_what_gains_less_than_the_clock_may_err_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    program = gated(8192, 4096, 12800)
    (chain,) = chains(program)
    known = tile_search.Judged.of

    def less_sure(*given: object) -> tile_search.Judged:
        judged = known(*given)  # type: ignore[arg-type]
        return replace(judged, error_us=chain.gain.us * 1.01)

    monkeypatch.setattr(tile_search.Judged, "of", less_sure)
    with nothing_shared():
        assert chains(program) == []


def test_a_product_alone_is_no_chain() -> None:
    assert chains(product(65536, 4096, 4096)) == []


def test_tiles_that_were_asked_for_win() -> None:
    program = gated(8192, 4096, 12800)
    named = tuple(replace(dim, named=("M",)) if dim.name == "i" else dim for dim in program.ops[-1].dims)
    asked = replace(program.ops[-1], dims=named, hints=(Hint(0, tiles=("M", 4)),))
    hinted = TileOps().run(replace(program, body=(*program.ops[:-1], asked)))
    assert any(isinstance(node, Loop) for node in hinted.body)
    assert step_for().run(hinted) is hinted


def test_what_is_written_under_another_name_is_no_part_of_a_loop() -> None:
    """An update may be somebody's input: tiles would read what another tile has written."""
    program = gated(8192, 4096, 12800)
    written = tuple(replace(b, role=Role.UPDATE) if b.name == "out" else b for b in program.buffers)
    found = chains(replace(program, buffers=written))
    assert all("mul" not in names(program, chain) for chain in found)


@pytest.mark.parametrize(("count", "same"), [(2, True), (32, False)])
def test_another_division_of_a_sum_is_no_gain(monkeypatch: pytest.MonkeyPatch, count: int, same: bool) -> None:
    """A tile of few rows would divide k, and so its bits would be others: such a count is not taken, however fast."""
    monkeypatch.setattr(tile_search.Gain, "is_sure", True)
    monkeypatch.setattr(tile_search.Judged, "could_gain", True)
    monkeypatch.setattr(tile_search, "peak_bytes", lambda program: 0)
    step = step_for(replace(SPYRE, scratchpad_reserved_fraction=0.99))
    program = gated(1024, 4096, 1024)
    judged = [step._judged(program, (0, 0, 0, 0), n).sums for n in (1, count)]
    assert (judged[0] == judged[1]) is same
    monkeypatch.setattr(tile_search, "tiled_size", lambda flow, dims: 1 + set(dims.values()).pop())
    monkeypatch.setattr(tile_search, "_counts", lambda size: [count] if size == 1 else [])  # rows alone
    assert bool(step.chains(program)) is same


def test_equal_chains_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one = gated(8192, 4096, 12800)
    other = {name: f"{name}.other" for name in (buffer.name for buffer in one.buffers)}

    def renamed(op: Op) -> Op:
        inputs = tuple(each.on(other[each.buffer]) for each in op.accesses[: len(op.inputs)])
        return replace(
            op, name=f"{op.name}.other", inputs=inputs, outputs=tuple(a.on(other[a.buffer]) for a in op.outputs)
        )

    more = tuple(replace(buffer, name=other[buffer.name]) for buffer in one.buffers)
    both = replace(one, buffers=(*one.buffers, *more), body=(*one.body, *map(renamed, one.ops)))
    tried: list[object] = []
    known = TileByClock._judged

    def watched(step: TileByClock, program: Program, dims: Sequence[int], count: int) -> tile_search.Judged:
        tried.append((dims, count))
        return known(step, program, dims, count)

    monkeypatch.setattr(TileByClock, "_judged", watched)
    monkeypatch.setattr(tile_search, "_known", Memo())
    first, second = chains(both)
    assert first.gain == second.gain and [n + 4 for n, _ in first.dims] == [n for n, _ in second.dims]
    of_both = len(tried)
    monkeypatch.setattr(tile_search, "_known", Memo())
    chains(one)
    assert len(tried) == 2 * of_both
