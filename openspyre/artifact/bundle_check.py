"""What must be true of a bundle: the hardware's rules on sticks, cores, scratchpads and spans, per tensor and field.

Rules that front ends are known to break are named as such: the bundle is refused all the same, for its numbers would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from openspyre.artifact.bundle import Bundle, addresses
from openspyre.artifact.extensions.check import check_description
from openspyre.artifact.extensions.description import Description
from openspyre.artifact.fields import Problem, Problems
from openspyre.artifact.superdsc import PRESENT, Component, Indirection, SuperDsc, Tensor
from openspyre.spec.errors import SpyreError
from openspyre.spec.hardware import HARDWARE, Shape
from openspyre.spec.machine import SPYRE, Machine

STICK = 128


def check_bundle(bundle: Bundle, machine: Machine = SPYRE) -> list[Problem]:
    """Every rule a bundle breaks, file by file."""
    broken = [
        Problem(file, f"{op.name}.{field}", found, expected)
        for file, op in bundle.ops.items()
        for field, found, expected in _op_problems(op, machine, _scratchpad_limit(bundle, machine))
    ]
    return [*broken, *_lost_offsets(bundle)]


def _scratchpad_limit(bundle: Bundle, machine: Machine) -> int:
    """Front ends that write plain addresses (June) kept no room for the program itself."""
    if bundle.symbolic:
        return machine.scratchpad_planned_bytes_per_core
    return int(machine.scratchpad_bytes_per_core * (1 - machine.scratchpad_reserved_fraction))


Broken = tuple[str, str, str]  # field, found, expected


def _op_problems(op: SuperDsc, machine: Machine, scratchpad_limit: int) -> Iterator[Broken]:
    known = HARDWARE.get(op.op.removesuffix("nonstick"))
    if op.extension is not None:
        yield from _extension_problems(op, op.extension, machine)
        return
    if known is None:
        yield "computeOp_.opFuncName", repr(op.op), "an op of the hardware (`openspyre ops --hardware` lists them)"
        return
    if op.unit != known.unit:
        yield "computeOp_.exUnit", repr(op.unit), repr(known.unit)
    indexed = any(tensor.indirection is Indirection.VALUE for tensor in op.tensors)
    if not op.outputs or (known.inputs is not None and len(_read(op)) != known.inputs):
        yield (
            "computeOp_.inputLabeledDs",
            f"{len(_read(op))} inputs, {len(op.outputs)} outputs",
            f"{known.inputs} inputs, one output",
        )
    if indexed and op.index is None:
        yield "computeOp_.indirectAccessIndexLabeledDs", "no index tensor", "the one that a value_tensor is indexed by"
    for name in known.constants:
        if op.constant(name) is None:
            yield "constantInfo_", "no constant of this name", repr(name)
    if op.masks and op.constant("samv-maskvalue") is None:
        yield "coordinateMasking_", "a mask without a value", "the constant samv-maskvalue"
    taken = known.formats
    for number, tensor in enumerate(op.tensors):
        if tensor.format not in taken and number != op.index:
            yield (
                f"labeledDs_[{number}].dataFormat_",
                tensor.format.name,
                f"what {op.op} takes: {', '.join(f.name for f in taken)}",
            )
        for field, found, expected in _tensor_problems(op, tensor, machine, scratchpad_limit):
            yield f"scheduleTree_[{number}].{field}", found, expected
    yield from _stick_problems(op, known.shape)
    yield from _overlaps(op)


def _extension_problems(op: SuperDsc, said: Description, machine: Machine) -> Iterator[Broken]:
    """The record of an op that the hardware does not have: sound in itself, and of the tensors that the file has."""
    problems = Problems("")
    check_description(said, problems, machine)
    for problem in problems.found:
        yield problem.field, problem.found, problem.expected
    for number, tensor in enumerate(said.tensors):
        try:
            if tensor.view is not None:
                tensor.layout.addressing(tensor.view.buffer_size, tensor.view.buffer_stride)
        except SpyreError as error:
            yield f"openspyre_.tensors[{number}].view", str(error), "a buffer that lies so"
    if op.op != f"openspyre.{said.row}":
        yield "computeOp_.opFuncName", repr(op.op), f"openspyre.{said.row}, as openspyre_.row says"
    formats = [tensor.format.name for tensor in op.tensors]
    if formats != (expected := [tensor.format.name for tensor in said.tensors]):
        yield "labeledDs_", f"tensors of {', '.join(formats)}", f"those of openspyre_.tensors: {', '.join(expected)}"


def _overlaps(op: SuperDsc) -> Iterator[Broken]:
    """A result in a scratchpad lies where an input lies only if it replaces it element by element."""
    for number in op.outputs:
        target = op.tensors[number]
        for other in _read(op):
            source = op.tensors[other]
            if Component.MEMORY in (source.component, target.component) or source.owners or target.owners:
                continue
            for core in range(op.cores):
                first, begin = target.starts[core], source.starts[core]
                apart = first >= begin + _held_bytes(op, source) or begin >= first + _held_bytes(op, target)
                alike = first == begin and (source.order, source.scales, source.format) == (
                    target.order,
                    target.scales,
                    target.format,
                )
                if not apart and not alike:
                    yield (
                        f"scheduleTree_[{number}].startAddressCoreCorelet_",
                        (
                            f"byte {first} of core {core}'s scratchpad, within {source.name} ({begin} to {begin + _held_bytes(op, source)})"
                        ),
                        "a place of its own, or exactly that of an input with the same layout",
                    )
                    break


def _held_bytes(op: SuperDsc, tensor: Tensor) -> int:
    """What a core's scratchpad has of a tensor."""
    return STICK * prod(_sticks(tensor, label, _held(op, tensor, label) + tensor.gap(label)) for label in tensor.order)


def _read(op: SuperDsc) -> tuple[int, ...]:
    """Inputs that are read: a reduction lists its result among them."""
    return tuple(number for number in op.inputs if number not in op.outputs)


def _tensor_problems(op: SuperDsc, tensor: Tensor, machine: Machine, limit: int) -> Iterator[Broken]:
    if tensor.component is Component.SCRATCHPAD:
        end = max(tensor.starts) + _held_bytes(op, tensor)
        if end > limit:
            reserved = machine.scratchpad_bytes_per_core - limit
            yield (
                "startAddressCoreCorelet_",
                f"bytes {max(tensor.starts)} to {end} of the scratchpad",
                (
                    f"at most {limit}: it has {machine.scratchpad_bytes_per_core}, of which {reserved} belong to the back end"
                ),
            )
    elif (span := _span(op, tensor)) > machine.max_span_bytes_per_core_and_tensor:
        yield (
            "startAddressCoreCorelet_",
            f"each core reaches over {span} bytes",
            f"at most {machine.max_span_bytes_per_core_and_tensor}",
        )
    for label in tensor.order:
        along = prod(stick.size for stick in tensor.sticks if stick.label == label)
        axis = op.axis[label]
        if tensor.scale(label) == PRESENT and along > 1 and axis.split > 1 and axis.per_core % along:
            yield "layoutDimOrder_", f"{axis.per_core} of {label} per core", f"whole sticks of {along}"


def _held(op: SuperDsc, tensor: Tensor, label: str) -> int:
    if tensor.scale(label) != PRESENT:
        return 1
    axis = op.axis[label]
    if tensor.owners:
        return axis.size // (1 + max(dict(own).get(label, 0) for own in tensor.owners))
    return axis.per_core


def _sticks(tensor: Tensor, label: str, elements: int) -> int:
    along = prod(stick.size for stick in tensor.sticks if stick.label == label)
    return max(1, -(-elements // along))


def _span(op: SuperDsc, tensor: Tensor) -> int:
    """Bytes from the first to the last stick a core touches, by the reference's rule: the first dim it has several positions of."""
    if tensor.indirection is Indirection.VALUE:
        return 0
    inner = [STICK]
    for label in tensor.order:
        whole = op.axis[label].size if tensor.scale(label) == PRESENT else 1
        inner.append(inner[-1] * _sticks(tensor, label, whole + tensor.gap(label)))
    for place in range(len(tensor.order) - 1, -1, -1):
        label = tensor.order[place]
        count = _sticks(tensor, label, _held(op, tensor, label))
        if count > 1:
            return count * inner[place]
    return STICK


def _lost_offsets(bundle: Bundle) -> Iterator[Problem]:
    """Core 0 alone elsewhere than its slice says, where all others lie as the division has them: a known defect of front ends."""
    checked: set[str] = set()
    for execute in bundle.function.listed():
        if execute.file in checked:
            continue
        checked.add(execute.file)
        op = bundle.ops[execute.file]
        address = addresses(execute)
        for number, tensor in enumerate(op.tensors):
            if tensor.component is Component.SCRATCHPAD or tensor.indirection is not Indirection.NONE or op.cores < 3:
                continue
            found = [address(start) for start in tensor.starts]
            steps = _steps(op, tensor)
            bases = [
                (at.parameter, at.byte - _slice_bytes(op, steps, slices))
                for at, slices in zip(found, op.slices, strict=True)
            ]
            if bases[0] != bases[1] and len(set(bases[1:])) == 1 and bases[0][0] == bases[1][0]:
                lost = bases[1][1] - bases[0][1]
                field = f"{op.name}.scheduleTree_[{number}].startAddressCoreCorelet_"
                said = f"core 0 {lost} bytes away from where the other cores have it (its slice's offset is lost, a known defect)"
                yield Problem(execute.file, field, said, "every core's slice where the division says")


def _steps(op: SuperDsc, tensor: Tensor) -> dict[str, int]:
    """Bytes from one slice of a dim to the next."""
    found, inner = {}, STICK
    for label in tensor.order:
        if tensor.scale(label) != PRESENT:
            continue
        axis = op.axis[label]
        found[label] = inner * _sticks(tensor, label, axis.per_core)
        inner *= _sticks(tensor, label, axis.size + tensor.gap(label))
    return found


def _slice_bytes(op: SuperDsc, steps: dict[str, int], slices: tuple[int, ...]) -> int:
    return sum(index * steps.get(axis.label, 0) for axis, index in zip(op.axes, slices, strict=True))


def _stick_problems(op: SuperDsc, shape: Shape) -> Iterator[Broken]:
    if shape in (Shape.MOVEMENT, Shape.CAST, Shape.SEARCH) or not op.outputs:
        return
    target = op.tensors[op.outputs[0]]
    read = [op.tensors[number] for number in _read(op)]
    if shape is Shape.CONTRACTION:
        yield from _contraction_problems(op, read, target)
        return
    sticks = {tensor.stick for tensor in (*read, target) if tensor.scale(tensor.stick) == PRESENT}
    if len(sticks) > 1:
        yield "primaryDsInfo_", f"sticks along {', '.join(sorted(sticks))}", "one dim along the sticks of all tensors"


def _contraction_problems(op: SuperDsc, read: list[Tensor], target: Tensor) -> Iterator[Broken]:
    if len(read) != 2:
        return
    summed = [
        a.label
        for a in op.axes
        if target.scale(a.label) != PRESENT
        and any(t.scale(a.label) == PRESENT for t in read)
        and a.label not in target.order
    ]
    if len(summed) != 1:
        yield (
            "primaryDsInfo_",
            f"sums over {', '.join(summed) or 'no dim'}",
            "one dim that both inputs have and the output has not",
        )
    elif any(tensor.scale(summed[0]) != PRESENT for tensor in read):
        yield "labeledDs_", f"an input that lacks {summed[0]}, which is summed", "one dim that both inputs have"
    elif read[0].stick != summed[0]:
        yield "primaryDsInfo_", f"the first input's sticks along {read[0].stick}", f"along {summed[0]}, which is summed"
    if read[1].stick != target.stick:
        yield (
            "primaryDsInfo_",
            f"the second input's sticks along {read[1].stick}",
            f"along {target.stick}, as the output's",
        )
