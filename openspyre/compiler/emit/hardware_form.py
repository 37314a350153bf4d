"""Which op of the hardware a row is: its name, the order of its operands, or why the hardware has no such op."""

from __future__ import annotations

from dataclasses import dataclass

from openspyre.compiler import ir
from openspyre.spec.formats import DataFormats, require_supported
from openspyre.spec.hardware import HARDWARE, Shape, formats_of_op
from openspyre.spec.ops import TABLE, Kind

# Rows that are an op of the hardware with its operands in another order.
_ORDERS = {"rsub": (1, 0), "masked_fill": (1, 2, 0), "square": (0, 0)}
# Truth values are 0.0 and 1.0: what logic is on them.
_LOGIC = {"logical_and": "mul", "bitwise_and": "mul", "logical_or": "maximum", "bitwise_or": "maximum"}
_LOGIC |= {"logical_xor": "notequal", "bitwise_xor": "notequal"}
_GIVES_TRUTH = {"equal", "notequal", "greaterthan", "greaterequal", "lesserthan", "lesserequal"}
_KEEPS_TRUTH = {"mul", "maximum", "minimum", "where3", "identity", "max", "min"}
_HALVES = ("float16", "bfloat16")


class NoSuchOp(Exception):
    """Why the hardware has no op for something."""


@dataclass(frozen=True, slots=True)
class Form:
    """An op of the hardware on these operands of the row, in its order; a number among them is given as its value."""

    name: str
    operands: tuple[ir.Operand | float, ...]
    constants: tuple[tuple[str, float], ...] = ()


def forms_of(op: ir.Op, formats: dict[int, DataFormats]) -> tuple[Form, ...] | str:
    """Ops of the hardware that compute a pointwise or creation row, the later ones on the target of the first; or why there are none.

    `formats`: of operands that are in memory, by their place among inputs and outputs.
    """
    row = TABLE[op.row]
    if len(op.outputs) != 1:
        return "it has several results"
    given = tuple(_constant(operand) for operand in op.inputs)
    if any(isinstance(operand, ir.Iota) for operand in given):
        return "it counts places"
    found: tuple[Form, ...] | str
    if row.kind is Kind.CREATION:
        found = (Form("identity", given),) if op.row in ("fill", "iota") else "no op of the hardware creates it"
    elif op.row == "cast":
        found = _cast(op, given, formats)
    elif op.row == "clamp":
        found = (Form("maximum", given[:2]), Form("minimum", (op.outputs[0], given[2])))
        if formats.get(0) is DataFormats.SEN169_FP16 and (clip := _with_constants("clip", given)) is not None:
            found = (clip,)
        elif isinstance(given[2], ir.Access) and given[2].buffer == op.outputs[0].buffer:
            found = "its bound lies where its result does"
    else:
        truths = all(isinstance(o, ir.Access) and o.dtype == "bool" for o in op.inputs)
        name = _LOGIC.get(op.row) if truths else None
        if truths and op.row in ("logical_not", "bitwise_not"):
            found = (Form("equal", (given[0], 0.0)),)
        else:
            order = _ORDERS.get(op.row, range(len(given)))
            whole = _with_constants(row.artifact, given)
            found = (
                (whole,) if whole is not None else (Form(name or row.artifact, tuple(given[place] for place in order)),)
            )
    if isinstance(found, str):
        return found
    reasons = [reason for form in found if (reason := _refusal(form, op, formats))]
    return reasons[0] if reasons else found


def _with_constants(name: str, given: tuple[ir.Operand | float, ...]) -> Form | None:
    """An op that has numbers by name, if those behind its tensor are known."""
    names = HARDWARE[name].constants if name in HARDWARE else ()
    known = [operand.value for operand in given[1:] if isinstance(operand, ir.Constant)]
    if not names or len(names) != len(known) or len(given) != 1 + len(known):
        return None
    return Form(name, given[:1], tuple(zip(names, known, strict=True)))


def _constant(operand: ir.Operand) -> ir.Operand | float:
    if isinstance(operand, ir.Iota) and not any(operand.strides):
        return float(operand.offset)
    return operand


def _cast(op: ir.Op, given: tuple[ir.Operand | float, ...], formats: dict[int, DataFormats]) -> tuple[Form, ...] | str:
    source, target = op.inputs[0], op.outputs[0]
    if not isinstance(source, ir.Access):
        return (Form("identity", given),)
    pair = (formats[0], formats[len(op.inputs)])
    if source.dtype == target.dtype and pair[0] is pair[1]:
        return (Form("identity", given),)
    floats = all("float" in dtype or dtype == "bool" for dtype in (source.dtype, target.dtype))
    if target.dtype == "bool":
        return (
            (Form("notequal", (source, 0.0)),)
            if source.dtype in _HALVES
            else f"it makes truth values of {source.dtype}"
        )
    if not floats:
        return f"no op of the hardware makes {target.dtype} of {source.dtype}"
    names = {
        (DataFormats.SEN169_FP16, DataFormats.SEN169_FP16): "identity",
        (DataFormats.SEN169_FP16, DataFormats.IEEE_FP32): "dl16tofp32",
        (DataFormats.IEEE_FP32, DataFormats.SEN169_FP16): "fp32todl16",
        (DataFormats.SEN143_FP8, DataFormats.SEN169_FP16): "fp8todl16",
    }
    name = names.get(pair)
    return (Form(name, given),) if name else f"no op of the hardware makes {pair[1].name} of {pair[0].name}"


def _refusal(form: Form, op: ir.Op, formats: dict[int, DataFormats]) -> str | None:
    known = HARDWARE.get(form.name)
    if known is None or known.shape not in (Shape.POINTWISE, Shape.MOVEMENT, Shape.CAST):
        return f"the hardware has no op {form.name!r}"
    if known.inputs != len(form.operands):
        return f"{form.name} of the hardware takes {known.inputs} tensors"
    if known.constants != tuple(name for name, _ in form.constants) or form.name.startswith("layernorm"):
        return f"its numbers are known at launch, {form.name} of the hardware has them as constants"
    target = op.outputs[0]
    used = {formats[len(op.inputs)]}
    for operand in form.operands:
        if isinstance(operand, ir.Access):
            used.add(formats[len(op.inputs)] if operand is target else formats[op.inputs.index(operand)])
        elif isinstance(operand, (ir.Scalar, ir.Constant)):
            used.add(require_supported(operand.dtype).device)
    if outside := used - set(formats_of_op(known)):
        return f"{form.name} of the hardware does not take {', '.join(sorted(f.name for f in outside))}"
    if known.shape is not Shape.CAST and len(used) > 1:
        return f"{form.name} of the hardware has one format, not {', '.join(sorted(f.name for f in used))}"
    if known.shape is Shape.POINTWISE:
        whole = [a.dtype for a in (*form.operands, target) if isinstance(a, ir.Access) and "float" not in a.dtype]
        if any(dtype != "bool" for dtype in whole):
            return f"{form.name} of the hardware does not take {next(d for d in whole if d != 'bool')}"
    if target.dtype == "bool" and form.name not in _GIVES_TRUTH | _KEEPS_TRUTH:
        return f"{form.name} gives other numbers than truth values"
    return None
