"""A bundle inside Inductor: one extern kernel whose generated code is one launch, and the wrapper and scheduler around it."""

from __future__ import annotations

from typing import Any

import torch

from torch_spyre.inductor.border import (
    BackendFeature,
    BaseScheduling,
    DeviceOpOverrides,
    OrderedSet,
    PythonWrapperCodegen,
    SubgraphPythonWrapperCodegen,
    V,
    has_side_effect,
    inductor_config,
    ir,
)
from torch_spyre.inductor.graph import evaluate, to_text
from torch_spyre.inductor.graph_registry import find
from torch_spyre.inductor.reporting.report import BUNDLE_LETTERS, report_of

STACK_TRACES = "spyre_stack_traces"  # in the meta of a bundle's node: the lines of all that it does


class BundleKernel(ir.ExternKernel):
    """One launch: tensors, symbols and numbers in, the tensors it makes out; inputs it updates are written in place.

    A number is an expression, or a tensor of the host, which then is an input after those of the card.
    """

    def __init__(
        self,
        key: str,
        inputs: list[Any],
        updated: list[int],
        symbols: list[Any],
        numbers: list[Any],
        device: torch.device,
    ) -> None:
        on_host = [number for number in numbers if isinstance(number, ir.IRNode)]
        super().__init__(None, ir.MultiOutputLayout(device=device), [*inputs, *on_host])
        self.key, self.symbols, self.numbers, self.on_card = key, symbols, numbers, len(inputs)
        self.stack_traces: list[str] = V.current_node.meta.get(STACK_TRACES, [])
        self.name = V.graph.register_buffer(self)
        V.graph.register_operation(self)
        self.mutation_outputs = [
            ir.MutationOutput(ir.NoneLayout(device=device), self.inputs[place], self) for place in updated
        ]

    def should_allocate(self) -> bool:
        return False

    def has_side_effects(self) -> bool:
        return bool(self.mutation_outputs)

    def get_unbacked_symbol_defs(self) -> Any:
        return OrderedSet()

    def get_free_symbol_uses(self, unbacked_only: bool = False) -> Any:
        found = super().get_free_symbol_uses(unbacked_only)
        for symbol in (*self.symbols, *(number for number in self.numbers if not isinstance(number, ir.IRNode))):
            found |= ir.get_free_symbols(symbol, unbacked_only)
        return found

    def get_stack_traces(self) -> Any:
        return OrderedSet(self.stack_traces)

    def codegen(self, wrapper: Any) -> None:
        graph = spyre_wrapper(wrapper).graph_variable(self.key, self.layout.device.index or 0)
        inputs = ", ".join(buffer.codegen_reference() for buffer in self.inputs[: self.on_card])
        on_host = iter(self.inputs[self.on_card :])
        numbers = ", ".join(
            next(on_host).codegen_reference() if isinstance(number, ir.IRNode) else _text(number)
            for number in self.numbers
        )
        given = f"[{inputs}], [{', '.join(map(_text, self.symbols))}]" + (f", [{numbers}]" if numbers else "")
        if inductor_config.trace.provenance_tracking_level:
            self.codegen_comment(wrapper, f"spyre_bundle_{self.key[:BUNDLE_LETTERS]}")  # in torch's files
        launch = "spyre_launch_growing" if self.symbols else "spyre_launch"
        wrapper.writeline(f"{self.get_name()} = {launch}({graph}, {given})")


def _text(expression: Any) -> str:
    return str(V.graph.wrapper_code.codegen_python_sizevar(expression))


def launch_bundle(key: str, inputs: list[Any], updated: list[int], symbols: list[Any], numbers: list[Any]) -> list[Any]:
    """The lowering of a bundle's node: an extern kernel and a box per tensor it makes."""
    if any(isinstance(value, torch.Tensor) for value in inputs):
        return _described(key, inputs, symbols)
    tensors = V.current_node.meta["val"]
    realized = [ir.ExternKernel.realize_input(box) for box in inputs]
    device = realized[0].get_device() if realized else tensors[0].device
    wanted = [symbol if isinstance(symbol, int) else _expression(symbol) for symbol in symbols]
    brought = [ir.ExternKernel.realize_input(n) if isinstance(n, ir.IRNode) else _expression(n) for n in numbers]
    kernel = BundleKernel(key, realized, updated, wanted, brought, device)
    return [
        ir.TensorBox.create(
            ir.MultiOutput(_layout(tensor), kernel, [(list, place)], skip_size_stride_alignment_checks=True)
        )
        for place, tensor in enumerate(tensors)
    ]


def _described(key: str, inputs: list[torch.Tensor], symbols: list[Any]) -> list[torch.Tensor]:
    """What a launch would return: torch runs the branches of torch.cond on fake tensors to learn their results."""
    graph = find(key)
    known = dict(zip(graph.symbols, symbols, strict=True))
    made = [graph.values[number] for number in graph.outputs]
    return [
        torch.empty_strided(
            [evaluate(extent, known) for extent in value.size],
            [evaluate(extent, known) for extent in value.stride],
            dtype=getattr(torch, value.dtype),
            device=inputs[0].device,
        )
        for value in made
    ]


launch_bundle._inductor_lowering_function = True  # type: ignore[attr-defined]
has_side_effect(launch_bundle)


def _expression(symbol: Any) -> Any:
    return symbol.node.expr if isinstance(symbol, (torch.SymInt, torch.SymFloat)) else symbol


def _layout(tensor: torch.Tensor) -> Any:
    sizes = [_expression(n) for n in tensor.shape]
    return ir.FixedLayout(tensor.device, tensor.dtype, sizes, [_expression(n) for n in tensor.stride()])


class SpyreWrapper(PythonWrapperCodegen):
    """Generated code carries the text of its graphs and calls `spyre_launch` once per bundle."""

    @staticmethod
    def create(is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, partition_signatures: Any = None) -> Any:
        if is_subgraph:
            return SubgraphPythonWrapperCodegen(subgraph_name, parent_wrapper, partition_signatures)
        return SpyreWrapper()

    def __init__(self) -> None:
        self.graph_variables: dict[tuple[str, int], str] = {}
        self.told: set[str] = set()
        super().__init__()

    def write_header(self) -> None:
        super().write_header()
        self.header.writeline(
            "from torch_spyre.inductor.launching.launch import launch as spyre_launch, open_graph as spyre_graph\n"
            "from torch_spyre.inductor.launching.launch import launch_growing as spyre_launch_growing, open_growing_graph as spyre_growing_graph\n"
            "from torch_spyre.inductor.reporting.report import found_graph as spyre_found"
        )

    def graph_variable(self, key: str, device: int) -> str:
        """The name under which generated code knows a graph on a card; equal graphs share it."""
        if (key, device) not in self.graph_variables:
            name = self.graph_variables[key, device] = f"spyre_graph_{len(self.graph_variables)}"
            graph = find(key)
            opened = "spyre_growing_graph" if graph.symbols else "spyre_graph"
            self.header.writeline(f"{name} = {opened}({key!r}, {to_text(graph)!r}, {device})")
            self._tell(key)
        return self.graph_variables[key, device]

    def _tell(self, key: str) -> None:
        """Code that another process finds on disk tells it what became of the graph."""
        report = report_of(key)
        if report is not None and report.graph not in self.told:
            self.told.add(report.graph)
            bundles = [(bundle.key, bundle.calls) for bundle in report.bundles]
            left_out = [(left.operator, left.reason, left.origin) for left in report.fallbacks]
            self.header.writeline(f"spyre_found({report.graph!r}, {bundles!r}, {left_out!r})")


def spyre_wrapper(wrapper: Any) -> SpyreWrapper:
    """The outermost wrapper, whose header all subgraphs share."""
    while getattr(wrapper, "parent_wrapper", None) is not None:
        wrapper = wrapper.parent_wrapper
    return wrapper


class SpyreScheduling(BaseScheduling):
    """Sees only externs: there is nothing to fuse and nothing to generate."""

    def get_backend_features(self, device: torch.device) -> Any:
        return OrderedSet([BackendFeature.REDUCE_TO_SINGLE_ELEMENT])

    def can_fuse_vertical(self, node1: Any, node2: Any) -> bool:
        return False

    def can_fuse_horizontal(self, node1: Any, node2: Any) -> bool:
        return False

    def group_fn(self, sizes: Any) -> Any:
        return tuple(tuple(map(V.graph.sizevars.simplify, s)) for s in sizes)

    def flush(self) -> None:
        """Nothing is pending between nodes."""

    def codegen_sync(self) -> None:
        """Launches are asynchronous; nothing waits."""

    def ready_to_flush(self) -> bool:
        return False

    def codegen_node(self, node: Any) -> None:
        names = ", ".join(inner.get_name() for inner in node.get_nodes())
        raise NotImplementedError(
            f"Inductor made loops of its own for {names} on spyre; every operator should be a bundle or a call: "
            "please report the model's line, and run this part outside torch.compile"
        )


class SpyreOpOverrides(DeviceOpOverrides):
    """Text that generated wrappers use around the device."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"from torch_spyre.inductor.launching.launch import get_raw_stream as {name}"

    def set_device(self, device_idx: int) -> str:
        return f"torch.spyre.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.spyre.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.spyre.device({device_idx})"
