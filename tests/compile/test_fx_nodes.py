"""Nodes that are alike: only those of which a lowering that takes one takes the other."""

import operator
import warnings

import pytest
import torch

with warnings.catch_warnings():  # Inductor warns of its own deprecations while it loads
    warnings.simplefilter("ignore")
    from torch_spyre.inductor.importing.fx_nodes import Nodes

aten = torch.ops.aten


def tensor(*size, dtype=torch.float16):
    return torch.empty(size, dtype=dtype, device="meta")


def node(target, *given, result=None, **named):
    """A call in a graph of its own, tensors among its arguments being inputs."""
    graph = torch.fx.Graph()

    def argument(value):
        if isinstance(value, list):
            return [argument(item) for item in value]
        if not isinstance(value, torch.Tensor):
            return value
        made = graph.placeholder("x")
        made.meta["val"] = value
        return made

    call = graph.call_function(target, tuple(map(argument, given)), named)
    call.meta["val"] = tensor(4, 64) if result is None else result
    return call


def reading(call, *places):
    """The call with these of its results in use."""
    for place in places:
        call.graph.call_function(operator.getitem, (call, place))
    return call


def alike(one, other):
    nodes = Nodes()
    return nodes.likeness(one) == nodes.likeness(other)


def test_names_and_storages_make_no_difference():
    assert alike(node(aten.add.Tensor, tensor(4, 64), tensor(64)), node(aten.add.Tensor, tensor(4, 64), tensor(64)))
    assert alike(node(aten.cat.default, [tensor(2, 64)] * 2, 0), node(aten.cat.default, [tensor(2, 64)] * 2, 0))


X, ONE = tensor(4, 64), node(aten.add.Tensor, tensor(4, 64), tensor(4, 64), alpha=1)


@pytest.mark.parametrize(
    "other",
    [
        node(aten.sub.Tensor, tensor(4, 64), tensor(4, 64), alpha=1),
        node(aten.add.Tensor, X, X, alpha=1),
        node(aten.add.Tensor, tensor(4, 64), tensor(1, 64), alpha=1),
        node(aten.add.Tensor, tensor(4, 64), tensor(64, 4).T, alpha=1),
        node(aten.add.Tensor, tensor(4, 64), tensor(5, 64)[1:], alpha=1),
        node(aten.add.Tensor, tensor(4, 64), tensor(4, 64, dtype=torch.float32), alpha=1),
        node(aten.add.Tensor, tensor(4, 64), tensor(4, 64), alpha=1.0),
        node(aten.add.Tensor, tensor(4, 64), tensor(4, 64), alpha=True),
        node(aten.add.Tensor, tensor(4, 64), tensor(4, 64)),
        node(aten.add.Tensor, tensor(4, 64), tensor(4, 64), alpha=1, result=tensor(64, 4).T),
    ],
    ids=["operator", "one storage", "size", "stride", "offset", "dtype", "float", "truth", "default", "result"],
)
def test_whatever_a_lowering_may_look_at_makes_one(other):
    assert not alike(ONE, other)


def test_which_results_are_read_makes_one():
    calls = [node(aten.max.dim, tensor(4, 64), 1, result=(tensor(4), tensor(4))) for _ in range(3)]
    assert alike(reading(calls[0], 0, 1), reading(calls[1], 1, 0))
    assert not alike(calls[0], reading(calls[2], 1))
