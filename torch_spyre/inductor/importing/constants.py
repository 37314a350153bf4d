"""Tensors that a graph holds itself: moved to the card once, when the graph is compiled, and inputs of its launches.

Left alone, Inductor would write small ones into loops of its own, on the card or, with a C++ compiler, on the host.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.inductor.border import V, ir
from torch_spyre.inductor.importing.fx_nodes import mutates

Node = torch.fx.Node
_SMALL_BYTES = 1 << 16
_MOVES = (
    "aten.lift_fresh_copy.default",
    "prims.device_put.default",
    "aten._to_copy.default",
    "prims.convert_element_type.default",
)


def constant_on_card(name: str) -> Any:
    """The lowering of such a node: a constant of the generated code, seen through a view.

    Inductor describes the results of an operator that is left to eager by running it on fakes, and on constants as they are.
    """
    held = V.graph.module
    for part in name.split("."):
        held = getattr(held, part)
    box = V.graph.add_tensor_constant(held, name)
    return ir.TensorBox(ir.ReinterpretView(data=box.data, layout=box.get_layout()))


constant_on_card._inductor_lowering_function = True  # type: ignore[attr-defined]


def move_constants(module: torch.fx.GraphModule) -> None:
    """Replace every constant that ends on the card, and its way there."""
    for node in list(module.graph.find_nodes(op="get_attr")):
        held = _held(module, str(node.target))
        if isinstance(held, torch.Tensor):
            for end in _ends(node):
                _replace(module, end, held)


def known_values(node: Node) -> bytes | None:
    """What an integer constant holds, if it is small: the compiler computes with it, as the hardware cannot."""
    if node.target is not constant_on_card or node.graph.owning_module is None:
        return None
    held = _held(node.graph.owning_module, str(node.args[0]))
    if held.is_floating_point() or held.is_complex() or held.nbytes > _SMALL_BYTES:
        return None
    return bytes(held.cpu().contiguous().numpy().tobytes())


def _held(module: torch.nn.Module, name: str) -> Any:
    held: Any = module
    for part in name.split("."):
        held = getattr(held, part, None)
    return held


def _ends(node: Node) -> list[Node]:
    """The nodes at which a constant's way (copies, moves, casts) ends on the card."""
    onward = [user for user in node.users if str(user.target) in _MOVES and user.args[0] is node]
    found = [end for user in onward for end in _ends(user)]
    others = len(onward) < len(node.users)
    return found + ([node] if others and _on_card(node) else [])


def _on_card(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE_NAME


def _replace(module: torch.fx.GraphModule, end: Node, held: torch.Tensor) -> None:
    """A copy is made at every launch only where somebody might write into it."""
    graph, value = module.graph, end.meta["val"]
    name = f"_card_constant{sum(1 for attribute in dir(module) if attribute.startswith('_card_constant'))}"
    setattr(module, name, held.detach().to(device=value.device, dtype=value.dtype).contiguous())
    with graph.inserting_before(end):
        constant = graph.call_function(constant_on_card, (name,))
        constant.meta["val"] = value
        if _may_be_written(end):
            constant = graph.call_function(torch.ops.aten.clone.default, (constant,))
            constant.meta["val"] = torch.empty_like(value)
    end.replace_all_uses_with(constant)
    way: Any = end
    while isinstance(way, Node) and not way.users:
        way, done = (way.args[0] if way.args else None), way
        graph.erase_node(done)


def _may_be_written(node: Node) -> bool:
    return any(user.op == "output" or mutates(user) or _may_be_written(user) for user in node.users if _shares(user))


def _shares(user: Node) -> bool:
    """Whether a user hands the memory on: the caller, writes in place, views."""
    return user.op == "output" or mutates(user) or getattr(user.target, "is_view", False)
