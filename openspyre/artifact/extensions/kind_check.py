"""What each kind of op asks of its dims and tensors: the shapes of iteration that the card has."""

from __future__ import annotations

from math import prod

from openspyre.artifact.extensions.description import Description, Lanes, Tensor, blocks, lane_block
from openspyre.artifact.fields import Problems
from openspyre.spec.layout import tile
from openspyre.spec.machine import SPYRE, Machine
from openspyre.spec.ops import TABLE, Indexing, Kind

_MOST_COUNTED = (1 << 31) - 1  # places in a sorted row are int32


def _check_contraction(description: Description, problems: Problems) -> None:
    lanes = [tensor.lane_dim for tensor in description.tensors if tensor.lane_dim is not None]
    n, k = len(description.dims) - 2, len(description.dims) - 1
    shape = n >= 1 and len(description.tensors) == len(lanes) == 3 and len(description.inputs) == 2
    if not shape or [index for index, dim in enumerate(description.dims) if dim.reduced] != [k]:
        expected = "two inputs and an output, all along sticks, over batch, m, n and a reduced k, k last"
        problems.say("openspyre_", f"{len(description.dims)} dims, {len(description.tensors)} tensors", expected)
    elif lanes not in ([k, n, n], [k, k, n]):
        expected = f"[{k}, {n}, {n}] or [{k}, {k}, {n}]: along k, along n or k, along n"
        problems.say("openspyre_.lane_dim", str(lanes), expected)


def check_kind(description: Description, problems: Problems, machine: Machine = SPYRE) -> None:
    kind = TABLE[description.row].kind
    lanes = [tensor.lane_dim for tensor in description.tensors if tensor.lane_dim is not None]
    reduced = [dim for dim in description.dims if dim.reduced]
    if kind is Kind.CONTRACTION:
        _check_contraction(description, problems)
    elif kind is Kind.INDEXED:
        _check_indexed(description, problems)
    elif kind in (Kind.SCAN, Kind.SORT):
        _check_ordered(description, problems)
    elif kind is Kind.MOVEMENT:
        if len(description.tensors) != 2 or len(description.inputs) != 1:
            problems.say("openspyre_.inputs", f"{len(description.inputs)} operands", "one tensor in, one out")
        elif any(tensor.view is None for tensor in description.tensors):
            problems.say("openspyre_.view", "none", "a host view of both tensors of a relayout")
        if reduced:
            problems.say("openspyre_.dims", f"{len(reduced)} reduced dims", "none in a movement")
    else:
        if len(set(lanes)) > 1:
            problems.say("openspyre_.lane_dim", str(sorted(set(lanes))), "one dim along the sticks of all tensors")
        if any(tensor.lanes is Lanes.VIEW for tensor in description.tensors):
            problems.say("openspyre_.lanes", "view", "vector or splat: only a relayout goes by host views")
        if reduced and kind not in (Kind.REDUCTION, Kind.MOMENTS):
            problems.say("openspyre_.dims", f"{len(reduced)} reduced dims", f"none in a {kind} op")
        if kind is Kind.MOMENTS:
            _check_rows(description, problems, machine)
        if kind is Kind.REDUCTION:
            _check_reduction(description, problems)
    _check_operand_count(description, problems)


def _check_rows(description: Description, problems: Problems, machine: Machine) -> None:
    reduced = [dim for dim in description.dims if dim.reduced]
    if any(dim.split > 1 for dim in reduced):
        problems.say("openspyre_.dims", "a split of a reduced dim", "1: a row stays on one core")
    passes = (blocks(description, index) for index, dim in enumerate(description.dims) if dim.reduced)
    length = lane_block(description.tensors) * prod(passes)
    limit = machine.max_span_bytes_per_core_and_tensor
    if length > limit:
        problems.say("openspyre_.dims", f"rows of {length} elements", f"at most {limit}, as many as a core reaches")


def _check_reduction(description: Description, problems: Problems) -> None:
    for index, dim in enumerate(description.dims):
        if dim.reduced and any(output.strides[index] for output in description.outputs):
            problems.say(f"openspyre_.dims[{index}]", "an output that moves with a reduced dim", "a stride of 0")


def _check_indexed(description: Description, problems: Problems) -> None:
    row = TABLE[description.row]
    tensors = description.tensors
    if len(tensors) != 3 or len(description.inputs) != 2 or not description.dims or not description.dims[-1].reduced:
        expected = "two tensors in, one out, and a last dim the index counts along"
        problems.say("openspyre_", f"{len(description.dims)} dims, {len(tensors)} tensors", expected)
        return
    if any((tensor.view is None) is row.by_element for tensor in tensors):
        problems.say("openspyre_.view", "some", "host views of all tensors of an op by elements, else none")
    table = tensors[0] if row.indexing is Indexing.READ else tensors[-1]
    lanes = {t.lane_dim for t in tensors if t is not table and t.lane_dim is not None}
    own = {lane for lane in (table.lane_dim,) if lane is not None and lane != len(description.dims) - 1}
    if any(dim.reduced for dim in description.dims[:-1]):
        problems.say("openspyre_.dims", "more reduced dims than the last", "one, which the index counts along")
    if row.by_element:
        _check_flat(description, problems)
        return
    if len(lanes | own) > 1:
        problems.say("openspyre_.lane_dim", str(sorted(lanes | own)), "one dim along the sticks of all tensors")
    if any(tensor.lanes is Lanes.VIEW for tensor in tensors):
        problems.say("openspyre_.lanes", "view", "vector or splat: only ops by elements go by host views")
    _check_table(description, table, problems)


def _check_table(description: Description, table: Tensor, problems: Problems) -> None:
    """An index per lane picks single elements along a table's sticks; otherwise one index chooses a row for all lanes."""
    last = len(description.dims) - 1
    reads = TABLE[description.row].indexing is Indexing.READ
    if description.tensors[1].lane_dim is not None and table.lane_dim not in ((None, last) if reads else (last,)):
        problems.say("openspyre_.tensors[1].lanes", "vector", "splat: one index chooses a row for all lanes")
    for index, dim in enumerate(description.dims[:-1]):
        if not reads and dim.split > 1 and not table.strides[index]:
            problems.say(f"openspyre_.dims[{index}].split", str(dim.split), "1: it chooses the scattered row")
    for number, tensor in enumerate(description.tensors):
        if tensor is not table and tensor.strides[last]:
            field = f"openspyre_.tensors[{number}].strides[{last}]"
            problems.say(field, str(tensor.strides[last]), "0, as only the table moves with the index")


def _check_flat(description: Description, problems: Problems) -> None:
    """Ops by elements count them in buffers of one dim, where the host's offset is the card's."""
    for index, tensor in enumerate(description.tensors):
        view, layout = tensor.view, tensor.layout
        if view is None or view.buffer_size == (1,):
            continue
        flat = len(view.buffer_size) == 1 and view.buffer_stride == (1,)
        if not flat or (tuple(layout.device_size), tuple(layout.stride_map)) != tile(
            view.buffer_size, view.buffer_stride, layout.elems_per_stick(), (0,)
        ):
            problems.say(f"openspyre_.tensors[{index}].view", str(layout), "a flat buffer: one dim, dense, row-major")


def _check_ordered(description: Description, problems: Problems) -> None:
    outputs = 1 if TABLE[description.row].kind is Kind.SCAN else 2
    sizes = [dim.size for dim in description.dims]
    if (len(description.inputs), len(description.outputs), len(sizes)) != (1, outputs, outputs + 1):
        found = f"{len(sizes)} dims, {len(description.tensors)} tensors"
        problems.say("openspyre_", found, f"one tensor in, {outputs} out, over {outputs + 1} dims")
    elif any(tensor.view is None for tensor in description.tensors):
        problems.say("openspyre_.view", "none", "host views of all tensors of an op by elements")
    elif sizes[-1] > sizes[1]:
        problems.say("openspyre_.dims[2].size", str(sizes[-1]), f"at most {sizes[1]}, the elements of a row")
    elif sizes[1] > _MOST_COUNTED:
        problems.say("openspyre_.dims[1].size", str(sizes[1]), f"at most {_MOST_COUNTED}, what an int32 counts")
    else:
        _check_flat(description, problems)
        ends = [1, *([len(sizes) - 1] * outputs)]
        for index, (tensor, end) in enumerate(zip(description.tensors, ends, strict=True)):
            if tensor.view is not None and tensor.view.strides[end] != 1:
                field = f"openspyre_.tensors[{index}].view.strides[{end}]"
                problems.say(field, str(tensor.view.strides[end]), "1: elements of a row lie one behind the other")


def _check_operand_count(description: Description, problems: Problems) -> None:
    row = TABLE[description.row]
    wanted = row.operands + len(row.scalars)
    if row.kind in (Kind.POINTWISE, Kind.CREATION, Kind.RANDOM, Kind.REDUCTION) and len(description.inputs) != wanted:
        problems.say("openspyre_.inputs", f"{len(description.inputs)} operands", f"{wanted} for {row.name}")
