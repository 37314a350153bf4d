"""Imports a run of Inductor's lowered operations as one IR program, layout-free: the launch adds layouts and offsets."""

from __future__ import annotations

from typing import Any

import torch

from openspyre.compiler.ir import Access, Buffer, Dim, Iota, Op, Operand, Program, Role, Scalar
from openspyre.spec.addressing import row_major
from torch_spyre.inductor.border import IndexPropagation, V, index_vars_squeeze, ir
from torch_spyre.inductor.steps import Index, NotImportable, Recorder, Recording, Value

_CONTRACTIONS = ("extern_kernels.mm", "extern_kernels.bmm")


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_importable(operation: Any) -> bool:
    """Whether the kind of operation is one we read at all; its body may still refuse."""
    if isinstance(operation, ir.ComputedBuffer):
        return type(operation.data) in (ir.Pointwise, ir.Reduction) and type(operation.layout) is ir.FixedLayout
    return isinstance(operation, ir.ExternKernelOut) and operation.python_kernel_name in _CONTRACTIONS


class Importer:
    """Collects the operations of one bundle."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensors: dict[str, tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]] = {}
        self.temps: list[Buffer] = []
        self.ops: list[Op] = []
        self.written: list[str] = []
        self.constants: dict[Scalar, float] = {}

    def add(self, operation: Any) -> None:
        """Import one operation, or raise NotImportable and leave no trace of it."""
        kept = len(self.ops), len(self.temps), len(self.written), dict(self.tensors)
        try:
            if isinstance(operation, ir.ComputedBuffer):
                self._body(operation)
            else:
                self._contraction(operation)
        except NotImportable:
            del self.ops[kept[0] :], self.temps[kept[1] :], self.written[kept[2] :]
            self.tensors = kept[3]
            raise

    def read_names(self) -> list[str]:
        """Buffers that come from outside, in order of first use."""
        inside = set(self.written)
        names = (a.buffer for op in self.ops for a in op.accesses if a.buffer in self.tensors)
        return [name for name in dict.fromkeys(names) if name not in inside]

    def program(self, outputs: list[str]) -> Program:
        buffers = []
        for name, (dtype, size, stride) in self.tensors.items():
            role = Role.OUTPUT if name in outputs else Role.TEMP if name in self.written else Role.INPUT
            buffers.append(Buffer(name, dtype_name(dtype), size, stride, role))
        return Program(self.name, (*buffers, *self.temps), tuple(self.ops), tuple(self.constants))

    # --- what an operation reads and writes ---------------------------------------------------------------------------

    def _tensor(self, name: str) -> torch.dtype:
        if name not in self.tensors:
            layout = V.graph.get_buffer(name).get_layout() if name not in V.graph.graph_inputs else None
            layout = layout or V.graph.graph_inputs[name].get_layout()
            self.tensors[name] = layout.dtype, _integers(layout.size), _integers(layout.stride)
        return self.tensors[name][0]

    def _body(self, operation: Any) -> None:
        data = operation.data
        reduction = _integers(data.get_reduction_size()) if isinstance(data, ir.Reduction) else ()
        arguments, ranges = index_vars_squeeze(data.get_size(), *([data.get_reduction_size()] if reduction else []))
        variables = list(ranges)
        recording = Recording(variables)
        handler = Recorder(recording, self._tensor)
        with V.set_ops_handler(IndexPropagation(handler, ranges, {})), torch.no_grad():
            operation.get_store_function()(*arguments)
        kept = {v for group in arguments[:1] for v in group if v in ranges}
        dims = tuple(Dim(f"d{i}", int(ranges[v]), reduced=v not in kept) for i, v in enumerate(variables))
        origin = _origin(operation)
        for name, index, value, fold in recording.stored:
            self._tensor(name)
            self._store(name, index, value, fold, dims, origin)
            self.written.append(name)

    def _store(
        self, name: str, index: Index, value: Value, fold: str | None, dims: tuple[Dim, ...], origin: str
    ) -> None:
        target = Access(name, index.offset, index.strides, dtype_name(self.tensors[name][0]))
        done: dict[Value, Access] = {}
        if fold is not None:
            source = self._operand(value.arguments[0], dims, done, origin)
            self._emit(fold, dims, (source,), target, origin)
        else:
            kept = tuple(Dim(dim.name, dim.size) for dim in dims)
            self._emit_value(value, kept, target, done, origin)

    def _operand(self, value: Value, dims: tuple[Dim, ...], done: dict[Value, Access], origin: str) -> Operand:
        if value.name == "load" and value.index is not None:
            return Access(value.buffer, value.index.offset, value.index.strides, dtype_name(value.dtype))
        if value.name == "index" and value.index is not None:
            return Iota(value.index.offset, value.index.strides)
        if value.name == "constant":
            return self._constant(value)
        if value not in done:
            size = tuple(dim.size for dim in dims)
            name = f"t{len(self.temps)}"
            self.temps.append(Buffer(name, dtype_name(value.dtype), size, row_major(size), Role.TEMP))
            access = Access(name, 0, row_major(size), dtype_name(value.dtype))
            self._emit_value(value, tuple(Dim(dim.name, dim.size) for dim in dims), access, done, origin)
            done[value] = access
        return done[value]

    def _emit_value(
        self, value: Value, dims: tuple[Dim, ...], target: Access, done: dict[Value, Access], origin: str
    ) -> None:
        match value.name:
            case "load" | "index" | "constant" | "convert":
                inner = value.arguments[0] if value.name == "convert" else value
                self._emit("cast", dims, (self._operand(inner, dims, done, origin),), target, origin)
            case row:
                inputs = tuple(self._operand(argument, dims, done, origin) for argument in value.arguments)
                self._emit(row, dims, inputs, target, origin)

    def _constant(self, value: Value) -> Scalar:
        """A number of the graph: a scalar whose value every launch supplies."""
        kind = "float32" if value.dtype is torch.float32 else "float16" if value.dtype.is_floating_point else "int32"
        for scalar, number in self.constants.items():
            if scalar.dtype == kind and number == value.number:
                return scalar
        scalar = Scalar(f"c{len(self.constants)}", kind)
        self.constants[scalar] = value.number
        return scalar

    def _emit(self, row: str, dims: tuple[Dim, ...], inputs: tuple[Operand, ...], target: Access, origin: str) -> None:
        self.ops.append(Op(f"{row}_{len(self.ops)}", row, dims, inputs, (target,), origin=origin))

    def _contraction(self, operation: Any) -> None:
        a, b = (self._view(operand) for operand in operation.inputs)
        name = operation.get_name()
        layout = operation.get_layout()
        self._tensor(name)
        size, stride = _integers(layout.size), _integers(layout.stride)
        batch = tuple(Dim(f"b{i}", extent) for i, extent in enumerate(size[:-2]))
        dims = (*batch, Dim("m", size[-2]), Dim("n", size[-1]), Dim("k", a[2][-1], reduced=True))
        first = Access(a[0], a[1], (*a[3][:-2], a[3][-2], 0, a[3][-1]), dtype_name(self.tensors[a[0]][0]))
        second = Access(b[0], b[1], (*b[3][:-2], 0, b[3][-1], b[3][-2]), dtype_name(self.tensors[b[0]][0]))
        target = Access(name, int(layout.offset), (*stride, 0), dtype_name(layout.dtype))
        self._emit("batchmatmul", dims, (first, second), target, _origin(operation))
        self.written.append(name)

    def _view(self, operand: Any) -> tuple[str, int, tuple[int, ...], tuple[int, ...]]:
        name, layout = operand.get_name(), operand.get_layout()
        self._tensor(name)
        return name, int(layout.offset), _integers(layout.size), _integers(layout.stride)


def _integers(values: Any) -> tuple[int, ...]:
    if not all(isinstance(v, int) or getattr(v, "is_Integer", False) for v in values):
        raise NotImportable("sizes are symbolic")
    return tuple(int(v) for v in values)


def _origin(operation: Any) -> str:
    """The model's line, from the graph's nodes."""
    for node in operation.get_origins():
        trace = node.meta.get("stack_trace")
        if trace:
            lines = [line.strip() for line in trace.strip().splitlines() if line.strip().startswith("File ")]
            return lines[-1] if lines else ""
    return ""
