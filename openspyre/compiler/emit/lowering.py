"""From an op of the IR to ops of the hardware, every operand with its walk through memory; or why the hardware has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

from openspyre.artifact.bundle_function import Address
from openspyre.artifact.superdsc import Constant
from openspyre.compiler import ir
from openspyre.compiler.emit.hardware_form import Form, NoSuchOp, form_of, format_of_number
from openspyre.compiler.emit.indexed import indexed_operation
from openspyre.compiler.emit.nest import Nest, mask_value
from openspyre.compiler.emit.norms import moments, norm, norm_scale
from openspyre.compiler.emit.operation import Extent, Operand, Operation
from openspyre.compiler.emit.walk import Walk
from openspyre.compiler.sticks import Misfit, StickAccess, stick_access
from openspyre.spec.encodings import encode_constant
from openspyre.spec.formats import DataFormats, require_supported
from openspyre.spec.hardware import HARDWARE, HardwareOp, Shape
from openspyre.spec.ops import TABLE, Kind

_AMBIGUOUS = 64  # a smaller gap of a restickify may be read as rows that memory does not have


@dataclass(frozen=True, slots=True)
class Lowering:
    """Where buffers and numbers of a program are found. `untold`: temps whose length follows from no op that fills them."""

    buffers: Mapping[str, ir.Buffer]
    place: Callable[[str], Address]
    number: Callable[[ir.Scalar | float, DataFormats], Address]
    untold: frozenset[str] = frozenset()

    def operation(self, op: ir.Op) -> Operation | str:
        """The op of the hardware; a reason if there is none."""
        try:
            match TABLE[op.row].kind:
                case Kind.POINTWISE | Kind.CREATION:
                    return self._pointwise(op)
                case Kind.MOVEMENT:
                    return self._movement(op)
                case Kind.MOMENTS:
                    return moments(self, op)
                case Kind.REDUCTION:
                    return self._reduction(op)
                case Kind.CONTRACTION:
                    return self._contraction(op)
                case Kind.SEARCH:
                    return self._search(op)
                case Kind.INDEXED:
                    return indexed_operation(self, op)
        except NoSuchOp as reason:
            return str(reason)
        return f"{op.row} is none of the hardware's"

    # --- kinds of ops
    def _pointwise(self, op: ir.Op) -> Operation:
        row = TABLE[op.row]
        if row.pairs:
            return norm_scale(self, op)
        if row.mixes_formats:
            return norm(self, op)
        formats = {
            place: self.format(operand)
            for place, operand in enumerate((*op.inputs, *op.outputs))
            if isinstance(operand, ir.Access)
        }
        return self._form(op, form_of(op, formats))

    def _form(self, op: ir.Op, form: Form) -> Operation:
        target = op.outputs[0]
        mask = HARDWARE[form.name].padding
        nest = Nest(self, op, [o for o in form.operands if isinstance(o, ir.Access)], target)
        padded = (
            () if nest.lane is None or nest.extents[nest.lane].valid == nest.extents[nest.lane].size else (nest.lane,)
        )
        form_of_all = self.format(target)
        masked = padded if mask is not None else ()
        return Operation(
            op=form.name,
            dims=nest.extents,
            lane=nest.lane,
            inputs=tuple(self.operand(nest, operand, form_of_all) for operand in form.operands),
            targets=(nest.operand(target),),
            constants=(
                *(Constant(name, form_of_all, encode_constant(value, form_of_all)) for name, value in form.constants),
                *((mask_value(mask, form_of_all),) if masked and mask is not None else ()),
            ),
            masked=masked,
        )

    def _movement(self, op: ir.Op) -> Operation:
        source, target = op.inputs[0], op.outputs[0]
        if not isinstance(source, ir.Access):
            raise NoSuchOp("it moves no tensor")
        if (source.dtype, self.format(source)) != (target.dtype, self.format(target)):
            raise NoSuchOp("it changes the format on its way")
        here, there = (self.sticks(op, access).lane_dim for access in (source, target))
        if here != there and not (here is None and there is not None and not source.strides[there]):
            if (there is not None and not source.strides[there]) or (here is not None and not target.strides[here]):
                raise NoSuchOp("its source is the same along the sticks of its target")
            return self._restickify(op, source, target, unit=None in (here, there))
        nest = Nest(self, op, [source], target)
        if op.row == "shuffle":
            return self._shuffle(op, nest, source, target)
        return Operation("identity", nest.extents, nest.lane, (nest.operand(source),), (nest.operand(target),))

    def _shuffle(self, op: ir.Op, nest: Nest, source: ir.Access, target: ir.Access) -> Operation:
        """From the division that the source is held in to that of the op, which is the target's."""
        held = [op.attribute(name) for name in ("held_splits", "held_apart")]
        assert isinstance(held[0], tuple) and isinstance(held[1], tuple)
        own = tuple((held[0][d], held[1][d]) for d in nest.kept)
        splits = [extent.split for extent in nest.extents]
        wanted = tuple((split, prod(splits[:d])) for d, split in enumerate(splits))
        inputs = (replace(nest.operand(source), owners=own),)
        return Operation("shuffle", nest.extents, nest.lane, inputs, (replace(nest.operand(target), owners=wanted),))

    def _restickify(self, op: ir.Op, source: ir.Access, target: ir.Access, *, unit: bool) -> Operation:
        """`unit`: one side has a value a stick. A dim of size 1 runs along its sticks, of which the other side has one row."""
        nest = Nest(self, op, [source], target, rows=True, unit=unit)
        operands = [nest.operand(access) for access in (source, target)]
        along = {operand.walk.lane for operand in operands if operand.walk is not None}
        for access, operand in zip((source, target), operands, strict=True):
            assert operand.walk is not None
            if operand.walk.skipped > 1:
                raise NoSuchOp(
                    "it leaves out sticks within a step, which a restickify would take for rows that are not there"
                )
            unsure = along - {operand.walk.lane, *(d for d in along if d is not None and nest.is_padded(d))}
            if any(
                d in unsure and gap < _AMBIGUOUS for d, gap in operand.walk.gaps
            ) and not self._is_all_of_an_argument(access, operand.walk):
                raise NoSuchOp("the documents cannot tell rows that it leaves out from rows that are not there")
        if any(extent.split > 1 for d, extent in enumerate(nest.extents) if nest.is_padded(d)):
            raise NoSuchOp("a padded dim of a restickify is divided")
        return Operation("ReStickifyOpHBM", nest.extents, nest.lane, (operands[0],), (operands[1],))

    def _is_all_of_an_argument(self, access: ir.Access, walk: Walk) -> bool:
        """Whether an argument is as long as a walk with its gaps: then no other meaning of them fits."""
        buffer = self.buffers[access.buffer]
        assert buffer.layout is not None
        whole = walk.offset == 0 and walk.span == prod(buffer.layout.device_size)
        return whole and buffer.role is not ir.Role.TEMP

    def _reduction(self, op: ir.Op) -> Operation:
        row = TABLE[op.row]
        source, target = op.inputs[0], op.outputs[0]
        known = HARDWARE.get(row.artifact)
        shapes = (Shape.REDUCTION, Shape.SEARCH)
        if known is None or known.shape not in shapes or len(op.inputs) != 1 or len(op.outputs) != 1:
            raise NoSuchOp(f"the hardware has no op {row.artifact!r}")
        if not isinstance(source, ir.Access) or any(dim.size == 0 for dim in op.dims):
            raise NoSuchOp("it reduces no tensor")
        if known.shape is Shape.SEARCH:
            return self._search(op)
        form = self.format(source)
        if (
            form is not self.format(target)
            or form not in known.formats
            or not _keeps_kind(known, source.dtype, target.dtype)
        ):
            raise NoSuchOp(f"{known.name} of the hardware does not make {target.dtype} of {source.dtype}")
        if any(dim.reduced and dim.size > 1 and not step for dim, step in zip(op.dims, source.strides, strict=True)):
            raise NoSuchOp("its source is the same along a dim that is reduced")
        if not any(dim.reduced and dim.size > 1 for dim in op.dims):
            if row.body is not None:
                raise NoSuchOp("it reduces nothing")
            return self._movement(replace(op, row="identity"))
        nest = Nest(self, op, [source], target)
        along = nest.lane is not None and op.dims[nest.kept[nest.lane]].reduced
        constants = []
        if known.constants:
            share = 1 / prod(dim.size for dim in op.dims if dim.reduced)
            constants.append(
                Constant(known.constants[0], DataFormats.IEEE_FP32, encode_constant(share, DataFormats.IEEE_FP32))
            )
        masked = (nest.lane,) if along and nest.lane is not None and nest.is_padded(nest.lane) else ()
        if masked:
            constants.append(mask_value(known.padding or 0.0, form))
        return Operation(
            op=known.name if along else f"{known.name}nonstick",
            dims=nest.extents,
            lane=nest.lane,
            inputs=(nest.operand(source),),
            targets=(nest.operand(target),),
            constants=tuple(constants),
            masked=masked,
            accumulates=True,
        )

    def _search(self, op: ir.Op) -> Operation:
        """The largest along one dim outside the sticks, or their places: as many as a dim counts that the source does not move along,
        or the first, of a rank that a dim of size 1 counts."""
        row, source, target = TABLE[op.row], op.inputs[0], op.outputs[0]
        if not isinstance(source, ir.Access) or any(dim.size == 0 for dim in op.dims):
            raise NoSuchOp("it searches no tensor")
        if self.format(source) not in HARDWARE["topkvalue"].formats or "float" not in source.dtype:
            raise NoSuchOp(f"{row.artifact} of the hardware does not search {source.dtype}")
        nest = Nest(self, op, [source], target)
        searched = [place for place, d in enumerate(nest.kept) if op.dims[d].reduced]
        if (
            len(searched) != 1
            or nest.lane is None
            or nest.lane in searched
            or not source.strides[nest.kept[searched[0]]]
        ):
            raise NoSuchOp(f"{row.artifact} of the hardware searches one dim, which lies outside the sticks")
        ranks = [d for d in nest.kept if not source.strides[d]]
        if len(ranks) > (1 if row.kind is Kind.SEARCH else 0):
            raise NoSuchOp("its source is the same along a dim of its result, which would be taken for ranks")
        found, dims = nest.operand(target), nest.extents
        assert found.walk is not None
        if not ranks:
            walk = replace(found.walk, order=(*found.walk.order, len(dims)), strides=(*found.walk.strides, 0))
            found, dims = replace(found, walk=walk), (*dims, Extent(1, 1))
        return Operation(row.artifact, dims, nest.lane, (nest.operand(source),), (found,))

    def _contraction(self, op: ir.Op) -> Operation:
        first, second, target = op.inputs[0], op.inputs[1], op.outputs[0]
        if not isinstance(first, ir.Access) or not isinstance(second, ir.Access):
            raise NoSuchOp("a product takes two tensors")
        if {self.format(access) for access in op.accesses} != {DataFormats.SEN169_FP16}:
            raise NoSuchOp("batchmatmul of the hardware takes SEN169_FP16 alone")
        if any(dim.size == 0 for dim in op.dims):
            raise NoSuchOp("a sum over nothing")
        n, k = len(op.dims) - 2, len(op.dims) - 1
        if op.dims[k].size == 1:
            return self._form(op, Form("mul", (first, second)))
        if not second.strides[k]:
            raise NoSuchOp("its second operand is the same along the dim that is summed")
        nest = Nest(self, op, [first, second], target, lanes={first: k, second: n, target: n})
        last = len(nest.kept) - 1
        masked = (last,) if nest.is_padded(last) else ()
        made = Operation(
            op="batchmatmul",
            dims=nest.extents,
            lane=last - 1,
            inputs=(nest.operand(first), nest.operand(second)),
            targets=(nest.operand(target),),
            constants=(mask_value(0.0, DataFormats.SEN169_FP16),) if masked else (),
            masked=masked,
        )
        return _with_unit_batch(made) if ir.UNIT_BATCH in dict(op.attributes) else made

    # --- operands
    def format(self, access: ir.Access) -> DataFormats:
        buffer = self.buffers[access.buffer]
        assert buffer.layout is not None
        return buffer.layout.device_dtype if access.dtype == buffer.dtype else require_supported(access.dtype).device

    def sticks(self, op: ir.Op, access: ir.Access) -> StickAccess:
        found = stick_access(access, op.dims, self.buffers[access.buffer])
        if isinstance(found, Misfit):
            raise NoSuchOp(found.reason)
        return found

    def operand(self, nest: Nest, operand: ir.Operand | float, form: DataFormats) -> Operand:
        match operand:
            case ir.Access():
                return nest.operand(operand)
            case ir.Scalar() as scalar:
                own = format_of_number(scalar, form)
                return Operand(own, self.number(scalar, own))
            case ir.Constant() as known:
                own = format_of_number(known, form)
                return Operand(own, self.number(known.value, own))
            case float() as value:
                return Operand(form, self.number(value, form))
        raise NoSuchOp("it counts places")


def _with_unit_batch(product: Operation) -> Operation:
    """The product with a first dim of size 1, which its first factor and its result have outermost."""

    def behind(operand: Operand, *, has: bool) -> Operand:
        walk = operand.walk
        assert walk is not None
        order = (*(d + 1 for d in walk.order), *([0] if has else []))
        lane = None if walk.lane is None else walk.lane + 1
        gaps = tuple((d + 1, gap) for d, gap in walk.gaps)
        return replace(operand, walk=replace(walk, lane=lane, order=order, strides=(0, *walk.strides), gaps=gaps))

    first, second = product.inputs
    return replace(
        product,
        dims=(Extent(1, 1), *product.dims),
        lane=None if product.lane is None else product.lane + 1,
        inputs=(behind(first, has=True), behind(second, has=False)),
        targets=tuple(behind(target, has=True) for target in product.targets),
        masked=tuple(d + 1 for d in product.masked),
    )


def _keeps_kind(op: HardwareOp, source: str, target: str) -> bool:
    """Whether what a reduction makes is what its tensor is said to hold: the largest truth value is one as well."""
    if "bool" in (source, target):
        return source == target and op.keeps_truth
    return "float" in source and "float" in target
