"""A whole program as a bundle: a SuperDSC per op, addresses as symbols, and what the launch's arguments are."""

from __future__ import annotations

from functools import lru_cache

from openspyre.artifact.bundle_function import Address
from openspyre.artifact.emitted import Emitted, Execution, Extension, Number
from openspyre.artifact.launch_spec import Argument
from openspyre.compiler import ir
from openspyre.compiler.emit.handles import provenance_of
from openspyre.compiler.emit.loops import Irregular, moving_bases, nodes
from openspyre.compiler.emit.shared import Base, Given, Template, template_of, untold_tables
from openspyre.compiler.loops import ends, in_iteration, listed
from openspyre.spec.errors import InternalError
from openspyre.spec.formats import STICK_BYTES, DataFormats
from openspyre.spec.layout import SpyreTensorLayout

_DTYPES = {DataFormats.SEN169_FP16: "float16", DataFormats.IEEE_FP32: "float32"}


def emit_bundle(program: ir.Program, *, k_fast: bool = True) -> Emitted:
    """The bundle of a program whose layouts, splits and places are chosen. `k_fast`: neighbouring cores add up a product."""
    return _Emitter(program, k_fast).emitted()


class _Emitter:
    def __init__(self, program: ir.Program, k_fast: bool) -> None:
        self.program, self.k_fast = program, k_fast
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        outside = [buffer for buffer in program.buffers if buffer.role is not ir.Role.TEMP]
        pool = [Argument("pool", "pool", program.pool_bytes)] if program.pool_bytes else []
        self.arguments = pool + [_argument(b) for b in sorted(outside, key=lambda b: b.role is ir.Role.CONSTANT)]
        self.numbers: dict[tuple[str, DataFormats], Address] = {}
        self.places = {argument.name: Address(number) for number, argument in enumerate(self.arguments)}
        self.places |= {b.name: _address(b) for b in program.buffers if b.role is ir.Role.TEMP}
        self.untold = untold_tables((op for op, _ in listed(program.body)), self.buffers)
        self.extensions: list[Extension] = []
        self.written = 0

    def emitted(self) -> Emitted:
        body = nodes(self.program.body, self._execution)
        scalars = tuple(scalar.name for scalar in self.program.scalars)
        return Emitted(self.program.name, body, tuple(self.arguments), scalars, tuple(self.extensions))

    def _execution(self, op: ir.Op, counts: tuple[int, ...]) -> Execution:
        """An op in loops of so many iterations; Irregular if it is another one from iteration to iteration."""
        template = self._template(op)
        if counts:
            found = {where: self._template(in_iteration(op, where)) for where in ends(counts)}
            template = found[(0,) * len(counts)]
            if any((other.bases, other.reason) != (template.bases, template.reason) for other in found.values()):
                raise Irregular
            moves = moving_bases({where: other.shared for where, other in found.items()}, counts)
        bases = tuple([self._address(base, op) for base in template.bases])
        if counts:
            bases = tuple([Address(b.parameter, b.byte, moves.get(place, ())) for place, b in enumerate(bases)])
        if template.reason is not None:
            self.extensions.append(Extension(op.row, template.reason, op.origin))
        self.written += 1
        name = f"{self.written - 1}_{template.shared.op.op}"
        return Execution(name, template.shared, bases, provenance_of(op.name, op.row, op.origin))

    def _template(self, op: ir.Op) -> Template:
        return template_of(op, self.buffers, k_fast=self.k_fast, untold=self.untold)

    def _address(self, base: Base, op: ir.Op) -> Address:
        match base:
            case int():
                return self.places[op.accesses[base].buffer]
            case Given(place, form):
                scalar = op.inputs[place]
                assert isinstance(scalar, ir.Scalar)
                return self._number(scalar.name, form, scalar.dtype, "number", None)
            case Number(value, form):
                return self._number(f"constant_{value!r}", form, _DTYPES.get(form, "int32"), "constant", value)

    def _number(self, name: str, form: DataFormats, dtype: str, role: str, value: float | None) -> Address:
        """The argument of a number: one stick, whose lane 0 serves all lanes."""
        if (name, form) not in self.numbers:
            self.numbers[name, form] = Address(len(self.arguments))
            self.arguments.append(Argument(name, role, STICK_BYTES, dtype, (), _one_stick(form), value=value))
        return self.numbers[name, form]


@lru_cache
def _one_stick(form: DataFormats) -> SpyreTensorLayout:
    return SpyreTensorLayout([1, form.elems_per_stick()], [-1, -1], form)


def _argument(buffer: ir.Buffer) -> Argument:
    if buffer.layout is None:
        raise InternalError(f"buffer {buffer.name!r} reached the emitter without a layout")
    return Argument(
        buffer.name,
        buffer.role.value,
        buffer.layout.device_bytes,
        buffer.dtype,
        buffer.size,
        buffer.layout,
        stride=buffer.stride,
        values=buffer.values,
    )


def _address(buffer: ir.Buffer) -> Address:
    """A byte of the pool, which is argument 0, or of the scratchpads, which are none."""
    match buffer.place:
        case ir.InPool(byte):
            return Address(0, byte)
        case ir.InScratchpad(byte):
            return Address(None, byte)
    raise InternalError(f"buffer {buffer.name!r} reached the emitter without a place")
