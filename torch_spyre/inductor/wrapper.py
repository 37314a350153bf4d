"""Our wrapper: before Inductor's scheduler exists, runs of importable operations are replaced by one extern kernel, the bundle."""

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
    ir,
)
from torch_spyre.inductor.importer import Importer, is_importable
from torch_spyre.inductor.launch import publish
from torch_spyre.inductor.report import GraphReport, current_report
from torch_spyre.inductor.steps import NotImportable


class BundleKernel(ir.ExternKernel):  # type: ignore[misc]
    """One launch: the absorbed operations stay known to the scheduler through their outputs."""

    def __init__(
        self, program: int, inputs: list[Any], outputs: list[Any], absorbed: list[Any], device: torch.device
    ) -> None:
        super().__init__(None, ir.NoneLayout(device=device), inputs)
        self.program, self.bundle_outputs, self.absorbed = program, outputs, absorbed
        self.origins = OrderedSet(origin for operation in absorbed for origin in operation.get_origins())

    def get_outputs(self) -> list[Any]:
        return list(self.bundle_outputs)

    def get_device(self) -> torch.device:
        return self.layout.device

    def should_allocate(self) -> bool:
        return False

    def codegen(self, wrapper: Any) -> None:
        inputs = ", ".join(buffer.codegen_reference() for buffer in self.inputs)
        outputs = ", ".join(buffer.get_name() for buffer in self.bundle_outputs)
        wrapper.writeline(f"spyre_launch({self.program}, [{inputs}], [{outputs}])")


def absorb(graph: Any) -> None:
    """Replace runs of importable operations in a graph by bundles."""
    operations, kept = list(graph.operations), []
    report = current_report(graph)
    needed = set(graph.get_output_names())
    run: list[Any] = []
    importer = Importer(f"{graph.name or 'graph'}_{len(kept)}")
    for operation in operations:
        if operation.is_no_op():
            kept.append(operation)
            continue
        try:
            if not is_importable(operation):
                raise NotImportable(f"{type(operation).__name__} is not an operation we read")
            importer.add(operation)
            run.append(operation)
        except NotImportable as reason:
            report.left_out(operation, str(reason))
            _close(graph, run, importer, kept, operations, needed, report)
            kept.append(operation)
            run, importer = [], Importer(f"{graph.name or 'graph'}_{len(kept)}")
    _close(graph, run, importer, kept, operations, needed, report)
    graph.operations[:] = kept


def _close(graph: Any, run: list[Any], importer: Importer, kept: list[Any], operations: list[Any], needed: set[str],
           report: GraphReport) -> None:  # fmt: skip
    if not run:
        return
    inside = {id(operation) for operation in run}
    later = {
        name
        for operation in operations
        if id(operation) not in inside
        for name in (dependency.name for dependency in operation.get_reads())
    }
    outputs = [operation for operation in run if operation.get_name() in needed | later]
    program = importer.program([operation.get_name() for operation in outputs])
    number = publish(program, importer.read_names(), [o.get_name() for o in outputs], list(importer.constants.values()))
    report.bundle(program, number)
    inputs = [_find(graph, name) for name in importer.read_names()]
    kernel = BundleKernel(number, inputs, outputs, run, run[0].get_device())
    kernel.operation_name = kernel.name = f"spyre_{run[0].get_operation_name()}"
    graph.name_to_op[kernel.operation_name] = kernel
    kept.append(kernel)


def _find(graph: Any, name: str) -> Any:
    return graph.graph_inputs[name] if name in graph.graph_inputs else graph.get_buffer(name)


class SpyreWrapper(PythonWrapperCodegen):  # type: ignore[misc, valid-type]
    """Generated code calls `spyre_launch` once per bundle."""

    @staticmethod
    def create(is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, partition_signatures: Any = None) -> Any:
        absorb(V.graph)
        if is_subgraph:
            return SubgraphPythonWrapperCodegen(subgraph_name, parent_wrapper, partition_signatures)
        return SpyreWrapper()

    def write_header(self) -> None:
        super().write_header()
        self.header.writeline("from torch_spyre.inductor.launch import launch as spyre_launch")


class SpyreScheduling(BaseScheduling):  # type: ignore[misc, valid-type]
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
            f"{names} could not be imported for spyre: {current_report(V.graph).reasons()}; run this part eagerly"
        )


class SpyreOpOverrides(DeviceOpOverrides):  # type: ignore[misc, valid-type]
    """Text that generated wrappers use around the device."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"from torch_spyre.inductor.launch import get_raw_stream as {name}"

    def set_device(self, device_idx: int) -> str:
        return f"torch.spyre.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.spyre.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.spyre.device({device_idx})"
