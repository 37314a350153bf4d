"""Our pass on Inductor's graph: nodes that eager serves natively are gathered into bundles, each one node of the graph.

A node that no lowering takes stays where it is and runs as eager runs it. Bundles and such nodes come in levels: a bundle holds
all nodes of its level that the graph's order allows, so that only what is left out cuts a graph into several launches.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import torch

from openspyre.spec.errors import InternalError
from openspyre.spec.packing import packed
from torch_spyre.inductor.border import OrderedSet, tree_leaves
from torch_spyre.inductor.cpython_tuning import with_room_for_frames, without_collections
from torch_spyre.inductor.graph import Graph, GraphCall
from torch_spyre.inductor.graph_registry import keep
from torch_spyre.inductor.importing.constants import constant_on_card, known_values, move_constants
from torch_spyre.inductor.importing.crossing_names import names_of_outputs
from torch_spyre.inductor.importing.foreach import unfold
from torch_spyre.inductor.importing.fx_nodes import Nodes, draws_numbers, fake_tensors, storage_of
from torch_spyre.inductor.importing.fx_reader import Reader
from torch_spyre.inductor.importing.hints import Names, Scopes, growth_of, names_of_input, names_of_result
from torch_spyre.inductor.importing.partition import is_taken, keep_from_compiling
from torch_spyre.inductor.importing.sizes import read_sizes_off_inputs, size_of_input
from torch_spyre.inductor.importing.views import keep_sources, name_views, separate_inputs
from torch_spyre.inductor.launching.kernel import STACK_TRACES, launch_bundle
from torch_spyre.inductor.lowering.lower_call import NotImportable
from torch_spyre.inductor.reporting.report import GraphReport

Node = torch.fx.Node


@dataclass(slots=True)
class _Plan:
    """What becomes of the nodes: `level` of every node, `taken` those that go into the bundle of their level."""

    nodes: Nodes = field(default_factory=Nodes)
    level: dict[Node, int] = field(default_factory=dict)
    taken: set[Node] = field(default_factory=set)
    owner: dict[int, Node] = field(default_factory=dict)  # storage -> the node that made it
    after: dict[Node, list[Node]] = field(default_factory=dict)  # order that writes in place ask for, beyond uses
    launch_of: dict[Node, Node] = field(default_factory=dict)  # node that was taken -> the node of its bundle
    scopes: Scopes = field(default_factory=lambda: Scopes(torch.fx.Graph()))
    names: dict[Node, Names] = field(default_factory=dict)  # of dims of what launches have made

    def launch(self, node: Node) -> tuple[int, int]:
        """Level and card of a node that was taken: one launch."""
        return self.level[node], self.nodes[node].tensors[0].device.index or 0


@with_room_for_frames
@without_collections()
def bundle(module: torch.fx.GraphModule, report: GraphReport) -> None:
    """Rewrite a graph in place."""
    start = perf_counter()
    graph = module.graph
    separate_inputs(graph)
    move_constants(module)
    unfold(graph)
    keep_sources(graph)
    read_sizes_off_inputs(graph)
    plan = _plan(graph, report)
    nodes = list(graph.nodes)
    plan.scopes.note_launches({node: plan.launch(node) for node in plan.taken})
    for launch in sorted({plan.launch(node) for node in plan.taken}):
        members = [node for node in nodes if node in plan.taken and plan.launch(node) == launch]
        _replace(graph, members, plan, report)
    for node in reversed(nodes):
        if not node.users and (node in plan.taken or plan.nodes[node].passes_on):
            graph.erase_node(node)
    _in_order(graph, plan)
    graph.eliminate_dead_code()
    name_views(graph)
    module.recompile()
    report.import_seconds = perf_counter() - start


# --- what goes where -----------------------------------------------------------------------------------------------------


def _plan(graph: torch.fx.Graph, report: GraphReport) -> _Plan:
    plan = _Plan(scopes=Scopes(graph))
    nodes = plan.nodes
    keep_from_compiling(graph, nodes)
    touched: dict[int, list[Node]] = {}  # storage -> nodes that read or wrote it, in order
    changed: dict[int, Node] = {}  # storage -> the last node that wrote it in place
    draws: list[Node] = []  # random numbers are drawn in the graph's order, whoever draws them
    for node in graph.nodes:
        storages = nodes.storages_touched(node)
        after = [changed[s] for s in storages if s in changed]
        written = storages & set(nodes[node.args[0]].storages) if nodes[node].mutates else set()
        after += [reader for s in written for reader in touched.get(s, ())]
        if draws_numbers(node) and not nodes[node].is_empty:
            after += draws[-1:]
            draws.append(node)
        if after:
            plan.after[node] = after
        if is_taken(node, nodes, report):
            plan.taken.add(node)
        plan.level[node] = max(
            (_level_after(plan, node, earlier) for earlier in (*node.all_input_nodes, *after)), default=0
        )
        for storage in storages:
            touched.setdefault(storage, []).append(node)
        changed |= dict.fromkeys(written, node)
        for tensor in nodes[node].tensors:
            owner = plan.owner.setdefault(tensor.storage, node)
            # A launch can read the parts of complex numbers, not the numbers, whose memory they are.
            if tensor.has_format and not any(t.has_format for t in nodes[owner].tensors if t.storage == tensor.storage):
                plan.owner[tensor.storage] = node
    return plan


def _level_after(plan: _Plan, node: Node, earlier: Node) -> int:
    """Bundles of a level run before the nodes left out at that level; a bundle that needs those is one level up."""
    level, nodes = plan.level[earlier], plan.nodes
    if earlier in plan.taken or earlier.op != "call_function" or earlier.target is constant_on_card:
        return level
    if nodes[earlier].passes_on or nodes[earlier].is_empty or nodes.stays_on_host(earlier):
        return level  # there is nothing to wait for
    waits = node in plan.taken or nodes[node].passes_on or nodes.stays_on_host(node)
    return level + (1 if waits else 0)


# --- one bundle ----------------------------------------------------------------------------------------------------------


def _replace(graph: torch.fx.Graph, members: list[Node], plan: _Plan, report: GraphReport) -> None:
    inside, nodes = set(members), plan.nodes
    reader = Reader(nodes)
    made = {storage for node in members if not nodes[node].mutates for storage in nodes[node].storages}
    sources: OrderedSet[Node] = OrderedSet()
    for node in members:
        for source in node.all_input_nodes:
            for tensor in nodes[source].tensors:
                if tensor.is_on_card and tensor.storage not in made and not tensor.is_empty:
                    sources.add(_whole(plan.owner[tensor.storage], source))
    updated = {nodes[_changed(node)].storages[0] for node in members if nodes[node].mutates}
    known = {node: packed(values) for node in sources if (values := known_values(node)) is not None}
    sources -= known.keys()
    results = [node for node in members if not nodes[node].mutates and _read_outside(node, inside, nodes)]
    results.sort(key=_place_of_results(graph, nodes))
    parts = [part for node in results for part in _parts(node, inside, nodes)]
    inputs = tuple(reader.value(fake_tensors(node)[0], node.name) for node in sources)  # first: they name their buffers
    constants = tuple((reader.value(fake_tensors(n)[0], n.name), values) for n, values in known.items())
    calls = tuple(reader.call(node, plan.scopes.hints_of(node)) for node in members)
    outputs = tuple(reader.value(fake, name) for _, fake, name in parts)
    imported = Graph(
        name=report.graph,
        symbols=tuple(sorted(reader.symbols)),
        values=tuple(reader.values),
        calls=calls,
        inputs=inputs,
        updated=tuple(number for number, node in zip(inputs, sources, strict=True)
                      if nodes[node].storages[0] in updated),
        outputs=outputs,
        numbers=len(reader.numbers),
        constants=constants,
        named=tuple(_named(plan, sources, inputs, members, calls)),
        shown=tuple(reader.sizes(_shown(node, fake, inside, nodes)) for node, fake, _ in parts),
        growth=tuple(map(growth_of, sorted(reader.symbols))),
    )  # fmt: skip
    key, kept = keep(imported)
    report.bundle(key, imported)
    with graph.inserting_before(members[-1]):
        symbols = [_symbol(graph, symbol) for symbol in imported.symbols]
        places = [place for place, number in enumerate(inputs) if number in imported.updated]
        launch = graph.call_function(launch_bundle, (key, list(sources), places, symbols, reader.numbers))
        launch.meta |= {"val": tuple(fake for _, fake, _ in parts), "spyre_graph": kept}
        plan.launch_of |= dict.fromkeys(members, launch)
        launch.meta |= _provenance(members)
        crossing = _names_made(imported, parts)
        for place, (node, fake, _) in enumerate(parts):
            part = graph.call_function(operator.getitem, (launch, place))
            part.meta["val"] = fake
            plan.owner[storage_of(fake)] = part
            plan.names[part] = crossing.get(place, ())
            node.replace_all_uses_with(part, delete_user_cb=lambda user: user not in inside)
    for node in members:
        if nodes[node].mutates:
            node.replace_all_uses_with(_changed(node))


def _provenance(members: Sequence[Node]) -> dict[str, object]:
    """What torch's own provenance files tell of a launch: the nodes it was made of, and their lines."""
    sources = [source for node in members for source in node.meta.get("from_node") or ()]
    traces = [trace for node in members if (trace := node.meta.get("stack_trace"))]
    known = {"stack_trace": members[-1].meta.get("stack_trace"), STACK_TRACES: list(dict.fromkeys(traces))}
    return known | ({"from_node": sources} if sources else {})


def _named(
    plan: _Plan, sources: Iterable[Node], inputs: Sequence[int], members: Sequence[Node], calls: Sequence[GraphCall]
) -> Iterator[tuple[int, Names]]:
    """Values with named dims: inputs of the graph, what earlier launches have made, and results that come from no tensor."""
    read = (
        (number, plan.names.get(node) or names_of_input(node)) for node, number in zip(sources, inputs, strict=True)
    )
    yield from ((number, names) for number, names in read if names)
    made = ((call.results[0], names_of_result(node)) for node, call in zip(members, calls, strict=True))
    yield from ((number, names) for number, names in made if names)


def _place_of_results(graph: torch.fx.Graph, nodes: Nodes) -> Callable[[Node], int]:
    """Of a node, where the graph returns what it makes, for a launch gives its results in the caller's order; what others read comes last."""
    returned = [source for source in tree_leaves(graph.output_node().args) if isinstance(source, Node)]
    places = {s: place for place, source in reversed(list(enumerate(returned))) for s in nodes[source].storages}
    return lambda node: min((places[s] for s in nodes[node].storages if s in places), default=len(returned))


def _names_made(graph: Graph, parts: Sequence[tuple[Node, torch.Tensor, str]]) -> dict[int, Names]:
    """Names of the dims of what a launch makes, for the launches behind it; none where sizes are not known before it runs."""
    if not graph.named:
        return {}
    extents = [n for _, fake, _ in parts for n in (*fake.shape, *fake.stride()) if isinstance(n, torch.SymInt)]
    sizes = {str(s): n.node.shape_env.size_hint(s, allow_none=True) for n in extents for s in n.node.expr.free_symbols}
    if any(sizes.get(symbol) is None for symbol in graph.symbols):
        return {}
    return names_of_outputs(graph, {symbol: int(sizes[symbol]) for symbol in graph.symbols}, parts[0][1].device)


def _changed(node: Node) -> Node:
    """What a call that mutates writes to."""
    first = node.args[0]
    assert isinstance(first, Node)
    return first


def _whole(owner: Node, source: Node) -> Node:
    """The node to pass for a storage: its owner, or, where that returned several tensors, the one that was read."""
    return owner if isinstance(owner.meta.get("val"), torch.Tensor) else source


def _read_outside(node: Node, inside: set[Node], nodes: Nodes) -> bool:
    """Whether a node's storage is needed by anything but the bundle, perhaps through views."""
    return any(
        user not in inside and (not nodes[user].passes_on or _read_outside(user, inside, nodes)) for user in node.users
    )


def _parts(node: Node, inside: set[Node], nodes: Nodes) -> list[tuple[Node, torch.Tensor, str]]:
    """(node to replace, its tensor, name of its buffer) per tensor that is needed outside."""
    value = node.meta["val"]
    if isinstance(value, torch.Tensor):
        return [(node, value, node.name)]
    picks = [user for user in node.users if user.target is operator.getitem and _read_outside(user, inside, nodes)]
    return [(pick, value[pick.args[1]], f"{node.name}.{pick.args[1]}") for pick in picks]


def _shown(node: Node, fake: torch.Tensor, inside: set[Node], nodes: Nodes) -> torch.Tensor:
    """What the caller sees of a result: one view of it, if nobody sees it otherwise."""
    outside = [user for user in node.users if user not in inside]
    if len(outside) == 1 and nodes[outside[0]].passes_on and len(found := fake_tensors(outside[0])) == 1:
        return found[0] if found[0].is_contiguous() and found[0].numel() == fake.numel() else fake
    return fake


def _symbol(graph: torch.fx.Graph, symbol: str) -> Node:
    """A node whose value is the symbol."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and str(value.node.expr) == symbol:
            return node
    if (found := size_of_input(graph, symbol)) is not None:
        return found
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
        waiting: list[Node] = []
        for node in pending:
            if earlier[node] <= placed and (node.op != "output" or not waiting):
                placed.add(node)
                previous.append(node)
                previous = node
            else:
                waiting.append(node)
        if len(waiting) == len(pending):
            raise InternalError(f"these nodes wait for each other: {', '.join(node.name for node in waiting)}")
        pending = waiting
