"""Gives every buffer without a layout the one that the documents' rules say: for the strategy `documented`.

Layouts go from operands to results: a result has its sticks where an operand has them. Where operands differ, every choice is
followed through the rest of the program, the cheapest ones together, and the first of those that restickify least is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

from openspyre.compiler.ir import Access, Buffer, Iota, Op, Operand, Program, Role
from openspyre.compiler.loops import expanded, listed
from openspyre.compiler.passes.choose_layouts import ChooseLayouts, default_layout
from openspyre.compiler.sticks import Misfit, StickAccess, stick_access
from openspyre.spec.errors import InvalidLayout
from openspyre.spec.formats import require_supported
from openspyre.spec.layout import MAX_RANK, SpyreTensorLayout
from openspyre.spec.ops import TABLE, Kind

SPARSE = -1  # instead of a dim: one value a stick
Buffers = Mapping[str, Buffer]


@dataclass(frozen=True, slots=True)
class PropagateLayouts:
    """`width`: how many choices are followed at a time."""

    width: int = 64

    def run(self, program: Program) -> Program:
        chosen = {buffer.name: buffer for buffer in ChooseLayouts().run(program).buffers}
        ops = [op for op, _ in listed(program.body)]
        flat = {access.buffer for op in ops if TABLE[op.row].by_element for access in op.accesses}
        is_open = {b.name for b in program.buffers if b.layout is None and b.role in (Role.TEMP, Role.OUTPUT)} - flat
        states: list[tuple[float, dict[str, Buffer]]] = [(0.0, {})]
        for op in ops:
            states = _after(op, states, chosen, is_open, self.width)
        chosen |= states[0][1]
        buffers = tuple(chosen[buffer.name] for buffer in program.buffers)
        body = expanded(program.body, lambda op: [_in_order_of_memory(op)])
        return replace(program, buffers=buffers, body=body)


def _in_order_of_memory(op: Op) -> Op:
    """A pointwise op walks its result as it lies on the host, whatever the order of its dims."""
    order = sorted(range(len(op.dims)), key=lambda d: -abs(op.outputs[0].strides[d])) if op.outputs else []
    if TABLE[op.row].kind is not Kind.POINTWISE or order == sorted(order):
        return op

    def turned(operand: Operand) -> Operand:
        if isinstance(operand, Access | Iota):
            return replace(operand, strides=tuple(operand.strides[d] for d in order))
        return operand

    dims, inputs = tuple(op.dims[d] for d in order), tuple(map(turned, op.inputs))
    outputs = tuple(replace(output, strides=tuple(output.strides[d] for d in order)) for output in op.outputs)
    return replace(op, dims=dims, inputs=inputs, outputs=outputs)


def _after(
    op: Op,
    states: list[tuple[float, dict[str, Buffer]]],
    common: dict[str, Buffer],
    is_open: set[str],
    width: int,
) -> list[tuple[float, dict[str, Buffer]]]:
    """The states once this op's results have layouts. What all of them agree on goes into `common`."""
    results = [output.buffer for output in op.outputs if output.buffer in is_open]
    is_open -= set(results)  # the first that writes it decides
    grown: list[tuple[float, dict[str, Buffer], dict[str, Buffer]]] = []
    for cost, own in states:
        buffers = {a.buffer: own.get(a.buffer, common[a.buffer]) for a in op.accesses}
        for made in _choices(op, results, buffers):
            grown.append((cost + restickified(op, {**buffers, **made}), own, made))
    grown = sorted(grown, key=lambda state: state[0])[:width]
    if all(made == grown[0][2] for _, _, made in grown):
        common |= grown[0][2]
        return [(cost, own) for cost, own, _ in grown]
    return [(cost, {**own, **made}) for cost, own, made in grown]


def _choices(op: Op, results: Sequence[str], buffers: Buffers) -> Iterator[dict[str, Buffer]]:
    """Layouts that the results may have; one that the rules say nothing about keeps what it has."""
    found = False
    outputs = [output for output in op.outputs if output.buffer in results]
    for stick in _sticks(op, buffers) if outputs else ():
        layouts = [_copied(op, o, stick, buffers) or _layout(op, o, buffers[o.buffer], stick) for o in outputs]
        if all(layout is not None for layout in layouts):
            found = True
            yield {o.buffer: replace(buffers[o.buffer], layout=lay) for o, lay in zip(outputs, layouts, strict=True)}
    if not found:
        yield {name: buffers[name] for name in results}


# --- where sticks may run ------------------------------------------------------------------------------------------------


def _sticks(op: Op, buffers: Buffers) -> list[int]:
    """Dims of the op that its results' sticks may run along, in the order in which they are tried."""
    kind = TABLE[op.row].kind
    if kind is Kind.CONTRACTION:
        return [len(op.dims) - 2]
    if kind is Kind.MOVEMENT:
        return [len(op.dims) - 1]  # row by row, whatever is copied
    if kind not in (Kind.POINTWISE, Kind.REDUCTION):
        return []
    read = [a for a in op.inputs if isinstance(a, Access) and _moving(op, a)]
    if not read:
        return [len(op.dims) - 1] if op.dims else []
    met = [stick_access(access, op.dims, buffers[access.buffer]) for access in read]
    along = sorted({each.lane_dim for each in met if isinstance(each, StickAccess) and each.lane_dim is not None})
    if kind is Kind.REDUCTION:
        return [SPARSE if op.dims[dim].reduced else dim for dim in along]
    if not along and not any(isinstance(each, Misfit) for each in met):
        return [SPARSE]
    if len({_lanes(access) for access in (*read, *op.outputs)}) > 1:
        return [len(op.dims) - 1]  # a cast between formats lays its result out anew
    whole = [dim for dim in along if all(_starts_on_sticks(op, access, dim, buffers) for access in read)]
    return whole or [dim for dim in range(len(op.dims) - 1) if op.dims[dim].size % _lanes(op.outputs[0]) == 0]


def _moving(op: Op, access: Access) -> list[int]:
    return [d for d, dim in enumerate(op.dims) if dim.size > 1 and access.strides[d]]


def _lanes(access: Access) -> int:
    return require_supported(access.dtype).device.elems_per_stick()


def _starts_on_sticks(op: Op, access: Access, stick: int, buffers: Buffers) -> bool:
    """Whether an access, laid out with its sticks along that dim, would begin with a whole one."""
    buffer = buffers[access.buffer]
    if not access.strides[stick] or op.dims[stick].size == 1:
        return True
    found = stick_access(access, op.dims, buffer)
    if isinstance(found, StickAccess):
        return True
    step = abs(access.strides[stick])
    within = access.offset % (step * next((n for n, s in zip(buffer.size, buffer.stride, strict=True) if s == step), 1))
    return within // step % _lanes(access) == 0


def _copied(op: Op, output: Access, stick: int, buffers: Buffers) -> SpyreTensorLayout | None:
    """A pointwise result lies as an operand does that is walked in the same way."""
    buffer = buffers[output.buffer]
    for access in op.inputs if TABLE[op.row].kind is Kind.POINTWISE and stick != SPARSE else ():
        if not isinstance(access, Access) or (access.offset, access.strides) != (output.offset, output.strides):
            continue
        like = buffers[access.buffer]
        found = stick_access(access, op.dims, like)
        same = (like.size, like.stride, _lanes(access)) == (buffer.size, buffer.stride, _lanes(output))
        if same and like.layout is not None and isinstance(found, StickAccess) and found.lane_dim == stick:
            form = require_supported(buffer.dtype).device
            return SpyreTensorLayout(like.layout.device_size, like.layout.stride_map, form)
    return None


def _layout(op: Op, output: Access, buffer: Buffer, stick: int) -> SpyreTensorLayout | None:
    """Dims of the host in their order, those of size 1 behind the others, and then the one along the sticks."""
    if buffer.layout is not None and buffer.layout.element_arrangement.name == "EXX2":
        return None
    if TABLE[op.row].kind is Kind.MOVEMENT:
        return default_layout(buffer)
    last: int | None = SPARSE
    if stick != SPARSE:
        own = (output.strides[stick], op.dims[stick].size)
        last = next((h for h, n in enumerate(buffer.size) if (buffer.stride[h], n) == own and n > 1), None)
    if last is None or len(buffer.size) + (last == SPARSE) > MAX_RANK:
        return default_layout(buffer) if not any(n > 1 for n in buffer.size) else None
    others = [h for h in range(len(buffer.size)) if h != last]
    # Those of a product keep their places.
    order = others if TABLE[op.row].kind is Kind.CONTRACTION else sorted(others, key=lambda h: buffer.size[h] == 1)
    try:
        layout = SpyreTensorLayout(list(buffer.size), list(buffer.stride), buffer.dtype, [*order, last])
        layout.addressing(buffer.size, buffer.stride)
    except InvalidLayout:
        return None
    return layout


# --- what it costs -------------------------------------------------------------------------------------------------------


def restickified(op: Op, buffers: Buffers) -> float:
    """Elements that must be laid out anew for an op: of every operand whose sticks do not run as those of the result."""
    row = TABLE[op.row]
    if row.kind not in (Kind.POINTWISE, Kind.REDUCTION, Kind.CONTRACTION):
        return 0.0
    read = [access for access in op.inputs if isinstance(access, Access)]
    if row.kind is Kind.CONTRACTION:
        wanted: list[int | None] = [len(op.dims) - 1, len(op.dims) - 2]
    else:
        made = stick_access(op.outputs[0], op.dims, buffers[op.outputs[0].buffer])
        if row.kind is Kind.REDUCTION or isinstance(made, Misfit):
            return 0.0
        wanted = [made.lane_dim] * len(read)
    return sum(_edge(op, access, lane, buffers) for access, lane in zip(read, wanted, strict=False))


def _edge(op: Op, access: Access, lane: int | None, buffers: Buffers) -> float:
    buffer = buffers[access.buffer]
    found = stick_access(access, op.dims, buffer)
    needs = lane if lane is not None and op.dims[lane].size > 1 and access.strides[lane] else None
    if isinstance(found, StickAccess) and found.lane_dim == needs:
        return 0.0
    sparse = isinstance(found, StickAccess) and found.lane_dim is None
    assert buffer.layout is not None
    return inf if sparse else float(prod(buffer.layout.device_size))
