"""Which op of the hardware a row is: its name, the order of its operands, or why the hardware has no such op."""

from __future__ import annotations

from dataclasses import dataclass

from openspyre.compiler import ir
from openspyre.spec.encodings import float_of
from openspyre.spec.formats import DataFormats, require_supported
from openspyre.spec.hardware import HARDWARE, Shape
from openspyre.spec.ops import TABLE, Kind

_HALVES = ("float16", "bfloat16")
_CASTS = {
    (DataFormats.SEN169_FP16, DataFormats.SEN169_FP16): "identity",
    (DataFormats.SEN169_FP16, DataFormats.IEEE_FP32): "dl16tofp32",
    (DataFormats.IEEE_FP32, DataFormats.SEN169_FP16): "fp32todl16",
    (DataFormats.SEN143_FP8, DataFormats.SEN169_FP16): "fp8todl16",
}


class NoSuchOp(Exception):
    """Why the hardware has no op for something."""


@dataclass(frozen=True, slots=True)
class Form:
    """An op of the hardware on these operands of the row, in its order; a number among them is given as its value."""

    name: str
    operands: tuple[ir.Operand | float, ...]
    constants: tuple[tuple[str, float], ...] = ()


def form_of(op: ir.Op, formats: dict[int, DataFormats]) -> Form:
    """The op of the hardware that computes a pointwise or creation row; NoSuchOp if there is none.

    `formats`: of operands that are in memory, by their place among inputs and outputs.
    """
    row = TABLE[op.row]
    if len(op.outputs) != 1:
        raise NoSuchOp("it has several results")
    given = tuple(_constant(operand) for operand in op.inputs)
    if any(isinstance(operand, ir.Iota) for operand in given):
        raise NoSuchOp("it counts places")
    truths = all(isinstance(o, ir.Access) and o.dtype == "bool" for o in op.inputs)
    if row.kind is Kind.CREATION:
        if not row.as_given:
            raise NoSuchOp("no op of the hardware creates it")
        form = Form("identity", given)
    elif row.as_given:
        form = _cast(op, given, formats)
    elif truths and row.on_truths is not None:
        form = Form(row.on_truths.artifact, (*given, *row.on_truths.numbers))
    else:
        order = range(len(given)) if row.order is None else row.order
        form = _with_constants(row.artifact, given) or Form(row.artifact, tuple(given[place] for place in order))
    _check(form, op, formats)
    return form


def _with_constants(name: str, given: tuple[ir.Operand | float, ...]) -> Form | None:
    """An op that has numbers by name, if those behind its tensor are known."""
    names = HARDWARE[name].constants if name in HARDWARE else ()
    known = [value for operand in given[1:] if (value := _known(operand)) is not None]
    if not names or len(names) != len(known) or len(given) != 1 + len(known):
        return None
    return Form(name, given[:1], tuple(zip(names, known, strict=True)))


def _known(operand: ir.Operand | float) -> float | None:
    """A number that is known now, if only the program's caller knew it."""
    match operand:
        case ir.Constant(bits=bits) | ir.Scalar(word=int(bits)):
            return float_of(bits)
    return None


def _constant(operand: ir.Operand) -> ir.Operand | float:
    if isinstance(operand, ir.Iota) and not any(operand.strides):
        return float(operand.offset)
    return operand


def _cast(op: ir.Op, given: tuple[ir.Operand | float, ...], formats: dict[int, DataFormats]) -> Form:
    source, target = op.inputs[0], op.outputs[0]
    if not isinstance(source, ir.Access):
        return Form("identity", given)
    pair = (formats[0], formats[len(op.inputs)])
    if source.dtype == target.dtype and pair[0] is pair[1]:
        return Form("identity", given)
    if target.dtype == "bool" and source.dtype in _HALVES:
        return Form("notequal", (source, 0.0))
    floats = all("float" in dtype or dtype == "bool" for dtype in (source.dtype, target.dtype))
    name = _CASTS.get(pair) if floats and (target.dtype != "bool" or source.dtype == "bool") else None
    if name is None:
        raise NoSuchOp(f"no op of the hardware makes {target.dtype} of {source.dtype}")
    return Form(name, given)


def format_of_number(number: ir.Scalar | ir.Constant, met: DataFormats) -> DataFormats:
    """A number's own format, or float32 beside float32: its 16 bits are exact there."""
    own = require_supported(number.dtype).device
    return met if (own, met) == (DataFormats.SEN169_FP16, DataFormats.IEEE_FP32) else own


def _check(form: Form, op: ir.Op, formats: dict[int, DataFormats]) -> None:
    known = HARDWARE.get(form.name)
    if known is None or known.shape not in (Shape.POINTWISE, Shape.MOVEMENT, Shape.CAST):
        raise NoSuchOp(f"the hardware has no op {form.name!r}")
    if known.inputs != len(form.operands):
        raise NoSuchOp(f"{form.name} of the hardware takes {known.inputs} tensors")
    if known.constants != tuple(name for name, _ in form.constants):
        raise NoSuchOp(f"its numbers are known at launch, {form.name} of the hardware has them as constants")
    target = op.outputs[0]
    used = {formats[len(op.inputs)]}
    for operand in form.operands:
        if isinstance(operand, ir.Access):
            used.add(formats[op.inputs.index(operand)])
        elif isinstance(operand, (ir.Scalar, ir.Constant)):
            used.add(format_of_number(operand, formats[len(op.inputs)]))
    if outside := used - set(known.formats):
        raise NoSuchOp(f"{form.name} of the hardware does not take {', '.join(sorted(f.name for f in outside))}")
    if known.shape is not Shape.CAST and len(used) > 1:
        names = ", ".join(sorted(f.name for f in used))
        raise NoSuchOp(f"{form.name} of the hardware has one format, not {names}")
    accesses = [access for access in (*form.operands, target) if isinstance(access, ir.Access)]
    whole = [access.dtype for access in accesses if "float" not in access.dtype and access.dtype != "bool"]
    if whole and known.shape is Shape.POINTWISE:
        raise NoSuchOp(f"{form.name} of the hardware does not take {whole[0]}")
    if target.dtype == "bool" and not (known.gives_truth or known.keeps_truth or known.shape is Shape.CAST):
        raise NoSuchOp(f"{form.name} gives other numbers than truth values")
