"""Bytes of a SuperDSC's tensors by place, and how a core's part of them lies in memory: counted once, for everybody who asks."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from openspyre.artifact.superdsc import PRESENT, Component, SuperDsc, Tensor
from openspyre.clock.kernels import Runs
from openspyre.spec.formats import STICK_BYTES


def sticks_of(op: SuperDsc, tensor: Tensor) -> int:
    """Sticks of a tensor that one execution touches, each once, however many cores do."""
    return prod([_positions(op, tensor, label) for label in tensor.order])


def bytes_of(op: SuperDsc, tensor: Tensor) -> int:
    return STICK_BYTES * sticks_of(op, tensor)


def _positions(op: SuperDsc, tensor: Tensor, label: str) -> int:
    """Places along one dim: sticks where they run along it; one where the tensor is the same all along."""
    axis = op.axis.get(label)
    if axis is None or tensor.scale(label) != PRESENT:
        return 1
    for stick in tensor.sticks:
        if stick.label == label:
            return -(-axis.size // stick.size)
    return axis.size


def runs_of(op: SuperDsc, tensor: Tensor) -> Runs:
    """The sticks of one core that lie one behind the other, and how far it is to the next such run."""
    run = whole = 1
    for place, label in enumerate(tensor.order):
        positions = _positions(op, tensor, label)
        split = op.axis[label].split if label in op.axis and tensor.scale(label) == PRESENT else 1
        run *= max(1, positions // split)
        whole *= positions + tensor.gap(label)
        apart = split > 1 or tensor.gap(label) > 0
        if apart and any(_positions(op, tensor, outer) > 1 for outer in tensor.order[place + 1 :]):
            return Runs(run * STICK_BYTES, whole * STICK_BYTES)
    return Runs()


@dataclass(frozen=True, slots=True)
class Traffic:
    """What an execution moves: bytes over all cores, by place. `runs`: of its largest tensor in memory."""

    read_bytes: int
    written_bytes: int
    scratchpad_read_bytes: int
    scratchpad_written_bytes: int
    runs: Runs

    @property
    def memory_bytes(self) -> int:
        return self.read_bytes + self.written_bytes

    @property
    def scratchpad_bytes(self) -> int:
        return self.scratchpad_read_bytes + self.scratchpad_written_bytes


def inputs_of(op: SuperDsc) -> tuple[Tensor, ...]:
    """What it reads; the totals a reduction goes on with are its output."""
    return tuple(op.tensors[number] for number in op.inputs if number not in op.outputs)


def outputs_of(op: SuperDsc) -> tuple[Tensor, ...]:
    return tuple(op.tensors[number] for number in op.outputs)


def traffic_of(op: SuperDsc) -> Traffic:
    inputs, outputs = inputs_of(op), outputs_of(op)
    if op.index is not None:
        inputs = (*inputs, op.tensors[op.index])
    read, written, read_near, written_near = (
        sum(bytes_of(op, tensor) for tensor in tensors if tensor.component is place)
        for place in (Component.MEMORY, Component.SCRATCHPAD)
        for tensors in (inputs, outputs)
    )
    far = [tensor for tensor in (*inputs, *outputs) if tensor.component is Component.MEMORY]
    largest = max(far, key=lambda tensor: bytes_of(op, tensor), default=None)
    return Traffic(read, written, read_near, written_near, Runs() if largest is None else runs_of(op, largest))
