"""What a record must satisfy beyond its form: the card's limits, and operands that the row can take."""

from __future__ import annotations

from math import prod

from openspyre.artifact.extensions.description import (
    CONSTANT_DTYPES,
    Constant,
    Description,
    Iota,
    Lanes,
    Tensor,
    blocks,
    lane_block,
)
from openspyre.artifact.extensions.expression_check import check_expression
from openspyre.artifact.extensions.format_check import check_formats, check_unit
from openspyre.artifact.extensions.kind_check import check_kind
from openspyre.artifact.fields import Problems
from openspyre.spec.machine import MIB, SPYRE, Machine
from openspyre.spec.ops import TABLE, Indexing, Kind

MAX_OPERANDS = 8
MAX_DIMS = 10
FURTHEST_ELEMENT = 1 << 48  # no card reaches so far


def check_description(description: Description, problems: Problems, machine: Machine = SPYRE) -> None:
    """Everything wrong with one op, addresses apart."""
    cores = description.cores
    if cores > machine.cores:
        problems.say("openspyre_.dims", f"splits for {cores} cores", f"at most {machine.cores}")
    if max(len(description.inputs), len(description.outputs)) > MAX_OPERANDS:
        problems.say("openspyre_.inputs", f"{len(description.inputs)} operands", f"at most {MAX_OPERANDS}")
    before = len(problems.found)
    _check_form(description, problems)
    if len(problems.found) > before:
        return
    _check_extents(description, problems, machine)
    for index, dim in enumerate(description.dims):
        count = blocks(description, index)
        if count % dim.split:
            unit = "blocks of lanes" if count != dim.size else "steps"
            expected = f"a divisor of {count}, its {unit}"
            problems.say(f"openspyre_.dims[{index}].split", str(dim.split), expected)
    for index, tensor in enumerate(description.tensors):
        _check_tensor(description, index, tensor, problems, machine)
    check_kind(description, problems, machine)
    check_formats(description, problems)
    if not problems.found:
        check_unit(description, problems)
        _check_stored(description, problems)
        check_expression(description, problems)


def _check_form(description: Description, problems: Problems) -> None:
    """What the files' form already says, for a description that never was a file."""
    dims = len(description.dims)
    if not description.outputs:
        problems.say("openspyre_", "no output", "one or more")
    if any(len(attribute) != 2 for attribute in description.attributes):
        problems.add("openspyre_.attributes", description.attributes, "names with values")
    if dims > MAX_DIMS or any(dim.size < 0 or dim.split < 1 for dim in description.dims):
        problems.say("openspyre_.dims", str(dims), f"at most {MAX_DIMS}, with sizes from 0 and splits from 1")
    for index, tensor in enumerate(description.tensors):
        field, layout, view = f"openspyre_.tensors[{index}]", tensor.layout, tensor.view
        if layout.device_size[-1] != layout.elems_per_stick():
            expected = f"a last dim of {layout.elems_per_stick()}, the stick"
            problems.add(f"{field}.device_size", layout.device_size, expected)
        if (tensor.lanes is Lanes.VECTOR) != (tensor.lane_dim is not None) or (tensor.lanes is Lanes.VIEW and not view):
            problems.say(f"{field}.lanes", tensor.lanes.value, "a lane_dim if and only if vector, a view if view")
        if tensor.lane_dim is not None and not 0 <= tensor.lane_dim < dims:
            problems.add(f"{field}.lane_dim", tensor.lane_dim, f"one of the {dims} dims")
        if len(tensor.strides) != dims or (view is not None and len(view.strides) != dims):
            problems.add(f"{field}.strides", tensor.strides, f"{dims}, one per dim")
        elif min(tensor.strides, default=0) < 0:
            problems.add(f"{field}.strides", tensor.strides, "none below 0: it would leave the argument at its begin")
        if view is not None and (
            len(view.buffer_size) != len(view.buffer_stride) or min((*view.buffer_size, *view.buffer_stride, 0)) < 0
        ):
            problems.add(f"{field}.view", view.buffer_stride, f"{len(view.buffer_size)} strides, nothing below 0")
    for operand in description.inputs:
        if isinstance(operand, Iota) and len(operand.strides) != dims:
            problems.add("openspyre_.inputs.iota", operand.strides, f"{dims} strides, one per dim")
        if isinstance(operand, Constant) and (not 0 <= operand.bits < 1 << 32 or operand.dtype not in CONSTANT_DTYPES):
            problems.say("openspyre_.inputs.constant", f"{operand.bits} as {operand.dtype}", "32 bits of a float")


def _check_extents(description: Description, problems: Problems, machine: Machine) -> None:
    """Loops no card could walk, and numbers whose products would wrap."""
    movement = TABLE[description.row].kind is Kind.MOVEMENT
    for index, dim in enumerate(description.dims):
        if dim.size > machine.max_loop_passes or (dim.size == 0 and not movement):
            expected = f"from {0 if movement else 1} to {machine.max_loop_passes}"
            problems.add(f"openspyre_.dims[{index}].size", dim.size, expected)
    if prod(dim.size for dim in description.dims) > machine.max_points_per_op:
        problems.say("openspyre_.dims", "sizes", f"at most {machine.max_points_per_op} points together")
    for operand in description.inputs:
        if isinstance(operand, Iota):
            steps = zip(operand.strides, description.dims, strict=True)
            furthest = abs(operand.offset) + sum(abs(stride) * max(dim.size, 1) for stride, dim in steps)
            if furthest >= FURTHEST_ELEMENT:
                problems.add("openspyre_.inputs.iota", furthest, f"numbers below {FURTHEST_ELEMENT}")


def _check_stored(description: Description, problems: Problems) -> None:
    """An op stores every element once, or it would never end. An index may choose a place again."""
    row = TABLE[description.row]
    if row.by_element or (row.kind is Kind.INDEXED and row.indexing is not Indexing.READ):
        return
    if row.kind is Kind.MOVEMENT:
        points = prod(dim.size for dim in description.dims)
    else:
        points = prod(blocks(description, i) for i, dim in enumerate(description.dims) if not dim.reduced)
    for output in description.outputs:
        first, last = reach(description, output, per_core=False)
        room = last - first + 1
        if row.kind is Kind.MOVEMENT and output.view is not None:
            room = 1 + sum((n - 1) * s for n, s in zip(output.view.buffer_size, output.view.buffer_stride, strict=True))
        if points > room:
            problems.say("openspyre_.strides", f"{points} points in {room} elements of an output", "a place for each")


def _check_tensor(description: Description, index: int, tensor: Tensor, problems: Problems, machine: Machine) -> None:
    field = f"openspyre_.tensors[{index}]"
    first, last = reach(description, tensor)
    span = (last - first + 1) * tensor.bytes_per_element
    limit = machine.max_span_bytes_per_core_and_tensor
    if span > limit and not _is_table(description, tensor):
        problems.say(f"{field}.strides", f"{-(-span // MIB)} MiB in one core's reach", f"at most {limit} bytes")
    if tensor.view is not None:
        _check_view(description, tensor, field, problems)
    lane = next((t.lane_dim for t in description.tensors if t.lane_dim is not None), None)
    compute = TABLE[description.row].kind not in (Kind.MOVEMENT, Kind.CONTRACTION, Kind.INDEXED)
    if compute and tensor.lanes is Lanes.SPLAT and lane is not None and tensor.strides[lane]:
        problems.say(f"{field}.strides[{lane}]", str(tensor.strides[lane]), "0, as one value serves all lanes")


def _is_table(description: Description, tensor: Tensor) -> bool:
    """What an index chooses from, or writes to: it is reached a row at a time, and may be of any size."""
    row = TABLE[description.row]
    if row.kind is not Kind.INDEXED:
        return False
    return tensor is (description.tensors[0] if row.indexing is Indexing.READ else description.tensors[-1])


def _check_view(description: Description, tensor: Tensor, field: str, problems: Problems) -> None:
    view = tensor.view
    assert view is not None
    if 0 in (dim.size for dim in description.dims):
        return
    steps = [stride * (dim.size - 1) for stride, dim in zip(view.strides, description.dims, strict=True)]
    first = view.offset + sum(step for step in steps if step < 0)
    last = view.offset + sum(step for step in steps if step > 0)
    end = sum((n - 1) * s for n, s in zip(view.buffer_size, view.buffer_stride, strict=True))
    if min(view.strides, default=0) < 0:
        problems.add(f"{field}.view.strides", view.strides, "none below 0")
    elif 0 in view.buffer_size or first < 0 or last > end:
        problems.say(f"{field}.view", f"host offsets {first} to {last}", f"within 0 to {end}, the buffer's")


def reach(description: Description, tensor: Tensor, *, per_core: bool = True) -> tuple[int, int]:
    """First and last element one core (or all together) touches, from the tensor's first on."""
    if tensor.lanes is Lanes.VIEW or 0 in (dim.size for dim in description.dims):
        return 0, 0
    first, last = 0, tensor.elems_per_stick - 1 if tensor.lanes is Lanes.VECTOR else 0
    for index, (dim, stride) in enumerate(zip(description.dims, tensor.strides, strict=True)):
        steps = blocks(description, index) // (dim.split if per_core else 1)
        together = tuple(t for t in description.tensors if t.lane_dim == index)
        if index == tensor.lane_dim:
            # The last block of a longer stick may reach past this tensor's own: only its sticks count.
            steps *= lane_block(together) // tensor.elems_per_stick
            if steps * (dim.split if per_core else 1) * tensor.elems_per_stick > dim.size:
                steps = min(steps, -(-dim.size // tensor.elems_per_stick))
        elif together:
            steps = dim.size // (dim.split if per_core else 1)
        extent = stride * max(steps - 1, 0)
        first, last = first + min(extent, 0), last + max(extent, 0)
    return first, last
