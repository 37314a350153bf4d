"""Every switch of scratchpads and pool is seen in what is compiled while it is set, and is part of the key that names it on disk."""

import re
import warnings

import pytest
import torch

from openspyre.compiler.ir import InScratchpad
from openspyre.spec import retired
from openspyre.spec.environment import Settings
from openspyre.spec.errors import InvalidArgument, OptionWarning
from openspyre.spec.planning import Planning
from torch_spyre._inductor import OPTIONS_WITHOUT_EFFECT, config
from torch_spyre.ops.programs import planned_machine, planning

pytestmark = pytest.mark.filterwarnings("ignore")
_WIDTHS = iter(range(64, 64 * 999, 64))  # another shape for every call: what is compiled already stays


def chain(x):
    """Seven results that live one after the other, of which relu's and sigmoid's are not in the documents' list."""
    for _ in range(3):
        x = torch.sigmoid(torch.relu(x + 1.0))
    return x * 2.0


def softmax(x):
    return torch.softmax(x, -1)


def compiled(lowered, function=chain, **options):
    """The program that a function becomes with these options."""
    torch.compiler.reset()
    lowered.clear()
    with config.patch(**options):
        torch.compile(function)(torch.ones(64, next(_WIDTHS)).half().to("spyre"))
    (program,) = lowered
    return program


def inside(program):
    return {buffer.name for buffer in program.buffers if isinstance(buffer.place, InScratchpad)}


def test_lx_planning(lowered):
    assert inside(compiled(lowered, softmax))
    assert not inside(compiled(lowered, softmax, lx_planning=False))


def test_dxp_lx_frac_avail(lowered):
    assert not inside(compiled(lowered, softmax, dxp_lx_frac_avail=1.0))
    with config.patch(dxp_lx_frac_avail=1.5), pytest.raises(InvalidArgument, match="a fraction, from 0 to 1"):
        planned_machine()


def test_allow_all_ops_in_lx_planning(lowered):
    """Of the documented planner; plans by the clock have no such list."""
    few, all_ = (
        inside(compiled(lowered, allow_all_ops_in_lx_planning=on, planner="documented")) for on in (False, True)
    )
    assert len(few) < len(all_)
    assert len(inside(compiled(lowered))) == len(all_)


def test_layout_solver(lowered):
    """First fit has the tensors of most uses for their life at the bottom, greedy those that begin first."""

    def places(solver):
        program = compiled(lowered, softmax, layout_solver=solver)
        return [(b.place.byte > 0) for b in program.buffers if isinstance(b.place, InScratchpad)]

    assert places("greedy") != places("firstfit")
    with config.patch(layout_solver="magic"), pytest.raises(InvalidArgument, match="'magic': one of greedy, firstfit"):
        planning()


def test_co_optimizing_lx_planning(lowered):
    """A map behind a product: 12800 columns are 200 sticks, which alone go to 25 cores; as the product is divided, they go to 32."""

    def gate(x, w):
        return torch.neg(x @ w) * 2.0

    def divisions(k, **options):
        torch.compiler.reset()
        lowered.clear()
        with config.patch(planner="documented", **options):
            torch.compile(gate)(*(torch.ones(size).half().to("spyre") for size in ((128, k), (k, 12800))))
        (program,) = lowered
        return {op.row: tuple(dim.split for dim in op.dims if not dim.reduced) for op in program.ops}, inside(program)

    alone, few = divisions(256)
    joint, more = divisions(320, co_optimizing_lx_planning=True)
    assert alone["neg"] == (1, 25) and joint["neg"] == joint["batchmatmul"]
    assert few < more


def test_hbm_pool_planning(lowered):
    shared, apart = (compiled(lowered, hbm_pool_planning=on, planner="documented") for on in (True, False))
    per_temp = [program.buffer("relu").layout.device_bytes for program in (shared, apart)]
    counts = [program.pool_bytes // bytes_ for program, bytes_ in zip((shared, apart), per_temp, strict=True)]
    assert counts[0] < counts[1]


def test_planner(lowered):
    """As the documents plan it, no byte of the pool rests."""
    timed, documented = (compiled(lowered, lx_planning=False, planner=name) for name in ("timed", "documented"))
    counts = [program.pool_bytes // program.buffer("relu").layout.device_bytes for program in (timed, documented)]
    assert counts[1] == 2 < counts[0]
    with config.patch(planner="hasty"), pytest.raises(InvalidArgument, match="'hasty': one of timed, documented"):
        planning()


def test_lx_planner_relayout():
    with config.patch(lx_planner_relayout=False):
        assert planning() == Planning(relayout=False)
    assert planning() == Planning()


def test_global_stick_optimizer(lowered):
    """A result whose rows lie on sticks, as its operands' do, needs nothing moved; by itself it would have its columns there."""

    def function(x):
        return (x @ x.t()).t() + (x + 1.0)[:, :64].t()

    rows = [[op.row for op in compiled(lowered, function, global_stick_optimizer=on).ops] for on in (True, False)]
    assert rows[0].count("restickify") < rows[1].count("restickify")


def test_disable_copy_opt(lowered):
    def function(x):
        return torch.cat([x + 1.0, torch.relu(x)])

    counts = [len(compiled(lowered, function, disable_copy_opt=on).ops) for on in (False, True)]
    assert counts[1] - counts[0] == 2


@pytest.mark.parametrize("option", sorted(OPTIONS_WITHOUT_EFFECT - {"co_optimizing_lx_planning"}))
def test_options_that_are_none_any_more_say_why(option):
    other = {True: False, False: True}.get(getattr(config, option), 7)
    reason = re.escape(retired.OPTIONS[option].reason)
    told = pytest.warns(OptionWarning, match=f"config.{option}={other}: it has no effect: {reason}")
    with told, config.patch({option: other}):
        assert getattr(config, option) == other
    with warnings.catch_warnings(action="error"), config.patch({option: getattr(config, option)}):
        pass


@pytest.mark.parametrize(
    ("variable", "value", "planned"),
    [
        ("LX_PLANNING", "0", Planning(scratchpads=False)),
        ("LAYOUT_SOLVER", "bestfit", Planning(solver="bestfit")),
        ("CO_OPTIMIZING_LX_PLANNING", "1", Planning(co_optimise=True)),
        ("SPYRE_LX_PLANNER_RELAYOUT", "0", Planning(relayout=False)),
        ("HBM_POOL_PLANNING", "0", Planning(pool=False)),
        ("GLOBAL_STICK_OPTIMIZER", "0", Planning(whole_layouts=False)),
        ("DISABLE_COPY_OPT", "1", Planning(drop_copies=False)),
        ("SPYRE_INDUCTOR_IGNORE_HINTS", "1", Planning(ignore_hints=True)),
        ("SPYRE_INDUCTOR_ENABLE_REDUCTION_TILING", "0", Planning(reduction_tiling=False)),
        ("SPYRE_INDUCTOR_IGNORE_SPAN_OVERFLOW_HINTS", "0", Planning(span_tiling=True)),
        ("OPENSPYRE_PLANNER", "documented", Planning(strategy="documented")),
        ("OPENSPYRE_CLOCK_TILING", "0", Planning(clock_tiling=False)),
    ],
)
def test_environment_variables(variable, value, planned):
    assert Settings.read({}).planning == Planning()
    assert Settings.read({variable: value}).planning == planned


def test_the_part_that_the_back_end_keeps_is_the_machines():
    planned = [
        Settings.read({"DXP_LX_FRAC_AVAIL": text}).machine.scratchpad_planned_bytes_per_core for text in ("0", "0.2")
    ]
    assert planned == [2_031_616, 1_625_344]


OPTIONS = [
    {},
    {"lx_planning": False},
    {"layout_solver": "exact"},
    {"lx_planner_relayout": False},
    {"co_optimizing_lx_planning": True},
    {"hbm_pool_planning": False},
    {"ignore_hints": True},
    {"global_stick_optimizer": False},
    {"disable_copy_opt": True},
    {"enable_reduction_tiling": False},
    {"ignore_span_overflow_hints": False},
    {"clock_tiling": False},
]
OPTIONS += [{"planner": "documented"}, {"dxp_lx_frac_avail": 0.5}, {"allow_all_ops_in_lx_planning": True}]


def test_options_are_part_of_the_name_on_disk(monkeypatch):
    """The same graph, asked for with other options, is another file."""
    from torch_spyre.inductor.launching import specialise

    launches, find = [], specialise._Launch.find
    monkeypatch.setattr(specialise._Launch, "find", lambda launch: (launches.append(launch), find(launch))[1])
    torch.compile(softmax)(torch.ones(64, next(_WIDTHS)).half().to("spyre"))
    names = set()
    for options in OPTIONS:
        with config.patch(**options):
            names.add(launches[0].request())
    assert len(names) == len(OPTIONS)
