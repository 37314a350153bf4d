"""Plans with tensors in the scratchpads, on the card with its sanitizer and by the second reader: any division, any room, equal bits."""

import random
from dataclasses import replace

import numpy as np
import pytest
from bundle_bits import agrees
from fused_bits import results, steps_with_equal_bits

from openspyre.backend import compile_emitted, host_form
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.ir import Access, Buffer, Dim, InScratchpad, Op, Program, Role
from openspyre.compiler.passes.place_buffers import PlaceBuffers
from openspyre.compiler.passes.plan_scratchpads import PlanScratchpads
from openspyre.compiler.scratchpad import planning
from openspyre.compiler.verify import Verifier
from openspyre.spec.addressing import row_major
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import DataFormats
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.sharing import nothing_shared

SIZE = (128, 256)
DIVISIONS = [(32, 1), (8, 4), (16, 2), (4, 4), (1, 4), (16, 1)]
SOLVERS = ["greedy", "firstfit", "bestfit", "simulated_annealing", "exact"]


def buffer(name, role=Role.TEMP, size=SIZE):
    return Buffer(name, "float16", size, row_major(size), role, SpyreTensorLayout(size, "float16"))


def dims(division):
    return Dim("m", SIZE[0], split=division[0]), Dim("n", SIZE[1], split=division[1])


def product(name, first, division, weight):
    accesses = Access(first, 0, (256, 0, 1), "float16"), Access(weight, 0, (0, 1, 256), "float16")
    space = (*dims(division), Dim("k", 256, reduced=True))
    return Op(name, "batchmatmul", space, accesses, (Access(name, 0, (256, 1, 0), "float16"),))


def pointwise(row, name, reads, division):
    return Op(name, row, dims(division), tuple(whole(read) for read in reads), (whole(name),))


def whole(name):
    return Access(name, 0, (256, 1), "float16")


def drawn(seed):
    """Products and pointwise ops on earlier results, each divided in a way of its own or as the one before; some results go out."""
    draw = random.Random(seed)
    made, ops, divided = ["x", "y"], [], draw.choice(DIVISIONS)
    for number in range(draw.randint(4, 9)):
        divided = draw.choice(DIVISIONS) if draw.random() < 0.4 else divided
        name, recent = f"t{number}", made[-3:]
        if draw.random() < 0.3:
            ops.append(product(name, draw.choice(recent), divided, "w"))
        else:
            row = draw.choice(["add", "sub", "mul", "maximum", "neg", "relu"])
            count = 1 if row in ("neg", "relu") else 2
            ops.append(pointwise(row, name, [draw.choice(recent) for _ in range(count)], divided))
        made.append(name)
    out = {made[-1], *draw.sample(made[2:], 1)}
    read = {access.buffer for op in ops for access in op.accesses[:-1]}
    inputs = [buffer(name, Role.INPUT) for name in ("x", "y")] + [buffer("w", Role.INPUT, (256, 256))]
    used = [each for each in inputs if each.name in read]
    temps = [buffer(n, Role.OUTPUT if n in out or n not in read else Role.TEMP) for n in made[2:]]
    return Program(f"drawn_{seed}", (*used, *temps), tuple(ops))


def lowered(program, plan):
    planned = PlaceBuffers().run(plan.run(program) if plan is not None else program)
    assert Verifier(lowered=True).problems(planned) == []
    return planned


def bits(program):
    emitted = emit_bundle(program)
    return {name: array.tobytes() for name, array in results(emitted, compile_emitted(emitted), 1, 7).items()}


@pytest.mark.parametrize("seed", range(24))
def test_every_plan_gives_the_bits_of_none(seed):
    """All solvers, in all the room there is and in little: the sanitizer sees who wrote what each core reads."""
    program = drawn(seed)
    wanted = bits(lowered(program, None))
    draw = random.Random(seed)
    for solver in ("greedy", draw.choice(SOLVERS[1:])):
        for capacity in (1_625_344, 128 * draw.randint(8, 60)):
            plan = PlanScratchpads(capacity, solver, all_ops=draw.random() < 0.3)
            found = lowered(program, plan)
            assert bits(found) == wanted, (solver, capacity)
            ends = [b.place.byte for b in found.buffers if isinstance(b.place, InScratchpad)]
            assert max(ends, default=0) < capacity


@pytest.mark.parametrize("seed", range(6))
def test_the_second_reader_finds_the_same_in_every_scratchpad(seed):
    found = lowered(drawn(100 + seed), PlanScratchpads())
    emitted = agrees(found)
    steps_with_equal_bits(emitted, seeds=(1,))


def test_slices_go_from_core_to_core():
    """A product divided 8 x 4, added to rows on 32 cores: one shuffle, and no byte of the product in memory."""
    ops = (
        product("p", "x", (8, 4), "w"),
        pointwise("mul", "s", ["y", "y"], (32, 1)),
        pointwise("add", "z", ["p", "s"], (32, 1)),
    )
    roles = {"x": Role.INPUT, "y": Role.INPUT, "z": Role.OUTPUT}
    buffers = [buffer(name, roles.get(name, Role.TEMP)) for name in ("x", "y", "z", "p", "s")]
    program = Program("relaid", (*buffers, buffer("w", Role.INPUT, (256, 256))), ops)
    found = lowered(program, PlanScratchpads())
    emitted = agrees(found)
    assert [execution.shared.op.op for execution in emitted.executions] == ["batchmatmul", "mul", "shuffle", "add"]
    shuffle = emitted.executions[2].shared.op
    source, target = shuffle.tensors
    # Worked by hand: core c of the product has rows 16 * (c % 8) and columns 64 * (c // 8), then rows 4 * c.
    assert source.owners[11] == (("mb", 3), ("out", 1)) and target.owners[11] == (("mb", 11), ("out", 0))
    assert (source.starts[0], target.starts[0]) == (0, 2048)
    assert found.pool_bytes == 0
    assert bits(found) == bits(lowered(program, None))
    before, after = steps_with_equal_bits(emitted)
    assert after < before


def test_a_value_that_was_written_over_is_not_read_on_the_host():
    """The host follows addresses: a plan that gives two living tensors the same bytes gives wrong numbers, as on a card."""
    ops = (
        pointwise("add", "t", ["x", "y"], (32, 1)),
        pointwise("mul", "u", ["x", "y"], (32, 1)),
        pointwise("sub", "z", ["t", "u"], (32, 1)),
    )
    roles = {"x": Role.INPUT, "y": Role.INPUT, "z": Role.OUTPUT}
    program = Program("p", tuple(buffer(name, roles.get(name, Role.TEMP)) for name in "xyztu"), ops)
    right = PlaceBuffers().run(PlanScratchpads().run(program))
    wrong = replace(
        right, buffers=tuple(replace(b, place=InScratchpad(0)) if b.name in "tu" else b for b in right.buffers)
    )
    emitted = emit_bundle(wrong)
    steps_with_equal_bits(emitted)
    (name, found), *_ = results(emitted, compile_emitted(emitted), 1, 7).items()
    assert name == "z" and not np.any(np.nan_to_num(found)), "u - u"


@pytest.mark.parametrize("order", [(10, 8), (8, 10)], ids=str)
def test_tensors_that_fill_their_sticks_differently_share_no_steps(order):
    """10 and 8 columns are one stick each: their SuperDSCs compare equal, and how many lanes are elements is no field of theirs."""
    for columns in order:
        size = (32, columns)
        space = (Dim("m", 32, split=32), Dim("n", columns))
        there = {name: (Access(name, 0, (columns, 1), "float16"),) for name in "xty"}
        ops = (Op("t", "neg", space, there["x"], there["t"]), Op("y", "exp", space, there["t"], there["y"]))
        roles = {"x": Role.INPUT, "t": Role.TEMP, "y": Role.OUTPUT}
        program = Program("short", tuple(buffer(name, role, size) for name, role in roles.items()), ops)
        emitted = emit_bundle(lowered(program, PlanScratchpads()))
        shared = compile_emitted(host_form(emitted))
        assert {step.lane.extent for step in shared.steps} == {columns}
        with nothing_shared():
            assert compile_emitted(host_form(emitted)) == shared


def image(name, role=Role.TEMP):
    """Images, features, rows and columns: the sticks of all rows of a feature are one device dim."""
    size = (3, 10, 5, 128)
    layout = SpyreTensorLayout([10, 10, 3, 64], [640, 64, 6400, 1], DataFormats.SEN169_FP16)
    return Buffer(name, "float16", size, row_major(size), role, layout)


def test_a_shuffle_of_a_division_that_no_dim_of_the_tensor_has_is_refused(monkeypatch):
    """The planner makes none (`test_plan_scratchpads.py`): here it is kept from looking."""
    monkeypatch.setattr(planning, "_divisions", lambda *_: iter(()))
    places = Dim("b", 3, split=3), Dim("f", 10), Dim("n", 640, split=10)
    features = Dim("b", 3, split=3), Dim("f", 10, split=10), Dim("h", 5), Dim("w", 128)
    flat = [Access(name, 0, (6400, 640, 1), "float16") for name in ("x", "x", "p")]
    whole = [Access(name, 0, (6400, 640, 128, 1), "float16") for name in ("p", "x", "z")]
    ops = Op("p", "mul", places, tuple(flat[:2]), (flat[2],)), Op("z", "add", features, tuple(whole[:2]), (whole[2],))
    program = Program("shuffled", (image("x", Role.INPUT), image("p"), image("z", Role.OUTPUT)), ops)
    planned = PlanScratchpads().run(program)
    assert [op.row for op in planned.ops] == ["mul", "shuffle", "add"]
    with pytest.raises(InvalidArgument, match="10 slices of out, whose 128 elements do not divide"):
        compile_emitted(emit_bundle(planned))
