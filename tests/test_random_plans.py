"""Random graphs, shapes and machines through both planners and all solvers: capacity, spans, alignment, ownership, order, time and bits.

Ownership is the sanitizer's: it sees who wrote what each core reads. Bits of all plans that divide sums alike are equal, and those of
plans that divide none are the bits of a card with one core.
"""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from unittest.mock import patch

from fused_bits import results
from hypothesis import HealthCheck, event, given, reject, settings
from hypothesis import strategies as st

from openspyre.artifact.bundle_check import check_bundle
from openspyre.backend import compile_emitted, fused_on_host
from openspyre.compiler import pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.ir import Access, Buffer, Dim, InScratchpad, Loop, Op, Program, Role
from openspyre.compiler.loops import listed
from openspyre.compiler.passes.plan_by_clock import PlanByClock, time_program
from openspyre.compiler.planner.constraints import Undividable
from openspyre.compiler.scratchpad.uses import uses_of, works_of
from openspyre.compiler.scratchpad.views import View
from openspyre.compiler.spans import widest
from openspyre.compiler.timed import tile_search
from openspyre.compiler.verify import Verifier
from openspyre.spec.addressing import row_major
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.machine import KIB, SPYRE, Machine
from openspyre.spec.planning import LAYOUT_SOLVERS, PLANNERS, Planning

BATCHES, ROWS, COLUMNS = (1, 2, 3, 8), (1, 4, 16, 24, 64, 128), (64, 128, 192, 256, 640)
MAPS = {"add": 2, "sub": 2, "mul": 2, "maximum": 2, "neg": 1, "relu": 1, "exp": 1}


def tensor(name, size, role=Role.TEMP):
    return Buffer(name, "float16", size, row_major(size), role, SpyreTensorLayout(size, "float16"))


@dataclass
class Growing:
    """A program in the making: [batch, rows, columns], of which the columns change with products."""

    shape: tuple[int, int, int]
    buffers: dict
    ops: list

    def access(self, name, dims):
        """Along the dims of an op that a tensor has; it is the same along those it has as 1."""
        buffer = self.buffers[name]
        own = dict(zip("bmn", zip(buffer.size, buffer.stride, strict=True), strict=True))
        return Access(name, 0, tuple(own[d][1] if own[d][0] > 1 else 0 for d in dims), "float16")

    def map(self, name, row, reads):
        columns = self.buffers[reads[0]].size[2]
        size = (*self.shape[:2], columns)
        self.buffers[name] = tensor(name, size)
        dims = tuple(Dim(d, n) for d, n in zip("bmn", size, strict=True))
        inputs = tuple(self.access(read, "bmn") for read in reads)
        self.ops.append(Op(name, row, dims, inputs, (self.access(name, "bmn"),)))

    def fold(self, name, row, read):
        size = self.buffers[read].size
        self.buffers[name] = tensor(name, (*size[:2], 1))
        dims = (Dim("b", size[0]), Dim("m", size[1]), Dim("n", size[2], reduced=True))
        self.ops.append(Op(name, row, dims, (self.access(read, "bmn"),), (self.access(name, "bmn"),)))

    def product(self, name, read, columns):
        batch, rows, k = self.buffers[read].size
        weight = f"w_{name}"
        self.buffers[weight] = tensor(weight, (k, columns), Role.INPUT)
        self.buffers[name] = tensor(name, (batch, rows, columns))
        dims = (Dim("b", batch), Dim("m", rows), Dim("n", columns), Dim("k", k, reduced=True))
        first, second = (rows * k, k, 0, 1), (0, 0, 1, columns)
        first = (first[0] if batch > 1 else 0, first[1] if rows > 1 else 0, *first[2:])
        accesses = Access(read, 0, first, "float16"), Access(weight, 0, second, "float16")
        target = self.access(name, "bmn")
        self.ops.append(Op(name, "batchmatmul", dims, accesses, (replace(target, strides=(*target.strides, 0)),)))


@st.composite
def programs(draw):
    shape = (draw(st.sampled_from(BATCHES)), draw(st.sampled_from(ROWS)), draw(st.sampled_from(COLUMNS)))
    grown = Growing(shape, {name: tensor(name, shape, Role.INPUT) for name in "xy"}, [])
    made = ["x", "y"]
    for number in range(draw(st.integers(2, 8))):
        name, read = f"t{number}", draw(st.sampled_from(made[-3:]))
        columns = grown.buffers[read].size[2]
        match draw(st.sampled_from(["map", "map", "map", "rows", "product"])):
            case "rows" if columns > 1:
                grown.fold(f"{name}.fold", draw(st.sampled_from(["amax", "sum"])), read)
                grown.map(name, "sub", [read, f"{name}.fold"])
            case "product" if columns > 1:
                grown.product(name, read, draw(st.sampled_from(COLUMNS)))
            case _:
                row = draw(st.sampled_from(sorted(MAPS)))
                alike = [other for other in made[-4:] if grown.buffers[other].size == grown.buffers[read].size]
                grown.map(name, row, [read, *(draw(st.sampled_from(alike)) for _ in range(MAPS[row] - 1))])
        made.append(name)
    read = {access.buffer for op in grown.ops for access in op.accesses[: -len(op.outputs)]}
    out = {made[-1], draw(st.sampled_from(made[2:]))}
    buffers = [
        replace(b, role=Role.OUTPUT) if b.role is Role.TEMP and (b.name in out or b.name not in read) else b
        for b in grown.buffers.values()
        if b.role is not Role.INPUT or b.name in read
    ]
    return Program("drawn", tuple(buffers), tuple(grown.ops))


@st.composite
def machines(draw):
    return replace(
        SPYRE,
        cores=draw(st.sampled_from([1, 2, 4, 6, 8, 16, 25, 32])),
        scratchpad_bytes_per_core=draw(st.sampled_from([96 * KIB, 256 * KIB, 2048 * KIB])),
        max_span_bytes_per_core_and_tensor=draw(st.sampled_from([64 * KIB, 512 * KIB, 65535 * 4 * KIB])),
        device_memory_bytes_per_second=draw(st.sampled_from([100e9, 204.8e9, 900e9])),
    )


@st.composite
def plannings(draw):
    flag = st.booleans()
    return Planning(
        draw(st.sampled_from(PLANNERS)),
        solver=draw(st.sampled_from(LAYOUT_SOLVERS)),
        relayout=draw(flag),
        all_ops=draw(flag),
        co_optimise=draw(flag),
        clock_tiling=draw(flag),
    )


def planned_or_rejected(program, machine):
    """Without scratchpads; a program that no core could reach over on such a machine is none to look at."""
    try:
        return pipeline.run(program, machine, Planning("documented", scratchpads=False))
    except Undividable:
        reject()


def bits(program):
    emitted = emit_bundle(program)
    return {name: array.tobytes() for name, array in results(emitted, compile_emitted(emitted), 1, 7).items()}


def sums(program):
    """How every sum is divided."""
    found = {op.name: tuple(dim.split for dim in op.dims if dim.reduced) for op, _ in listed(program.body)}
    return {name: splits for name, splits in found.items() if splits}


def check(program: Program, machine: Machine) -> None:
    assert Verifier(machine.cores, lowered=True).problems(program) == []
    capacity, limit = machine.scratchpad_planned_bytes_per_core, machine.max_span_bytes_per_core_and_tensor
    buffers = {buffer.name: buffer for buffer in program.buffers}
    inside = {name: b for name, b in buffers.items() if isinstance(b.place, InScratchpad)}
    uses = uses_of(works_of(program), buffers)
    for name, buffer in inside.items():
        views = {use.view for use in uses[name] if use.work.op.row != "shuffle"}
        assert len(views) <= 1 and all(isinstance(view, View) and view.is_whole for view in views)
        cores = next(iter(views)).cores if views else machine.cores
        assert buffer.place.byte % 128 == 0
        assert buffer.place.byte + buffer.layout.device_bytes // cores <= capacity
    for op, _ in listed(program.body):
        if op.row not in ("restickify", "identity", "relayout"):
            assert widest(op, buffers, [dim.split for dim in op.dims])[0] <= limit or machine.cores < 32
    assert check_bundle(emit_bundle(program).bundle, replace(machine, max_span_bytes_per_core_and_tensor=1 << 40)) == []


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), machines(), st.lists(plannings(), min_size=2, max_size=3))
def test_every_plan_is_sound_and_computes_the_same(program, machine, choices):
    one = replace(SPYRE, cores=1)
    wanted = {(): bits(pipeline.run(program, one, Planning("documented", scratchpads=False)))}
    plain = planned_or_rejected(program, machine)
    orders = {
        name: [op.name for op, _ in listed(pipeline.run(program, machine, Planning(name, scratchpads=False)).body)]
        for name in ("documented", "timed")
    }
    seen = {str(sums(plain)): bits(plain)}
    if all(set(splits) <= {1} for splits in sums(plain).values()):
        assert seen[str(sums(plain))] == wanted[()]
    for planning in choices:
        planned = pipeline.run(program, machine, planning)
        check(planned, machine)
        order = orders[planning.strategy]
        assert [op.name for op, _ in listed(planned.body) if op.name in set(order)] == order
        found = bits(planned)
        if all(set(splits) <= {1} for splits in sums(planned).values()):
            assert found == wanted[()], planning
        assert seen.setdefault(str(sums(planned)), found) == found, planning


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), machines(), plannings())
def test_plans_by_the_clock_are_never_slower(program, machine, planning):
    """Of one graph, however its ops are ordered and laid out: the strategy `documented` has an order and layouts of its own."""
    planned_or_rejected(program, machine)
    timed = pipeline.passes(machine, replace(planning, strategy="timed", co_optimise=False))
    documented = [step.documented if isinstance(step, PlanByClock) else step for step in timed]
    if not planning.scratchpads:
        documented = [step for step in timed if not isinstance(step, PlanByClock)]
    times = []
    for steps in (documented, timed):
        planned = reduce(lambda made, step: step.run(made), steps, program)
        # By tensors, not by addresses: which bytes of the pool were written before is chance.
        times.append(time_program(planned, machine).card_us)
    assert times[1] <= times[0] * (1 + 1e-9)


@contextmanager
def tiles_wherever_there_can_be_some():
    """Gain or not: what is asked for here is that tiles are sound."""
    with (
        patch.object(tile_search, "_SMALL", 0),
        patch.object(tile_search.Gain, "is_sure", True),
        patch.object(tile_search.Judged, "could_gain", True),
    ):
        yield


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), machines(), plannings())
def test_tiles_of_the_clock_keep_bits_and_all_rules(program, machine, planning):
    machine = replace(machine, cores=min(machine.cores, 8), scratchpad_bytes_per_core=96 * KIB)  # little room
    planned_or_rejected(program, machine)
    planning = replace(planning, strategy="timed", clock_tiling=True)
    with tiles_wherever_there_can_be_some():
        tiled = pipeline.run(program, machine, planning, verify=True)
    whole = pipeline.run(program, machine, replace(planning, clock_tiling=False))
    loops = [node for node in tiled.body if isinstance(node, Loop)]
    event(f"{len(loops)} loops")
    check(tiled, machine)
    assert sums(tiled) == sums(whole)
    assert bits(tiled) == bits(whole)
    emitted = emit_bundle(tiled)
    on_host = results(emitted, fused_on_host(emitted).program, 1, 7)
    assert {name: array.tobytes() for name, array in on_host.items()} == bits(whole)
