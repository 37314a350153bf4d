"""Packs index tensors as the hardware takes them, side by side in their sticks, where a pass before laid them out one to a stick."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from openspyre.compiler import ir
from openspyre.compiler.emit.shared import has_hardware_op, untold_tables
from openspyre.compiler.loops import expanded, listed
from openspyre.compiler.passes.choose_layouts import default_layout
from openspyre.compiler.passes.decompose_relayouts import DecomposeRelayouts
from openspyre.spec.addressing import row_major
from openspyre.spec.ops import TABLE, Kind


@dataclass(frozen=True, slots=True)
class PackIndices:
    def run(self, program: ir.Program) -> ir.Program:
        if not any(_index(op) for op, _ in listed(program.body)):
            return program
        # Where nothing tells how long a table is, the op is none of the hardware, however its index lies. What fills
        # a table is known once relayouts are decomposed, which those of indices shall be with them.
        after = DecomposeRelayouts().run(program)
        untold = untold_tables([op for op, _ in listed(after.body)], {buffer.name: buffer for buffer in after.buffers})
        return _moved(_relayouts_undone(_constants_packed(program, untold), untold), untold)


def _relayouts_undone(program: ir.Program, untold: frozenset[str]) -> ir.Program:
    """Gathers and scatters that the hardware takes so read the index that a relayout of theirs read; relayouts that nobody needs any
    more are dropped. A program with loops stays as it is: what a relayout read may be written in the next iteration."""
    if any(isinstance(node, ir.Loop) for node in program.body):
        return program
    buffers = {buffer.name: buffer for buffer in program.buffers}
    temps = {buffer.name for buffer in program.buffers if buffer.role is ir.Role.TEMP}
    made: dict[str, ir.Op] = {}  # by temp, the relayout that filled it from a source that still is as it was
    ops = []
    for op in program.ops:
        index = _index(op)
        relayout = made.get(index.buffer) if index is not None else None
        dense = _expanded(op, relayout) if relayout is not None else None
        replaced = None if dense is None else replace(op, inputs=(op.inputs[0], dense, *op.inputs[2:]))
        if replaced is not None and has_hardware_op(replaced, buffers, untold):
            op = replaced
        ops.append(op)
        written = {access.buffer for access in op.outputs}
        made = {
            name: other
            for name, other in made.items()
            if name not in written and not written & {access.buffer for access in other.accesses}
        }
        if TABLE[op.row].kind is Kind.MOVEMENT and op.outputs[0].buffer in temps:
            made[op.outputs[0].buffer] = op
    read = Counter(access.buffer for op in ops for access in op.inputs if isinstance(access, ir.Access))
    first = Counter(access.buffer for op in program.ops for access in op.inputs if isinstance(access, ir.Access))
    idle = {name for name in temps if first[name] and not read[name]}
    return replace(program, body=tuple(op for op in ops if not all(access.buffer in idle for access in op.outputs)))


def _constants_packed(program: ir.Program, untold: frozenset[str]) -> ir.Program:
    """Gathers and scatters that the hardware takes so read constants side by side in their sticks: a constant is tiled in any layout."""
    buffers = {buffer.name: buffer for buffer in program.buffers}

    def with_twin(op: ir.Op) -> list[ir.Op]:
        index = _index(op)
        if index is None or buffers[index.buffer].values is None:
            return [op]
        twin = replace(
            buffers[index.buffer], name=f"{index.buffer}.dense", layout=default_layout(buffers[index.buffer])
        )
        dense = replace(op, inputs=(op.inputs[0], index.on(twin.name), *op.inputs[2:]))
        if twin.layout == buffers[index.buffer].layout or not has_hardware_op(
            dense, {**buffers, twin.name: twin}, untold
        ):
            return [op]
        buffers[twin.name] = twin
        return [dense]

    body = expanded(program.body, with_twin)
    read = {access.buffer for op, _ in listed(body) for access in op.accesses}
    kept = tuple(buffer for buffer in buffers.values() if buffer.values is None or buffer.name in read)
    return replace(program, buffers=kept, body=body)


def _moved(program: ir.Program, untold: frozenset[str]) -> ir.Program:
    """Gathers and scatters that the hardware takes so, and only so, read a copy of their index side by side in its sticks."""
    buffers = {buffer.name: buffer for buffer in program.buffers}

    def with_copy(op: ir.Op) -> list[ir.Op]:
        index = _index(op)
        packed = None if index is None or index.advance else with_packed_index(op, f"{op.name}.index")
        if index is None or packed is None or has_hardware_op(op, buffers, untold):
            return [op]
        dense, temp = packed
        if not has_hardware_op(dense, {**buffers, temp.name: temp}, untold):
            return [op]
        buffers[temp.name] = temp
        kept = [d for d, dim in enumerate(op.dims) if index.strides[d] and dim.size > 1]
        sides = [
            replace(each, strides=tuple(each.strides[d] for d in kept)) for each in (index, _index(dense) or index)
        ]
        dims = tuple(ir.Dim(op.dims[d].name, op.dims[d].size) for d in kept)
        origin = op.origin.changed("clone", "PackIndices", "the hardware reads indices one behind the other")
        move = ir.Op(f"{op.name}.pack", "relayout", dims, (sides[0],), (sides[1],), origin=origin)
        return [move, dense]

    body = expanded(program.body, with_copy)
    return replace(program, buffers=tuple(buffers.values()), body=body)


def with_packed_index(op: ir.Op, name: str) -> tuple[ir.Op, ir.Buffer] | None:
    """The op with an index that lies side by side in the sticks of a temp; None if it has none."""
    index = _index(op)
    if index is None:
        return None
    kept = [d for d, dim in enumerate(op.dims) if index.strides[d] and dim.size > 1]
    size = tuple(op.dims[d].size for d in kept) or (1,)
    temp = ir.Buffer(name, index.dtype, size, row_major(size), ir.Role.TEMP)
    temp = replace(temp, layout=default_layout(temp))
    strides = dict(zip(kept, temp.stride, strict=False))
    dense = ir.Access(name, 0, tuple(strides.get(d, 0) for d in range(len(op.dims))), index.dtype)
    return replace(op, inputs=(op.inputs[0], dense, *op.inputs[2:])), temp


def _index(op: ir.Op) -> ir.Access | None:
    index = op.inputs[1] if TABLE[op.row].kind is Kind.INDEXED and len(op.inputs) > 1 else None
    return index if isinstance(index, ir.Access) else None


def _expanded(op: ir.Op, relayout: ir.Op) -> ir.Access | None:
    """The source of a relayout along the dims of the op that reads its target; None unless both walk the target alike.

    Dims go by their names: those of a relayout that was not made for this op may say something else.
    """
    source, target, index = relayout.inputs[0], relayout.outputs[0], _index(op)
    if not isinstance(source, ir.Access) or index is None or index.offset != target.offset:
        return None
    sizes = {dim.name: dim.size for dim in op.dims}
    if any(sizes.get(dim.name) != dim.size for dim in relayout.dims):
        return None
    names = [dim.name for dim in relayout.dims]
    written, steps = (dict(zip(names, access.strides, strict=True)) for access in (target, source))
    read = dict(zip((dim.name for dim in op.dims), index.strides, strict=True))
    if any(read[name] != written.get(name, 0) for name, size in sizes.items() if size > 1):
        return None
    return replace(source, strides=tuple(steps.get(dim.name, 0) for dim in op.dims))
