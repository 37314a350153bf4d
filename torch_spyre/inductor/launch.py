"""Launches of compiled graphs: the imported program is specialised on the layouts of its actual inputs, once per combination."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from openspyre.compiler.ir import Access, Buffer, Op, Program
from openspyre.spec.encodings import sen169_decode, sen169_encode
from torch_spyre import _torch
from torch_spyre.device.layouts import device_tensor_layout
from torch_spyre.ops.programs import load


@dataclass(frozen=True, slots=True)
class Published:
    """An imported program and the order of its tensors in a launch."""

    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[int, ...]  # the program's scalars, as 32-bit register contents


_published: list[Published] = []
_loaded: dict[tuple[object, ...], tuple[int, int]] = {}


def publish(program: Program, inputs: list[str], outputs: list[str], constants: list[float]) -> int:
    """Keep a program for launches; its number stands in the generated code."""
    words = tuple(_word(number, scalar.dtype) for number, scalar in zip(constants, program.scalars, strict=True))
    _published.append(Published(program, tuple(inputs), tuple(outputs), words))
    return len(_published) - 1


def launch(number: int, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
    """Run a program on these tensors, on the current stream."""
    published = _published[number]
    tensors = (*inputs, *outputs)
    key = (number, *((_torch.layout_of(tensor)[0], tensor.storage_offset()) for tensor in tensors))
    if key not in _loaded:
        _loaded[key] = load(
            specialise(published, dict(zip((*published.inputs, *published.outputs), tensors, strict=True)))
        )
    program, pool_bytes = _loaded[key]
    _torch.launch_program(program, tensors, len(inputs), published.constants, pool_bytes)


def specialise(published: Published, tensors: dict[str, torch.Tensor]) -> Program:
    """The program with the layouts and offsets of the tensors it is launched on; arguments come first, in launch order."""
    order = (*published.inputs, *published.outputs)
    given = {name: _buffer(published.program.buffer(name), tensors[name]) for name in order}
    rest = tuple(buffer for buffer in published.program.buffers if buffer.name not in given)
    offsets = {name: tensor.storage_offset() for name, tensor in tensors.items()}
    ops = tuple(_shift(op, offsets) for op in published.program.ops)
    return replace(published.program, buffers=(*given.values(), *rest), ops=ops)


def _buffer(buffer: Buffer, tensor: torch.Tensor) -> Buffer:
    record = _torch.buffer_of(tensor)
    size, stride = tuple(record["host_size"]), tuple(record["host_stride"])
    return Buffer(buffer.name, record["dtype"], size, stride, buffer.role, device_tensor_layout(tensor))


def _shift(op: Op, offsets: dict[str, int]) -> Op:
    def moved(operand: object) -> object:
        if isinstance(operand, Access) and operand.buffer in offsets:
            return replace(operand, offset=operand.offset + offsets[operand.buffer])
        return operand

    return replace(op, inputs=tuple(map(moved, op.inputs)), outputs=tuple(map(moved, op.outputs)))  # type: ignore[arg-type]


def _word(number: float, dtype: str) -> int:
    """A constant in a register: rounded to the op's format first, as every scalar is (contract N7)."""
    if dtype == "int32":
        return int(number) & 0xFFFFFFFF
    value = np.float32(number)
    if dtype == "float16" and np.isfinite(value):
        value = np.float32(sen169_decode(sen169_encode(value)))
    return int(value.view(np.uint32))


def get_raw_stream(device: int) -> int:
    """The stream generated code runs on; launches find it by themselves."""
    return torch.spyre.current_stream(device).stream_id


__all__ = ["Published", "get_raw_stream", "launch", "publish", "specialise"]
