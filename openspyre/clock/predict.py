"""The time of one kernel on a machine. Arithmetic alone: the same kernel takes the same time on every host."""

from __future__ import annotations

from typing import assert_never

from openspyre.clock import pointwise, rows
from openspyre.clock.bands import BANDS, SMALL_US
from openspyre.clock.kernels import (
    Chain,
    Form,
    Gather,
    Kernel,
    Layout,
    Matmul,
    Norm,
    Pointwise,
    Reduction,
    RoundTrip,
    Shuffle,
    Softmax,
)
from openspyre.clock.layouts import gather_parts, layout_parts, shuffle_parts
from openspyre.clock.matmul import matmul_parts
from openspyre.clock.parts import Parts
from openspyre.clock.prediction import KernelClass, Part, Prediction, settled
from openspyre.clock.transfers import round_trip_parts
from openspyre.spec.machine import SPYRE, Machine


def parts_of(kernel: Kernel, machine: Machine) -> Parts:
    """What each resource has to do, by the formula of the kernel's kind."""
    match kernel:
        case Pointwise():
            return pointwise.parts(kernel, machine)
        case Chain():
            return pointwise.chain_parts(kernel, machine)
        case Reduction():
            return rows.reduction_parts(kernel, machine)
        case Softmax():
            return rows.softmax_parts(kernel, machine)
        case Norm():
            return rows.norm_parts(kernel, machine)
        case Layout():
            return layout_parts(kernel, machine)
        case Matmul():
            return matmul_parts(kernel, machine)
        case Gather():
            return gather_parts(kernel, machine)
        case Shuffle():
            return shuffle_parts(kernel, machine)
        case RoundTrip():
            return round_trip_parts(kernel, machine)
    assert_never(kernel)


def class_of(kernel: Kernel) -> KernelClass:
    match kernel:
        case Pointwise(form=Form.UNARY | Form.FUNCTION | Form.BINARY):
            return KernelClass.POINTWISE
        case Pointwise():
            return KernelClass.COPY
        case Chain():
            return KernelClass.CHAIN
        case Reduction():
            return KernelClass.REDUCTION
        case Softmax():
            return KernelClass.SOFTMAX
        case Norm():
            return KernelClass.NORM
        case Layout():
            return KernelClass.LAYOUT
        case Matmul() if kernel.batched or kernel.b > 1:
            return KernelClass.BATCHED
        case Matmul():
            return KernelClass.MATMUL if kernel.recorded else KernelClass.MATMUL_UNKNOWN
        case Gather():
            return KernelClass.GATHER
        case Shuffle():
            return KernelClass.SHUFFLE
        case RoundTrip():
            return KernelClass.EXTENSION
    assert_never(kernel)


def predict(kernel: Kernel, machine: Machine = SPYRE) -> Prediction:
    """The kernel's time with its parts, its class and how far that class was off."""
    found = parts_of(kernel, machine)
    kernel_class = class_of(kernel)
    time = settled(found.time_us)
    if time < SMALL_US and kernel_class is not KernelClass.EXTENSION:
        kernel_class = KernelClass.SMALL
    parts, serial = (
        tuple(Part(p.resource, settled(p.us)) for p in all_) for all_ in (found.overlapped, found.all_serial)
    )
    return Prediction(kernel_class, time, parts, serial, BANDS[kernel_class])
