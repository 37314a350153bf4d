"""What a bundle must satisfy beyond its form: the card's limits, accesses inside buffers, temps that do not collide."""

from __future__ import annotations

from openspyre.artifact.expression_check import check_expression
from openspyre.artifact.fields import Problems
from openspyre.artifact.geometry import blocks, lane_block
from openspyre.artifact.model import Buffer, Bundle, Description, Execution, Lanes, Place, Role, Scalar, Tensor
from openspyre.spec.machine import MIB, SPYRE, Machine
from openspyre.spec.ops import TABLE, Indexing, Kind

MAX_OPERANDS = 8


def check_description(description: Description, problems: Problems, machine: Machine = SPYRE) -> None:
    """Everything wrong with one op, addresses apart."""
    cores = description.cores
    if cores > machine.cores:
        problems.say("openspyre_.dims", f"splits for {cores} cores", f"at most {machine.cores}")
    if max(len(description.inputs), len(description.outputs)) > MAX_OPERANDS:
        problems.say("openspyre_.inputs", f"{len(description.inputs)} operands", f"at most {MAX_OPERANDS}")
    for index, dim in enumerate(description.dims):
        count = blocks(description, index)
        if count % dim.split:
            unit = "blocks of lanes" if count != dim.size else "steps"
            expected = f"a divisor of {count}, its {unit}"
            problems.say(f"openspyre_.dims[{index}].split", str(dim.split), expected)
    for index, tensor in enumerate(description.tensors):
        _check_tensor(description, index, tensor, problems, machine)
    _check_kind(description, problems)
    if not problems.found:
        check_expression(description, problems)


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


def _check_kind(description: Description, problems: Problems) -> None:
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
    else:
        if len(set(lanes)) > 1:
            problems.say("openspyre_.lane_dim", str(sorted(set(lanes))), "one dim along the sticks of all tensors")
        if any(tensor.lanes is Lanes.VIEW for tensor in description.tensors):
            problems.say("openspyre_.lanes", "view", "vector or splat: only a relayout goes by host views")
        if reduced and kind not in (Kind.REDUCTION, Kind.ROWS):
            problems.say("openspyre_.dims", f"{len(reduced)} reduced dims", f"none in a {kind} op")
        if kind is Kind.ROWS and any(dim.split > 1 for dim in reduced):
            problems.say("openspyre_.dims", "a split of a reduced dim", "1: a row stays on one core")
    _check_operand_count(description, problems)


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
    if not row.by_element and len(lanes | own) > 1:
        problems.say("openspyre_.lane_dim", str(sorted(lanes | own)), "one dim along the sticks of all tensors")


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


def _check_operand_count(description: Description, problems: Problems) -> None:
    row = TABLE[description.row]
    wanted = row.operands + len(row.scalars)
    if row.kind in (Kind.POINTWISE, Kind.CREATION, Kind.RANDOM) and len(description.inputs) != wanted:
        problems.say("openspyre_.inputs", f"{len(description.inputs)} operands", f"{wanted} for {row.name}")


def _check_tensor(description: Description, index: int, tensor: Tensor, problems: Problems, machine: Machine) -> None:
    field = f"labeledDs_[{index}].openspyre_"
    first, last = reach(description, tensor)
    span = (last - first + 1) * tensor.bytes_per_element
    limit = machine.max_span_bytes_per_core_and_tensor
    if span > limit:
        problems.say(f"{field}.strides", f"{-(-span // MIB)} MiB in one core's reach", f"at most {limit // MIB} MiB")
    if tensor.view is not None:
        _check_view(description, tensor, field, problems)
    lane = next((t.lane_dim for t in description.tensors if t.lane_dim is not None), None)
    compute = TABLE[description.row].kind not in (Kind.MOVEMENT, Kind.CONTRACTION, Kind.INDEXED)
    if compute and tensor.lanes is Lanes.SPLAT and lane is not None and tensor.strides[lane]:
        problems.say(f"{field}.strides[{lane}]", str(tensor.strides[lane]), "0, as one value serves all lanes")


def _check_view(description: Description, tensor: Tensor, field: str, problems: Problems) -> None:
    view = tensor.view
    assert view is not None
    if 0 in (dim.size for dim in description.dims):
        return
    steps = [stride * (dim.size - 1) for stride, dim in zip(view.strides, description.dims, strict=True)]
    first = view.offset + sum(step for step in steps if step < 0)
    last = view.offset + sum(step for step in steps if step > 0)
    end = sum((n - 1) * s for n, s in zip(view.buffer_size, view.buffer_stride, strict=True))
    if 0 in view.buffer_size or first < 0 or last > end:
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


def check_executions(bundle: Bundle, problems: Problems) -> None:
    """Everything wrong with the executions: names, and accesses that leave their buffers."""
    buffers = {buffer.name: buffer for buffer in bundle.buffers}
    scalars = {scalar.name: scalar for scalar in bundle.scalars}
    for number, execution in enumerate(bundle.executions):
        _check_execution(execution, number, bundle.descriptions[execution.description], buffers, scalars, problems)


def _check_execution(
    execution: Execution,
    number: int,
    description: Description,
    buffers: dict[str, Buffer],
    scalars: dict[str, Scalar],
    problems: Problems,
) -> None:
    field = f"execution {number} ({execution.name})"
    for name, slot in zip(execution.scalars, description.scalar_slots, strict=True):
        if name not in scalars or scalars[name].dtype != slot.dtype:
            problems.add(f"{field}.openspyre_scalars", name, f"a {slot.dtype} scalar of the manifest")
    for index, (place, tensor) in enumerate(zip(execution.places, description.tensors, strict=True)):
        _check_place(description, place, tensor, buffers[place.buffer], f"{field}.Tensor{index}", problems)
    outputs = execution.places[len(description.tensors) - len(description.outputs) :]
    for place in outputs:
        if buffers[place.buffer].role is Role.INPUT:
            problems.say(f"{field}.openspyre_buffers", f"input {place.buffer} is written", "an output, update or temp")


def _check_place(
    description: Description, place: Place, tensor: Tensor, buffer: Buffer, field: str, problems: Problems
) -> None:
    if tensor.layout != buffer.layout:
        problems.say(field, str(tensor.layout), f"{buffer.layout}, the layout of {buffer.name}")
        return
    view = tensor.view
    if view is not None and (view.buffer_size, view.buffer_stride) != (buffer.size, buffer.stride):
        problems.say(
            f"{field}.view", str(view.buffer_size), f"{buffer.size}, strides {buffer.stride}, of {buffer.name}"
        )
    first, last = reach(description, tensor, per_core=False)
    start = place.byte + first * tensor.bytes_per_element
    end = place.byte + (last + 1) * tensor.bytes_per_element
    if place.byte % SPYRE.stick_bytes:
        problems.say(f"{field}.address", f"byte {place.byte}", f"a multiple of {SPYRE.stick_bytes}, a stick")
    if 0 not in (dim.size for dim in description.dims) and (start < 0 or end > buffer.layout.device_bytes):
        expected = f"within the {buffer.layout.device_bytes} bytes of {buffer.name}"
        problems.say(f"{field}.address", f"bytes {start} to {end}", expected)


def check_pool(bundle: Bundle, problems: Problems) -> None:
    """Temps must lie in the pool, and those that live at the same time apart from each other."""
    lives = lifetimes(bundle)
    taken: list[tuple[int, int, Buffer]] = []
    for temp in bundle.temps:
        start, end = temp.place or 0, (temp.place or 0) + temp.layout.device_bytes
        field = f"temps.{temp.name}.place"
        if start % SPYRE.stick_bytes or end > bundle.pool_bytes:
            problems.say(field, f"bytes {start} to {end}", f"whole sticks within the pool's {bundle.pool_bytes} bytes")
        if temp.name in lives:
            taken.append((start, end, temp))
    taken.sort(key=lambda item: item[:2])
    for place, (start, end, temp) in enumerate(taken):
        for other_start, other_end, other in taken[place + 1 :]:
            if other_start >= end:
                break
            (born, dies), (other_born, other_dies) = lives[temp.name], lives[other.name]
            if born <= other_dies and other_born <= dies:
                found = f"bytes {start} to {end} overlap {other.name}'s {other_start} to {other_end}"
                problems.say(f"temps.{temp.name}.place", found, "places of their own while both are in use")


def lifetimes(bundle: Bundle) -> dict[str, tuple[int, int]]:
    """First and last execution that touches each buffer."""
    lives: dict[str, tuple[int, int]] = {}
    for number, execution in enumerate(bundle.executions):
        for place in execution.places:
            lives[place.buffer] = (lives.get(place.buffer, (number, number))[0], number)
    return lives


def execution_fits(execution: Execution, description: Description) -> bool:
    counts = len(execution.places), len(execution.scalars)
    return counts == (len(description.tensors), len(description.scalar_slots))
