"""A whole program as a documented bundle: a SuperDSC per op, addresses as symbols, and what the launch's arguments are."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial

from openspyre.artifact.bundle_function import Address, Execute, Function, Parameter
from openspyre.artifact.documented import DocumentedBundle
from openspyre.artifact.launch_spec import Argument
from openspyre.artifact.superdsc import Provenance, SourcePlace, SuperDsc
from openspyre.compiler import ir
from openspyre.compiler.emit.extension import extension_op
from openspyre.compiler.emit.indices import with_dense_constants, with_dense_indices
from openspyre.compiler.emit.lowering import Lowering
from openspyre.compiler.emit.operation import superdsc_of
from openspyre.compiler.emit.staging import Takes, staged
from openspyre.compiler.structure import structure_of
from openspyre.spec.errors import InternalError
from openspyre.spec.formats import STICK_BYTES, DataFormats
from openspyre.spec.layout import SpyreTensorLayout

POOL = "pool_base_addr"
_PLACE = re.compile(r'(?:File "(?P<file>.+?)", line (?P<line>\d+)|(?P<path>.+?):(?P<number>\d+))')
_DTYPES = {DataFormats.SEN169_FP16: "float16", DataFormats.IEEE_FP32: "float32"}


@dataclass(frozen=True, slots=True)
class Emitted:
    """A bundle, the arguments of its launch in order, and of each op that is none of the hardware's the row and the reason."""

    bundle: DocumentedBundle
    arguments: tuple[Argument, ...]
    extensions: tuple[tuple[str, str], ...]


def emit_documented(program: ir.Program) -> Emitted:
    """The bundle of a program whose layouts, splits and places are chosen."""
    known = _Hardware()
    program = with_dense_constants(program, known.takes)
    prepared = _prepared(program, known.takes)
    return _Emitter(prepared, _staging(program, prepared)).emitted()


def extensions_of(program: ir.Program) -> list[tuple[ir.Op, str]]:
    """Ops of a lowered program that the hardware does not have, and why."""
    known = _Hardware()
    program = with_dense_constants(program, known.takes)
    prepared = _prepared(program, known.takes)
    known.staging = _staging(program, prepared)
    buffers = {buffer.name: buffer for buffer in prepared.buffers}
    ops = [op for op in prepared.ops if all(dim.size or dim.reduced for dim in op.dims)]
    return [(op, reason) for op in ops if (reason := known.reason(op, buffers)) is not None]


def _prepared(program: ir.Program, takes: Takes) -> ir.Program:
    return staged(with_dense_indices(program, takes))


def _staging(program: ir.Program, prepared: ir.Program) -> frozenset[str]:
    return frozenset(buffer.name for buffer in prepared.buffers[len(program.buffers) :])


class _Hardware:
    """Whether the hardware has an op, asked once for all ops of a structure in places of a kind."""

    def __init__(self) -> None:
        self.staging: frozenset[str] = frozenset()
        self._reasons: dict[Hashable, str | None] = {}

    def takes(self, op: ir.Op, buffers: dict[str, ir.Buffer]) -> bool:
        return self.reason(op, buffers) is None

    def reason(self, op: ir.Op, buffers: dict[str, ir.Buffer]) -> str | None:
        """Why it has none."""
        names = [access.buffer for access in op.accesses]
        lies = [buffers[name] for name in names]
        places = tuple((b.role is ir.Role.TEMP, b.name in self.staging, b.values) for b in lies)
        key = (structure_of(op, buffers), places)
        if key not in self._reasons:
            anywhere = Lowering(buffers, lambda name: Address(0), lambda number, form: Address(0), self.staging)
            found = anywhere.operation(op)
            self._reasons[key] = found if isinstance(found, str) else None
        return self._reasons[key]


class _Emitter:
    def __init__(self, program: ir.Program, staging: frozenset[str]) -> None:
        self.program, self.staging = program, staging
        self.buffers = {buffer.name: buffer for buffer in program.buffers}
        outside = [buffer for buffer in program.buffers if buffer.role is not ir.Role.TEMP]
        self.arguments = [_argument(b) for b in sorted(outside, key=lambda b: b.role is ir.Role.CONSTANT)]
        self.first = 1 if program.pool_bytes else 0
        self.numbers: dict[tuple[str | float, DataFormats], int] = {}
        self.symbols = 0
        self.ops: dict[str, SuperDsc] = {}
        self.extensions: list[tuple[str, str]] = []
        names = [argument.name for argument in self.arguments]
        self.places = {name: Address(self.first + number) for number, name in enumerate(names)}
        self.places |= {b.name: Address(0, _place(b)) for b in program.buffers if b.role is ir.Role.TEMP}

    def emitted(self) -> Emitted:
        lowering = Lowering(self.buffers, self.places.__getitem__, self.number, self.staging)
        body: list[Execute] = []
        for op in self.program.ops:
            if any(dim.size == 0 and not dim.reduced for dim in op.dims):
                continue  # nothing to compute
            found = lowering.operation(op)
            if isinstance(found, str):
                self.extensions.append((op.row, found))
                body.append(self._write(op, partial(extension_op, op, self.buffers, lowering)))
            else:
                body.append(self._write(op, partial(superdsc_of, found)))
        pool = (Argument("pool", "pool", self.program.pool_bytes),) if self.first else ()
        parameters = [Parameter(POOL)] if self.first else []
        parameters += [Parameter(f"arg_{number}_base_addr") for number in range(len(self.arguments))]
        function = Function(tuple(parameters), tuple(body))
        bundle = DocumentedBundle(self.program.name, function, self.ops)
        return Emitted(bundle, (*pool, *self.arguments), tuple(self.extensions))

    def number(self, number: ir.Scalar | float, form: DataFormats) -> Address:
        """The argument of a number: one stick, whose lane 0 serves all lanes."""
        key = (number.name if isinstance(number, ir.Scalar) else repr(number), form)
        if key not in self.numbers:
            self.numbers[key] = len(self.arguments)
            layout = SpyreTensorLayout([1, form.elems_per_stick()], [-1, -1], form)
            if isinstance(number, ir.Scalar):
                argument = Argument(number.name, "number", STICK_BYTES, number.dtype, (), layout)
            else:
                dtype = _DTYPES.get(form, "int32")
                argument = Argument(f"constant_{number!r}", "constant", STICK_BYTES, dtype, (), layout, value=number)
            self.arguments.append(argument)
        return Address(self.first + self.numbers[key])

    def _write(self, op: ir.Op, make: Callable[[Callable[[Address], int]], SuperDsc]) -> Execute:
        """An op's file and its execution: symbols go on from file to file, an address has one per file."""
        known: dict[Address, int] = {}

        def symbol(address: Address) -> int:
            if address not in known:
                self.symbols += 1
                known[address] = -self.symbols
            return known[address]

        number = len(self.ops)
        made = make(symbol)
        file = f"sdsc_{number}.json"
        self.ops[file] = replace(made, name=f"{number}_{made.op}", provenance=_provenance(op))
        return Execute(file, tuple((name, address) for address, name in known.items()), number)


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


def _place(buffer: ir.Buffer) -> int:
    if buffer.place is None:
        raise InternalError(f"buffer {buffer.name!r} reached the emitter without a place in the pool")
    return buffer.place


def _provenance(op: ir.Op) -> Provenance:
    """Where an op came from; its id is a hash of what it is and where."""
    digest = hashlib.sha256(f"{op.name} {op.row} {op.dims} {op.origin}".encode()).digest()
    found = _PLACE.match(op.origin)
    source = SourcePlace(found["file"] or found["path"], int(found["line"] or found["number"])) if found else None
    return Provenance(str(int.from_bytes(digest[:8], "big") >> 1), source)
