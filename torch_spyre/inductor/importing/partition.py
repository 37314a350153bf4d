"""Which nodes of a graph go into its bundles: those that a lowering takes. Others are left to eager, with the reason in the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from openspyre.spec.sharing import shares_work
from torch_spyre.inductor.border import OpOverload, lowerings, make_fallback, post_grad, to_copy
from torch_spyre.inductor.importing.fx_nodes import Nodes, is_host_number, is_on_card, symbolic_numbers
from torch_spyre.inductor.importing.fx_reader import ALL_RESULTS, KNOWN_NUMBERS, Reader
from torch_spyre.inductor.importing.origins import origin_of
from torch_spyre.inductor.lowering.lower_call import NotImportable, Unread
from torch_spyre.inductor.lowering.lowering_cache import bound, lowered
from torch_spyre.inductor.reporting.report import GraphReport
from torch_spyre.torch_seams import wrap

Node = torch.fx.Node
_FEW = 32  # calls on the host, some microseconds each
_ANY_SIZE = 8  # of a dim that only the data knows


def is_taken(node: Node, nodes: Nodes, report: GraphReport) -> bool:
    """Whether a lowering takes the node; else it is left to eager, with the reason in the report."""
    # torch.cond and its like are Inductor's own to lower.
    facts = nodes[node]
    if not isinstance(node.target, OpOverload) or facts.passes_on:
        return False
    if not facts.is_on_card:
        if _reads_card_only(node, nodes):
            _leave_out(node, report, "it returns no tensor")
        elif node.target is to_copy and nodes.cards(node):
            _leave_to_eager(node)  # to the host
        return False
    if facts.is_empty:  # eager knows that there is nothing to do; a launch does not
        _leave_to_eager(node)
        return False
    if len(nodes.cards(node)) > 1:
        _leave_out(node, report, "its tensors lie on several cards")
        return False
    if foreign := _foreign_dtypes(node, nodes):
        _leave_out(node, report, f"the card has no format for {', '.join(foreign)}")
        return False
    likeness = nodes.likeness(node)
    if likeness in nodes.taken and shares_work():
        return True
    try:
        _import(node, nodes)
    except Unread:
        node.meta[ALL_RESULTS] = True
        return is_taken(node, nodes, report)
    except NotImportable as reason:
        if KNOWN_NUMBERS not in node.meta and symbolic_numbers(*node.all_input_nodes):
            node.meta[KNOWN_NUMBERS] = True
            return is_taken(node, nodes, report)
        _leave_out(node, report, str(reason))
        return False
    if ALL_RESULTS not in node.meta and KNOWN_NUMBERS not in node.meta:  # else one like it has to be told, too
        nodes.taken.add(likeness)
    return True


def _reads_card_only(node: Node, nodes: Nodes) -> bool:
    """Whether an operator reads tensors of the card and returns nothing: a check."""
    read = [tensor for source in node.all_input_nodes for tensor in nodes[source].tensors]
    return not node.target._schema.returns and bool(read) and all(tensor.is_on_card for tensor in read)  # type: ignore[union-attr]


def _foreign_dtypes(node: Node, nodes: Nodes) -> list[str]:
    """Dtypes that a node reads or returns and the card cannot compute with."""
    tensors = [tensor for read in (node, *node.all_input_nodes) for tensor in nodes[read].tensors]
    return sorted({tensor.dtype for tensor in tensors if tensor.is_on_card and not tensor.has_format})


def _leave_out(node: Node, report: GraphReport, reason: str) -> None:
    _leave_to_eager(node)
    report.left_out(str(node.target), reason, str(origin_of(node)))


def keep_from_compiling(graph: torch.fx.Graph, nodes: Nodes) -> None:
    """Arithmetic on a few numbers of the host, such as a learning rate's: loops of Inductor's would cost a C++ compiler's seconds."""
    numbers = [n for n in graph.nodes if n.op == "call_function" and is_host_number(n) and nodes.stays_on_host(n)]
    for node in numbers if len(numbers) <= _FEW else ():
        if isinstance(node.target, OpOverload) and not nodes[node].passes_on:
            _leave_to_eager(node)


def _leave_to_eager(node: Node) -> None:
    """Inductor must not lower it into loops of its own; what stayed whole for us has no lowering at all."""
    node.meta["should_fallback"] = True
    if node.target not in lowerings:
        make_fallback(node.target, warn=False, override_decomp=True)


def leave_late_copies() -> None:
    """Once: what a custom operator writes is copied after our pass, where Inductor cannot write in place."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def decompose_auto_functionalized(graph: torch.fx.Graph) -> Any:
            returned = original(graph)
            for node in graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default):
                if is_on_card(node):
                    _leave_to_eager(node)
            return returned

        return decompose_auto_functionalized

    wrap(post_grad, "decompose_auto_functionalized", make)


def _import(node: Node, nodes: Nodes) -> None:
    """Try a node alone, on numbers for its symbols."""
    reader = Reader(nodes)
    call = reader.call(node)
    hints = {symbol: _hint(node, symbol) for symbol in reader.symbols}
    try:
        values = [bound(value, hints) for value in reader.values]
    except (ValueError, ZeroDivisionError) as error:
        raise NotImportable(f"its sizes cannot be reckoned from the inputs' ({error})") from error
    wholes = {value.buffer: value for value in reversed(values)}  # the first that lies in a buffer describes it
    lowered(call, values, wholes, hints, nodes[node].tensors[0].device)


def _hint(node: Node, symbol: str) -> int:
    """A number to try a call with where the graph has a symbol: that of the inputs it is compiled with, if they decide it."""
    for number in symbolic_numbers(node, *node.all_input_nodes):
        for known in number.node.expr.free_symbols:
            if str(known) == symbol:
                return int(number.node.shape_env.optimization_hint(known, fallback=_ANY_SIZE))
    return _ANY_SIZE
