"""Regions that a model repeats (torch.compiler.nested_compile_region) are put back into their graph before it is bundled.

Left alone, Inductor makes a function of each and our pass a bundle in it: a launch per call. Put back, all calls are one
launch, and what is equal in them is worked out once all the same (openspyre/spec/sharing.py).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.inductor.border import OpOverload, V, compile_fx_module, invoke_subgraph, map_nodes
from torch_spyre.inductor.importing.fx_nodes import fake_tensors, has_no_elements, storage_of
from torch_spyre.torch_seams import wrap

Node = torch.fx.Node
_PLAIN = (operator.getitem, operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg)
_NEW_SIZES = "unbacked_bindings"  # in a node's meta: it makes sizes that depend on data, each call its own


def put_back_before_passes() -> None:
    """Once; Inductor's passes take subgraphs first, so ours would meet a region before the graph it stands in."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def recursive_post_grad_passes(gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            put_back(gm)
            return original(gm, *args, **kwargs)

        return recursive_post_grad_passes

    wrap(compile_fx_module, "_recursive_post_grad_passes", make)


def put_back(module: torch.fx.GraphModule) -> None:
    """Replace every call of a region on the card by the region's nodes, regions in regions too."""
    if _unfold(module):
        graph = module.graph
        graph.eliminate_dead_code()
        module.delete_all_unused_submodules()
        with V.fake_mode:
            _describe_anew(graph)
        module.recompile()


def _unfold(module: torch.fx.GraphModule) -> bool:
    """Whether there are regions; what the nodes of those put back return is not known yet."""
    calls = module.graph.find_nodes(op="call_function", target=invoke_subgraph)
    ours = [call for call in calls if any(map(_touches_card, (call, *call.all_input_nodes)))]
    for call in ours:
        region = getattr(module, str(call.args[0].target))
        if _can_be_put_back(call, region):
            _unfold(region)
            _inline(module, call, region)
    return bool(ours)


def _touches_card(node: Node) -> bool:
    return any(tensor.device.type == DEVICE_NAME for tensor in fake_tensors(node))


def _can_be_put_back(call: Node, region: torch.fx.GraphModule) -> bool:
    """Its results are picked one by one, and no size is known to its call only."""
    results = _results(region)
    return (
        all(user.target is operator.getitem for user in call.users)
        and all(isinstance(result, Node) for result in results)
        and not any(node.meta.get(_NEW_SIZES) for node in region.graph.nodes)
    )


def _results(region: torch.fx.GraphModule) -> Any:
    (results,) = region.graph.output_node().args
    return results


def _inline(module: torch.fx.GraphModule, call: Node, region: torch.fx.GraphModule) -> None:
    graph, inside = module.graph, region.graph
    known: dict[Any, Any] = dict(zip(inside.find_nodes(op="placeholder"), call.args[2:], strict=True))
    with graph.inserting_before(call):
        for node in inside.nodes:
            if node.op not in ("placeholder", "output"):
                known[node] = graph.node_copy(node, known.__getitem__)
                if node.op == "get_attr":
                    known[node].target = _adopt(module, region, str(node.target))
    results = _results(region)
    for pick in list(call.users):
        pick.replace_all_uses_with(known[results[pick.args[1]]])
        graph.erase_node(pick)
    graph.erase_node(call)


def _describe_anew(graph: torch.fx.Graph) -> None:
    """What nodes return here. torch describes a region's results once for all its calls, as if these shared memory."""
    seen: set[int] = set()
    for node in graph.nodes:
        if node.op == "placeholder":  # results that a backward was given; inputs that really share memory are only read
            node.meta["val"] = _apart(node.meta.get("val"), seen)
        elif node.target is invoke_subgraph:
            node.meta["val"] = tuple(_apart(value, seen) for value in node.meta["val"])
        elif (isinstance(node.target, OpOverload) or node.target in _PLAIN) and not node.meta.get(_NEW_SIZES):
            args, kwargs = map_nodes((node.args, node.kwargs), lambda source: source.meta.get("val"))
            node.meta["val"] = node.target(*args, **kwargs)


def _apart(value: Any, seen: set[int]) -> Any:
    """A value whose memory no other node has."""
    if not isinstance(value, torch.Tensor) or has_no_elements(value):
        return value
    if storage_of(value) in seen:
        reach = sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
        room = torch.empty(value.storage_offset() + reach + 1, dtype=value.dtype, device=value.device)
        value = room.as_strided(value.shape, value.stride(), value.storage_offset())
    seen.add(storage_of(value))
    return value


def _adopt(module: torch.fx.GraphModule, region: torch.fx.GraphModule, name: str) -> str:
    """The graph holds what a region held: a constant, or the graph of a branch."""
    held: Any = region
    for part in name.split("."):
        held = getattr(held, part)
    for existing, value in (*module.named_children(), *module.named_buffers(), *vars(module).items()):
        if value is held:
            return str(existing)
    fresh = f"_region{sum(1 for attribute in dir(module) if attribute.startswith('_region'))}_{name.replace('.', '_')}"
    setattr(module, fresh, held)
    return fresh
