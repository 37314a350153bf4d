"""From the executions of a bundle to kernels the clock can price. Documented fields alone: whoever wrote the bundle."""

from __future__ import annotations

from math import prod

from openspyre.artifact.extensions.description import Tensor as ViewedTensor
from openspyre.artifact.superdsc import PRESENT, Component, SuperDsc, Tensor
from openspyre.clock.kernels import (
    Division,
    Form,
    Gather,
    Kernel,
    Layout,
    Matmul,
    Move,
    Norm,
    Pointwise,
    Reduction,
    RoundTrip,
    Shuffle,
)
from openspyre.clock.places import bytes_of, inputs_of, outputs_of, runs_of, sticks_of, traffic_of
from openspyre.spec.hardware import HARDWARE, Shape

# More work per element than the memory hides on one core.
_FUNCTIONS = frozenset(["gelufwd", "mish", "sigmoid", "silu", "softplus", "tanh", "log"])
_UNMEASURED = frozenset(["exx2", "layernormscale", "layernormnorm", "topkvalue", "topkindex"])


def kernel_of(op: SuperDsc) -> Kernel:
    """What one execution of an op amounts to."""
    if op.extension is not None:
        return _round_trip(op)
    known = HARDWARE.get(op.op.removesuffix("nonstick"))
    shape = Shape.POINTWISE if known is None else known.shape
    if op.index is not None:
        return _gather(op)
    if op.op == "shuffle":
        return _shuffle(op)
    if op.op == "ReStickifyOpHBM":
        return _restickify(op)
    if op.op in _UNMEASURED:
        return _unmeasured(op)
    match shape:
        case Shape.CONTRACTION:
            return _matmul(op)
        case Shape.REDUCTION:
            return _reduction(op)
        case _:
            return _pointwise(op, copies=shape in (Shape.MOVEMENT, Shape.CAST))


def _round_trip(op: SuperDsc) -> RoundTrip:
    description = op.extension
    assert description is not None
    inputs = tuple(t.layout.device_bytes for t in description.inputs if isinstance(t, ViewedTensor))
    return RoundTrip(inputs, tuple(tensor.layout.device_bytes for tensor in description.outputs))


def _gather(op: SuperDsc) -> Gather:
    traffic = traffic_of(op)
    assert op.index is not None
    index = op.tensors[op.index]
    rows = prod(op.axis[label].size for label in index.order if label in op.axis)
    return Gather(traffic.read_bytes, traffic.written_bytes, rows, op.cores)


def _shuffle(op: SuperDsc) -> Shuffle:
    source = inputs_of(op)[0]
    bytes_ = bytes_of(op, source)
    run = runs_of(op, source).bytes or bytes_ // op.cores
    return Shuffle(bytes_, max(1, bytes_ // max(1, run)), op.cores, op.cores)


def _restickify(op: SuperDsc) -> Layout:
    traffic = traffic_of(op)
    source = inputs_of(op)[0]
    columns = op.axis[source.stick].size
    rows = max(1, prod(axis.size for axis in op.axes) // columns)
    # Part of it may stay in scratchpads: then that much less goes through memory.
    return Layout(Move.RESTICKIFY, rows, columns, traffic.memory_bytes, traffic.runs)


def _unmeasured(op: SuperDsc) -> Norm:
    traffic = traffic_of(op)
    sticks = max(sticks_of(op, tensor) for tensor in op.tensors)
    return Norm(traffic.read_bytes, traffic.written_bytes, sticks, op.cores, traffic.scratchpad_bytes)


def _is_resident(tensor: Tensor) -> bool:
    return tensor.component is Component.SCRATCHPAD


def _reduction(op: SuperDsc) -> Reduction:
    source, result = inputs_of(op)[0], outputs_of(op)[0]
    traffic = traffic_of(op)
    kept = [axis.size for axis in op.axes if axis.label != source.stick and result.scale(axis.label) == PRESENT]
    return Reduction(
        traffic.read_bytes,
        traffic.written_bytes,
        prod(kept),
        sticks_of(op, source),
        op.cores,
        stride=traffic.runs.stride,
        over_rows=result.scale(source.stick) == PRESENT,
        resident=_is_resident(source),
    )


def _pointwise(op: SuperDsc, copies: bool) -> Pointwise:
    traffic, inputs, outputs = traffic_of(op), inputs_of(op), outputs_of(op)
    result = outputs[0]
    form = Form.COPY if copies else _form(op, inputs, result)
    columns = op.axis[result.stick].size if result.stick in op.axis else result.elems_per_stick
    return Pointwise(
        form,
        traffic.read_bytes,
        traffic.written_bytes,
        op.cores,
        traffic.runs,
        columns,
        traffic.scratchpad_bytes,
    )


def _form(op: SuperDsc, inputs: tuple[Tensor, ...], result: Tensor) -> Form:
    whole = sum(sticks_of(op, tensor) >= sticks_of(op, result) for tensor in inputs)
    smaller = [tensor for tensor in inputs if 1 < sticks_of(op, tensor) < sticks_of(op, result)]
    if whole >= 2:
        return Form.BINARY
    if smaller:
        along_sticks = any(tensor.scale(result.stick) == PRESENT for tensor in smaller)
        return Form.ALONG_COLUMNS if along_sticks else Form.ALONG_ROWS
    return Form.FUNCTION if op.op in _FUNCTIONS else Form.UNARY


def _matmul(op: SuperDsc) -> Matmul:
    first, second, result = *inputs_of(op)[:2], outputs_of(op)[0]
    roles: dict[str, list[str]] = {"b": [], "m": [], "n": [], "k": []}
    for axis in op.axes:
        a, b, c = (tensor.scale(axis.label) == PRESENT for tensor in (first, second, result))
        roles["k" if not c else "b" if a and b else "m" if a else "n"].append(axis.label)
    sizes = {role: prod(op.axis[label].size for label in labels) for role, labels in roles.items()}
    splits = {role: prod(op.axis[label].split for label in labels) for role, labels in roles.items()}
    batch = {label for label in roles["b"] if op.axis[label].size > 1}
    return Matmul(
        sizes["b"],
        sizes["m"],
        sizes["n"],
        sizes["k"],
        Division(splits["b"], splits["m"], splits["n"], splits["k"]),
        op.cores,
        first_resident=_is_resident(first),
        second_resident=_is_resident(second),
        result_resident=_is_resident(result),
        three_dims=bool(batch),
        plain=(first.order[0] not in batch, second.order[0] not in batch) if batch else None,
    )
