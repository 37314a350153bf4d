"""Calls on lists of tensors, as compiled optimizers make them, become a call per tensor: what eager does with them, too."""

from __future__ import annotations

import operator
from typing import Any

import torch

from torch_spyre.inductor.border import OpOverload
from torch_spyre.inductor.importing.fx_nodes import is_on_card, mutates
from torch_spyre.inductor.lowering.graph_lowerings import GRAPH_LOWERINGS
from torch_spyre.ops import eager

Node = torch.fx.Node
_PREFIX = "_foreach_"
_OVERLOADS = ("Scalar", "Tensor", "default", "Tensor_Scalar", "Tensor_Tensor")


def unfold(graph: torch.fx.Graph) -> None:
    """Every such call on the card whose operator has a row; others stay as they are."""
    for node in list(graph.nodes):
        target = _per_tensor(node)
        if target is None or any(user.target is not operator.getitem for user in node.users):
            continue
        for pick in list(node.users):
            place = int(pick.args[1])
            with graph.inserting_before(node):
                args, kwargs = _arguments(node, target, place)
                call = graph.call_function(target, args, kwargs)
            call.meta = {**node.meta, "val": node.meta["val"][place]}
            pick.replace_all_uses_with(call)
            graph.erase_node(pick)
        graph.erase_node(node)


def _per_tensor(node: Node) -> Any:
    """The operator that does for one tensor what a call does for a list of them."""
    if not isinstance(node.target, OpOverload):
        return None
    name = node.target.name().removeprefix("aten::").partition(".")[0]
    if not name.startswith(_PREFIX) or not is_on_card(node) or mutates(node):
        return None
    packet = getattr(torch.ops.aten, name.removeprefix(_PREFIX), None)
    found = (getattr(packet, overload, None) for overload in _OVERLOADS)
    return next((target for target in found if target is not None and _fits(target, node)), None)


def _fits(target: Any, node: Node) -> bool:
    """Whether an operator has a row and takes tensors where the call has tensors, numbers where it has numbers."""
    schema = target._schema.arguments
    if len(schema) < len(node.args) or not (eager.binding_of(str(target)) or str(target) in GRAPH_LOWERINGS):
        return False
    for place, (argument, value) in enumerate(zip(schema, node.args, strict=False)):
        takes_tensor = "Tensor" in str(argument.type)
        number_for_tensor = takes_tensor and place == 1 and target._overloadname == "Tensor"  # as in x + 1
        if takes_tensor != _is_tensor(value) and (_is_tensor(value) or not number_for_tensor):
            return False
    return True


def _is_tensor(value: Any) -> bool:
    first = value[0] if isinstance(value, (list, tuple)) else value
    return isinstance(first, Node) and isinstance(first.meta.get("val"), torch.Tensor)


def _arguments(node: Node, target: Any, place: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Lists give their item, all else is the same for every tensor; numbers go by name where the operator wants that."""
    items = [value[place] if isinstance(value, (list, tuple)) else value for value in node.args]
    schema = target._schema.arguments
    named = {a.name: item for a, item in zip(schema, items, strict=False) if a.kwarg_only}
    args = tuple(item for a, item in zip(schema, items, strict=False) if not a.kwarg_only)
    return args, {**named, **node.kwargs}
