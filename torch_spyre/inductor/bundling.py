"""Our pass on Inductor's graph: nodes that eager serves natively are gathered into bundles, each one node of the graph.

A node that no lowering takes stays where it is and runs as eager runs it. Bundles and such nodes come in levels: a bundle holds
all nodes of its level that the graph's order allows, so that only what is left out cuts a graph into several launches.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from time import perf_counter

import torch

from openspyre.spec.errors import UnsupportedFormat
from openspyre.spec.formats import DataFormats, get_device_dtype
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.inductor.border import OpOverload, OrderedSet, lowerings, make_fallback
from torch_spyre.inductor.constants import constant_on_card, move_constants
from torch_spyre.inductor.foreach import unfold
from torch_spyre.inductor.fragments import bound, lowered
from torch_spyre.inductor.fx_reader import (
    ALL_RESULTS,
    KNOWN_NUMBERS,
    Reader,
    fake_tensors,
    has_no_elements,
    is_empty,
    is_host_number,
    is_number_of_sizes,
    is_on_card,
    is_view,
    mutates,
    origin_of,
    reads_card_only,
    stays_on_host,
    storage_of,
    symbolic_numbers,
)
from torch_spyre.inductor.garbage import without_collections
from torch_spyre.inductor.graph import Graph
from torch_spyre.inductor.kernel import launch_bundle
from torch_spyre.inductor.library import keep
from torch_spyre.inductor.report import GraphReport
from torch_spyre.inductor.splicing import NotImportable, Unread
from torch_spyre.inductor.views import keep_sources, name_views, separate_inputs

Node = torch.fx.Node
_FEW = 32  # calls on the host, some microseconds each


@dataclass(slots=True)
class _Plan:
    """What becomes of the nodes: `level` of every node, `taken` those that go into the bundle of their level."""

    level: dict[Node, int] = field(default_factory=dict)
    taken: set[Node] = field(default_factory=set)
    owner: dict[int, Node] = field(default_factory=dict)  # storage -> the node that made it
    after: dict[Node, list[Node]] = field(default_factory=dict)  # order that writes in place ask for, beyond uses
    launch_of: dict[Node, Node] = field(default_factory=dict)  # node that was taken -> the node of its bundle


@without_collections()
def bundle(module: torch.fx.GraphModule, report: GraphReport) -> None:
    """Rewrite a graph in place."""
    start = perf_counter()
    graph = module.graph
    separate_inputs(graph)
    move_constants(module)
    unfold(graph)
    keep_sources(graph)
    _keep_from_compiling(graph)
    plan = _plan(graph, report)
    nodes = list(graph.nodes)
    for level in sorted({plan.level[node] for node in plan.taken}):
        members = [node for node in nodes if node in plan.taken and plan.level[node] == level]
        _replace(graph, members, plan, report)
    for node in reversed(nodes):
        if not node.users and (node in plan.taken or _passes_on(node)):
            graph.erase_node(node)
    _in_order(graph, plan)
    graph.eliminate_dead_code()
    name_views(graph)
    module.recompile()
    report.import_seconds = perf_counter() - start


# --- what goes where -----------------------------------------------------------------------------------------------------


def _plan(graph: torch.fx.Graph, report: GraphReport) -> _Plan:
    plan = _Plan()
    touched: dict[int, list[Node]] = {}  # storage -> nodes that read or wrote it, in order
    changed: dict[int, Node] = {}  # storage -> the last node that wrote it in place
    for node in graph.nodes:
        storages = {storage_of(t) for source in node.all_input_nodes for t in fake_tensors(source)}
        after = [changed[s] for s in storages if s in changed]
        written = {storage_of(tensor) for tensor in fake_tensors(node.args[0])} if mutates(node) else set()
        after += [reader for s in written for reader in touched.get(s, ())]
        if after:
            plan.after[node] = after
        if _try(node, report):
            plan.taken.add(node)
        plan.level[node] = max(
            (_level_after(plan, node, earlier) for earlier in (*node.all_input_nodes, *after)), default=0
        )
        for storage in storages:
            touched.setdefault(storage, []).append(node)
        changed |= dict.fromkeys(written, node)
        for tensor in fake_tensors(node):
            plan.owner.setdefault(storage_of(tensor), node)
    return plan


def _level_after(plan: _Plan, node: Node, earlier: Node) -> int:
    """Bundles of a level run before the nodes left out at that level; a bundle that needs those is one level up."""
    there = earlier.op != "call_function" or earlier.target is constant_on_card or _passes_on(earlier)
    there = there or (bool(fake_tensors(earlier)) and is_empty(earlier))  # there is nothing to wait for
    left_out = earlier not in plan.taken and not there and not stays_on_host(earlier)
    waits = node in plan.taken or _passes_on(node) or stays_on_host(node)
    return plan.level[earlier] + (1 if left_out and waits else 0)


def _passes_on(node: Node) -> bool:
    """Nodes that compute nothing on the card and stay where they are: views, parts of results, numbers from sizes."""
    return is_view(node) or node.target is operator.getitem or is_number_of_sizes(node)


def _try(node: Node, report: GraphReport) -> bool:
    """Whether a lowering takes the node; else it is left to eager, with the reason in the report."""
    # torch.cond and its like are Inductor's own to lower.
    if not isinstance(node.target, OpOverload) or _passes_on(node):
        return False
    if not is_on_card(node):
        if reads_card_only(node):
            _leave_out(node, report, "it returns no tensor")
        return False
    if is_empty(node):  # eager knows that there is nothing to do; a launch would need something to be done
        _leave_to_eager(node)
        return False
    try:
        _import(node)
    except Unread:
        node.meta[ALL_RESULTS] = True
        return _try(node, report)
    except NotImportable as reason:
        if KNOWN_NUMBERS not in node.meta and symbolic_numbers(*node.all_input_nodes):
            node.meta[KNOWN_NUMBERS] = True
            return _try(node, report)
        _leave_out(node, report, str(reason))
        return False
    return True


def _leave_out(node: Node, report: GraphReport, reason: str) -> None:
    for tensor in fake_tensors(node) if node.users else ():
        if tensor.device.type == DEVICE_NAME and get_device_dtype(tensor.dtype) is DataFormats.INVALID:
            raise UnsupportedFormat(
                f"{node.target} makes a tensor of {tensor.dtype} [{'x'.join(map(str, tensor.shape))}] on spyre, "
                f"which holds no such numbers ({origin_of(node)}); compute this part in float32, or on the CPU after x.cpu()"
            )
    _leave_to_eager(node)
    report.left_out(str(node.target), reason, origin_of(node))


def _keep_from_compiling(graph: torch.fx.Graph) -> None:
    """Arithmetic on a few numbers of the host, such as a learning rate's: loops of Inductor's would cost a C++ compiler's seconds."""
    numbers = [n for n in graph.nodes if n.op == "call_function" and is_host_number(n) and stays_on_host(n)]
    for node in numbers if len(numbers) <= _FEW else ():
        if isinstance(node.target, OpOverload) and not is_view(node):
            _leave_to_eager(node)


def _leave_to_eager(node: Node) -> None:
    """Inductor must not lower it into loops of its own; what stayed whole for us has no lowering at all."""
    node.meta["should_fallback"] = True
    if node.target not in lowerings:
        make_fallback(node.target, warn=False, override_decomp=True)


def _import(node: Node) -> None:
    """Try a node alone, on numbers for its symbols."""
    reader = Reader()
    call = reader.call(node)
    hints = {symbol: _hint(node, symbol) for symbol in reader.symbols}
    try:
        values = [bound(value, hints) for value in reader.values]
    except (ValueError, ZeroDivisionError) as error:
        raise NotImportable(f"its sizes cannot be reckoned from the inputs' ({error})") from error
    wholes = {value.buffer: value for value in reversed(values)}  # the first that lies in a buffer describes it
    lowered(call, values, wholes, hints, fake_tensors(node)[0].device)


def _hint(node: Node, symbol: str) -> int:
    """A number to try a call with where the graph has a symbol: that of the inputs it is compiled with, if they decide it."""
    for number in symbolic_numbers(node, *node.all_input_nodes):
        for known in number.node.expr.free_symbols:
            hint = number.node.shape_env.size_hint(known, allow_none=True) if str(known) == symbol else None
            if hint is not None:
                return int(hint)
    return 8


# --- one bundle ----------------------------------------------------------------------------------------------------------


def _replace(graph: torch.fx.Graph, members: list[Node], plan: _Plan, report: GraphReport) -> None:
    inside = set(members)
    reader = Reader()
    made = {storage_of(tensor) for node in members if not mutates(node) for tensor in fake_tensors(node)}
    sources: OrderedSet[Node] = OrderedSet()
    for node in members:
        for source in node.all_input_nodes:
            for tensor in fake_tensors(source):
                on_card = tensor.device.type == DEVICE_NAME
                if on_card and storage_of(tensor) not in made and not has_no_elements(tensor):
                    sources.add(_whole(plan.owner[storage_of(tensor)], source))
    updated = {storage_of(fake_tensors(node.args[0])[0]) for node in members if mutates(node)}
    results = [node for node in members if not mutates(node) and _read_outside(node, inside)]
    parts = [part for node in results for part in _parts(node, inside)]
    inputs = tuple(reader.value(fake_tensors(node)[0], node.name) for node in sources)  # first: they name their buffers
    calls = tuple(reader.call(node) for node in members)
    outputs = tuple(reader.value(fake, name) for _, fake, name in parts)
    imported = Graph(
        name=report.graph,
        symbols=tuple(sorted(reader.symbols)),
        values=tuple(reader.values),
        calls=calls,
        inputs=inputs,
        updated=tuple(number for number, node in zip(inputs, sources, strict=True)
                      if storage_of(fake_tensors(node)[0]) in updated),
        outputs=outputs,
        numbers=len(reader.numbers),
    )  # fmt: skip
    key, kept = keep(imported)
    report.bundle(key, imported)
    with graph.inserting_before(members[-1]):
        symbols = [_symbol(graph, symbol) for symbol in imported.symbols]
        places = [place for place, number in enumerate(inputs) if number in imported.updated]
        launch = graph.call_function(launch_bundle, (key, list(sources), places, symbols, reader.numbers))
        launch.meta |= {"val": tuple(fake for _, fake, _ in parts), "spyre_graph": kept}
        plan.launch_of |= dict.fromkeys(members, launch)
        launch.meta["stack_trace"] = members[-1].meta.get("stack_trace")
        for place, (node, fake, _) in enumerate(parts):
            part = graph.call_function(operator.getitem, (launch, place))
            part.meta["val"] = fake
            plan.owner[storage_of(fake)] = part
            node.replace_all_uses_with(part, delete_user_cb=lambda user: user not in inside)
    for node in members:
        if mutates(node):
            node.replace_all_uses_with(node.args[0])


def _whole(owner: Node, source: Node) -> Node:
    """The node to pass for a storage: its owner, or, where that returned several tensors, the one that was read."""
    return owner if isinstance(owner.meta.get("val"), torch.Tensor) else source


def _read_outside(node: Node, inside: set[Node]) -> bool:
    """Whether a node's storage is needed by anything but the bundle, perhaps through views."""
    return any(user not in inside and (not _passes_on(user) or _read_outside(user, inside)) for user in node.users)


def _parts(node: Node, inside: set[Node]) -> list[tuple[Node, torch.Tensor, str]]:
    """(node to replace, its tensor, name of its buffer) per tensor that is needed outside."""
    value = node.meta["val"]
    if isinstance(value, torch.Tensor):
        return [(node, value, node.name)]
    picks = [user for user in node.users if user.target is operator.getitem and _read_outside(user, inside)]
    return [(pick, value[pick.args[1]], f"{node.name}.{pick.args[1]}") for pick in picks]


def _symbol(graph: torch.fx.Graph, symbol: str) -> Node:
    """A node whose value is the symbol."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and str(value.node.expr) == symbol:
            return node
    for node in graph.find_nodes(op="placeholder"):
        for tensor in fake_tensors(node):
            for dim, extent in enumerate(tensor.shape):
                if isinstance(extent, torch.SymInt) and str(extent.node.expr) == symbol:
                    size = graph.call_function(torch.ops.aten.sym_size.int, (node, dim))
                    size.meta["val"] = extent
                    return size
    raise NotImportable(f"no input of the graph has the size {symbol}")


def _in_order(graph: torch.fx.Graph, plan: _Plan) -> None:
    """Definitions before uses again, reads before the writes in place that follow them; otherwise as before."""
    earlier: dict[Node, set[Node]] = {node: set(node.all_input_nodes) for node in graph.nodes}
    for node, others in plan.after.items():
        behind = plan.launch_of.get(node, node)
        known = {plan.launch_of.get(other, other) for other in others}
        earlier.get(behind, set()).update(other for other in known if other in earlier and other is not behind)
    placed: set[Node] = set()
    pending: list[Node] = list(graph.nodes)
    previous = graph._root
    while pending:
        waiting = []
        for node in pending:
            if earlier[node] <= placed and (node.op != "output" or not waiting):
                placed.add(node)
                previous.append(node)
                previous = node
            else:
                waiting.append(node)
        pending = waiting
