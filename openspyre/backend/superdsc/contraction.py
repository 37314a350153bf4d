"""Matrix products of the card. Which dim is which follows from the tensors that have it, never from its name."""

from __future__ import annotations

from dataclasses import replace

from openspyre.artifact.superdsc import PRESENT, Stick
from openspyre.backend.superdsc.instance import Access, Instance, Workspace
from openspyre.backend.superdsc.nest import Nest, Part, nest_of
from openspyre.backend.superdsc.pointwise import MASK_VALUE, fold_over, map_over, number
from openspyre.backend.superdsc.staging import parts_of, placed
from openspyre.program.model import Contract, Reduce, Step
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import DataFormats
from openspyre.spec.ops.expression import Lane, trace
from openspyre.spec.ops.row import Fold

_MULTIPLIED = (DataFormats.SEN169_FP16, DataFormats.IEEE_FP32)  # what the card has kernels for


def lower_contraction(instance: Instance, workspace: Workspace) -> list[Step]:
    op = instance.op
    if len(op.inputs) != 2:
        raise InvalidArgument(f"{op.name}: {len(op.inputs)} inputs, a product takes two")
    a, b = (instance.accesses[n] for n in op.inputs)
    out = instance.accesses[op.outputs[0]]
    summed = [
        axis.label
        for axis in instance.axes
        if out.tensor.scale(axis.label) != PRESENT and (a.moves(axis.label) or b.moves(axis.label))
    ]
    if len(summed) != 1 or not (a.moves(summed[0]) and b.moves(summed[0])):
        raise InvalidArgument(
            f"{op.name}: sums over {', '.join(summed) or 'nothing'}, a product sums over one dim that both inputs have"
        )
    (k,) = summed
    n = out.tensor.stick
    if a.tensor.stick == k and b.tensor.stick == n and out.moves(n) and not a.moves(n):
        if all(access.tensor.format in _MULTIPLIED and len(access.tensor.sticks) == 1 for access in (a, b)):
            return [_product(instance, a, b, out, n, k)]
        wide_a, wide_b = (_widened(instance, access, workspace) for access in (a, b))
        return [*wide_a[0], *wide_b[0], _product(instance, wide_a[1], wide_b[1], out, n, k)]
    return [_points(instance, a, b, out, k)]


def _widened(instance: Instance, access: Access, workspace: Workspace) -> tuple[list[Step], Access]:
    """An operand in 8 bits as 16-bit numbers, which hold them all: its sticks along one dim, as the product reads it."""
    tensor = access.tensor
    if tensor.format in _MULTIPLIED and len(tensor.sticks) == 1:
        return [], access
    form = DataFormats.SEN169_FP16
    wide = placed(
        instance, replace(tensor, format=form, sticks=(Stick(tensor.stick, form.elems_per_stick()),)), workspace
    )
    nest = nest_of(parts_of(instance, access)[0], (access, wide), lane=tensor.stick)
    code = trace(lambda x: x, (Lane.FLOAT,))
    return [map_over(nest, (nest.operand(access),), (nest.operand(wide),), code)], wide


def _product(instance: Instance, a: Access, b: Access, out: Access, n: str, k: str) -> Contract:
    """Dims: batch and rows, the last of them the rows' longest, then blocks of n, then blocks of k."""
    rows = [axis for axis in instance.axes if axis.label not in (n, k)]
    own = [axis for axis in rows if a.moves(axis.label) and not b.moves(axis.label)]
    m = max(own or rows, key=lambda axis: axis.size, default=None)
    ordered = [axis for axis in rows if axis is not m] + ([m] if m is not None else [])
    lanes, k_lanes = out.tensor.elems_per_stick, a.tensor.elems_per_stick
    by_label = {axis.label: axis for axis in instance.axes}
    parts = [Part(axis.label, axis.size, 1, axis.split) for axis in ordered]
    if m is None:
        parts.append(Part("", 1, 1, 1))
    for label, unit in ((n, lanes), (k, k_lanes)):
        axis = by_label[label]
        if label == k and axis.split == 1:
            axis = replace(axis, size=-(-_summed(instance, k) // unit) * unit)
        if axis.size % (unit * axis.split):
            raise InvalidArgument(
                f"{instance.op.name}: {label} has {axis.per_core} elements per core, sticks of {unit} must be whole"
            )
        parts.append(Part(label, axis.size // unit, unit, axis.split))
    nest = Nest(instance, tuple(parts), n, lanes, frozenset((k,)))
    nest_k = Nest(instance, tuple(parts), k, k_lanes, frozenset((k,)))
    head = nest.head((nest_k.operand(a), nest.operand(b)), (nest.operand(out),))
    return Contract(*head, _summed(instance, k), k_lanes, b.strides[k], cores=nest.cores())


def _summed(instance: Instance, k: str) -> int:
    """Elements of k that are summed: masked ones are zeros, and add nothing."""
    size = instance.size(k)
    valid = next((mask.valid for mask in instance.op.masks if mask.label == k), size)
    value = instance.op.constant(MASK_VALUE)
    if valid < size and value is not None and number(value) != 0.0:
        raise InvalidArgument(f"{instance.op.name}: {k} is masked with {number(value)}, a product's padding is zero")
    return min(valid, size)


def _points(instance: Instance, a: Access, b: Access, out: Access, k: str) -> Reduce:
    """Operands whose sticks hold several dims: element by element."""
    nest = nest_of(instance, (a, b, out), frozenset((k,)), lane=None)
    code = trace(lambda x, y: x * y, (Lane.FLOAT, Lane.FLOAT))
    finish = trace(lambda total, index: total, (Lane.FLOAT, Lane.INT))
    return fold_over(nest, (nest.operand(a), nest.operand(b)), (nest.operand(out),), code, Fold.SUM, finish)
