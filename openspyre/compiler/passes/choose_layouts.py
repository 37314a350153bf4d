"""Gives every buffer without a layout one: that of the first operand of the same shape, else the default."""

from __future__ import annotations

from dataclasses import dataclass, replace

from openspyre.compiler.ir import Access, Buffer, Program
from openspyre.spec.formats import require_supported
from openspyre.spec.layout import SpyreTensorLayout


@dataclass(frozen=True, slots=True)
class ChooseLayouts:
    """No options."""

    def run(self, program: Program) -> Program:
        chosen = {buffer.name: buffer for buffer in program.buffers}
        for op in program.ops:
            for output in op.outputs:
                buffer = chosen[output.buffer]
                if buffer.layout is None:
                    operands = [chosen[a.buffer] for a in op.inputs if isinstance(a, Access)]
                    chosen[buffer.name] = replace(buffer, layout=_layout_for(buffer, operands))
        return replace(program, buffers=tuple(chosen.values()))


def _layout_for(buffer: Buffer, operands: list[Buffer]) -> SpyreTensorLayout:
    for operand in operands:
        same_shape = (operand.size, operand.stride) == (buffer.size, buffer.stride)
        if same_shape and operand.layout and operand.layout.device_dtype == require_supported(buffer.dtype).device:
            return operand.layout
    return default_layout(buffer)


def default_layout(buffer: Buffer) -> SpyreTensorLayout:
    """The documented rule: the last dim on the stick."""
    return SpyreTensorLayout(list(buffer.size), list(buffer.stride), buffer.dtype, list(range(len(buffer.size))))
