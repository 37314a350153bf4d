"""Equal calls are lowered once: what is shared must be what each call would have become alone."""

import itertools
import warnings

import pytest
import torch

from openspyre.spec.origin import Origin
from openspyre.spec.sharing import Memo, nothing_shared
from torch_spyre.inductor.graph import Graph, GraphCall, Ref, Value

with warnings.catch_warnings():  # Inductor warns of its own deprecations while it loads
    warnings.simplefilter("ignore")
    from torch_spyre.inductor.lowering import lowering_cache
    from torch_spyre.inductor.lowering.expand import expand

pytestmark = pytest.mark.filterwarnings("ignore")
SPYRE = torch.device("spyre")


def _value(buffer, *size, dtype="float16"):
    stride = tuple(itertools.accumulate(reversed((*size[1:], 1)), lambda a, b: a * b))[::-1]
    return Value(buffer, dtype, size, stride)


def _chain(*calls):
    """x goes through the calls one after the other, each with its number as the second argument."""
    values = tuple(_value(f"v{place}", 4, 64) for place in range(len(calls) + 1))
    made = tuple(
        GraphCall(target, (Ref(place), *rest), (place + 1,), Origin("model.py", place))
        for place, (target, *rest) in enumerate(calls)
    )
    return Graph("chain", (), values, made, (0,), (), (len(calls),))


@pytest.fixture
def lowerings(monkeypatch):
    """Counts the calls that are lowered."""
    seen = []
    monkeypatch.setattr(lowering_cache, "_known", Memo())
    lower = lowering_cache._lower
    monkeypatch.setattr(lowering_cache, "_lower", lambda described: seen.append(described.target) or lower(described))
    return seen


def test_equal_calls_are_lowered_once_and_keep_their_own_names_and_lines(lowerings):
    layer = (("aten.gelu.default", "none"), ("aten.silu.default",), ("aten._softmax.default", -1, False))
    program = expand(_chain(*layer * 4), {}, SPYRE).program
    assert sorted(lowerings) == sorted(target for target, *_ in layer)
    assert len({op.name for op in program.ops}) == len(program.ops)
    lines = [op.origin.line for op in program.ops]
    assert lines == sorted(lines) and set(lines) == set(range(12))
    assert len({buffer.name for buffer in program.buffers}) == len(program.buffers)


def test_what_is_shared_equals_what_is_lowered_anew():
    graph = _chain(*(("aten.gelu.default", "none"), ("aten._softmax.default", -1, False), ("aten.relu.default",)) * 3)
    shared = expand(graph, {}, SPYRE)

    with nothing_shared():
        assert expand(graph, {}, SPYRE) == shared


def test_numbers_that_python_calls_equal_stay_apart():
    x = torch.ones(3, 64, dtype=torch.float32, device="spyre")

    @torch.compile
    def f(x):
        return x * 0.0, x * -0.0, torch.full_like(x, -0.0), torch.full_like(x, 0.0)

    signs = [torch.signbit(y.cpu()).any().item() for y in f(x)]
    assert signs == [False, True, True, False]


def test_a_call_that_nothing_lowers_says_so_every_time(lowerings):
    graph = _chain(("aten.nonzero.default",))
    for _ in range(2):
        with pytest.raises(lowering_cache.NotImportable, match="nonzero"):
            expand(graph, {}, SPYRE)
    assert len(lowerings) == 1


def test_operands_that_share_a_buffer_are_not_taken_for_two(lowerings):
    values = (_value("x", 4, 64), _value("y", 4, 64), _value("sum", 4, 64), _value("twice", 4, 64))
    calls = (
        GraphCall("aten.add.Tensor", (Ref(0), Ref(1), 1), (2,)),
        GraphCall("aten.add.Tensor", (Ref(0), Ref(0), 1), (3,)),
    )
    program = expand(Graph("aliased", (), values, calls, (0, 1), (), (2, 3)), {}, SPYRE).program
    read = [[access.buffer for access in op.accesses] for op in program.ops]
    assert read == [["x", "y", "sum"], ["x", "x", "twice"]] and len(lowerings) == 2
