"""SuperDSCs of ops, made once for all ops of a structure: which bases they have, and how far behind them every core begins."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from openspyre.artifact.bundle_function import Address
from openspyre.artifact.emitted import Number, Shared
from openspyre.artifact.superdsc import Component, Tensor
from openspyre.compiler import ir
from openspyre.compiler.emit.extension import extension_op
from openspyre.compiler.emit.lowering import Lowering
from openspyre.compiler.emit.operation import Operation, superdsc_of
from openspyre.compiler.structure import structure_of
from openspyre.spec.formats import DataFormats
from openspyre.spec.ops import TABLE, Indexing
from openspyre.spec.sharing import Memo


@dataclass(frozen=True, slots=True)
class Given:
    """A base that the launch brings as a number: input `place` of the op, in the format in which it is taken."""

    place: int
    format: DataFormats


Base = int | Given | Number  # int: the buffer of that access


@dataclass(frozen=True, slots=True)
class Template:
    """What ops of a structure have in common. `reason`: why the hardware has no such op; None if it has."""

    shared: Shared
    bases: tuple[Base, ...]
    reason: str | None
    operation: Operation | None


# Where a tensor in the scratchpads begins, as long as its byte does not matter: access times this.
_APART = 1 << 40
_known: Memo[Template] = Memo()  # of a structure, wherever in the scratchpads its tensors are
_placed: Memo[tuple[Template, Template]] = Memo()  # by id of the first of the two, and bytes


def template_of(
    op: ir.Op, buffers: Mapping[str, ir.Buffer], *, k_fast: bool = True, untold: frozenset[str] = frozenset()
) -> Template:
    """`untold`: temps whose length no op tells that fills them."""
    found = template_anywhere(op, buffers, k_fast=k_fast, untold=untold)
    pads = tuple([_byte(buffers[access.buffer]) for access in op.accesses])
    if all(byte is None for byte in pads):
        return found
    return _placed.get((id(found), pads), lambda: (found, _at(found, pads)))[1]


def template_anywhere(
    op: ir.Op, buffers: Mapping[str, ir.Buffer], *, k_fast: bool = True, untold: frozenset[str] = frozenset()
) -> Template:
    """The template of ops that differ at most in where in the scratchpads their tensors begin: one object for all of them."""
    accesses = op.accesses
    lies = tuple([_lies(buffers[access.buffer]) for access in accesses])
    names = [a.buffer for a in accesses] + [o.name for o in op.inputs if isinstance(o, ir.Scalar)]
    alike = tuple([names.index(name) for name in names])  # which of them are the same
    attributes = repr(op.attributes) if op.attributes else ""  # 1, 1.0 and True are equal, and not alike
    unsure = tuple([name in untold for name in names]) if untold else ()
    key = (structure_of(op, buffers), lies, alike, attributes, k_fast, unsure)
    return _known.get(key, lambda: _made(op, buffers, k_fast, untold))


def _lies(buffer: ir.Buffer) -> Hashable:
    """What decides about a SuperDSC beside layouts."""
    return buffer.role is ir.Role.TEMP, buffer.spare_rows, buffer.values, isinstance(buffer.place, ir.InScratchpad)


def _byte(buffer: ir.Buffer) -> int | None:
    """Where it begins in the scratchpads. That is part of a SuperDSC, while a byte in the pool is a symbol."""
    return buffer.place.byte if isinstance(buffer.place, ir.InScratchpad) else None


def _at(template: Template, pads: Sequence[int | None]) -> Template:
    """The template with its tensors in the scratchpads at these bytes."""

    def start(apart: int) -> int:
        access, byte = divmod(apart, _APART)
        return byte + (pads[access] or 0)

    def placed(tensor: Tensor) -> Tensor:
        if tensor.component is not Component.SCRATCHPAD:
            return tensor
        known = {apart: start(apart) for apart in dict.fromkeys(tensor.starts)}
        return replace(tensor, starts=tuple([known[apart] for apart in tensor.starts]))

    shared = template.shared
    op = replace(shared.op, tensors=tuple(map(placed, shared.op.tensors)))
    return replace(template, shared=Shared(op, shared.offsets, shared.known))


def has_hardware_op(op: ir.Op, buffers: Mapping[str, ir.Buffer], untold: frozenset[str] = frozenset()) -> bool:
    """Whether an op is one of the hardware as it stands: it need not be legal otherwise."""
    bases = _Bases(op, buffers)
    return not isinstance(Lowering(buffers, bases.buffer, bases.number, untold).operation(op), str)


def untold_tables(
    ops: Iterable[ir.Op], buffers: Mapping[str, ir.Buffer], fills: Callable[[ir.Op], bool] = lambda op: False
) -> frozenset[str]:
    """Temps that an index chooses from, and that are not filled whole before, by each op that writes them: nobody can tell how long
    they are. `fills`: ops that are known to fill what they write."""
    ops = list(ops)
    tables = {op.accesses[place].buffer for op in ops if (place := table_place(op)) is not None}
    temps = {name for name in tables if buffers[name].role is ir.Role.TEMP}
    filled: set[str] = set()
    untold: set[str] = set()
    for op in ops if temps else ():
        place = table_place(op)
        chosen = None if place is None else op.accesses[place]
        if chosen is not None and chosen.buffer in temps - filled:
            untold.add(chosen.buffer)
        for number, access in enumerate(op.outputs):
            if access.buffer in temps and access is not chosen:
                (filled if fills(op) or _is_whole(op, number, buffers) else untold).add(access.buffer)
    return frozenset(untold)


def _is_whole(op: ir.Op, number: int, buffers: Mapping[str, ir.Buffer]) -> bool:
    """Whether an output of an op, as its SuperDSC has it, is a whole buffer."""
    layout, operation = buffers[op.outputs[number].buffer].layout, template_of(op, buffers).operation
    walk = None if operation is None else operation.targets[number].walk
    return walk is not None and layout is not None and (walk.offset, walk.span) == (0, prod(layout.device_size))


def table_place(op: ir.Op) -> int | None:
    """Which access of an op an index chooses along: what a gather reads, what a scatter writes."""
    match TABLE[op.row].indexing:
        case None:
            return None
        case Indexing.READ:
            return 0 if isinstance(op.inputs[0], ir.Access) else None
    return len(op.accesses) - 1


def _made(op: ir.Op, buffers: Mapping[str, ir.Buffer], k_fast: bool, untold: frozenset[str]) -> Template:
    bases = _Bases(op, buffers)
    lowering = Lowering(buffers, bases.buffer, bases.number, untold)
    found = lowering.operation(op)
    if isinstance(found, str):
        made, reason = extension_op(op, buffers, lowering, bases.symbol), found
    else:
        made, reason = superdsc_of(found, bases.symbol, k_fast=k_fast), None
    known = tuple(base if isinstance(base, Number) else None for base in bases.found)
    return Template(
        Shared(made, tuple(bases.offsets), known), tuple(bases.found), reason, None if isinstance(found, str) else found
    )


class _Bases:
    """Gives addresses behind bases, and symbols to them, as they are asked for."""

    def __init__(self, op: ir.Op, buffers: Mapping[str, ir.Buffer]) -> None:
        self.op, self.buffers = op, buffers
        self.found: list[Base] = []
        self.texts: dict[str, int] = {}  # 0.0 and -0.0 are equal, and not the same
        self.offsets: dict[tuple[int, int], int] = {}

    def buffer(self, name: str) -> Address:
        number = [access.buffer for access in self.op.accesses].index(name)
        if isinstance(self.buffers[name].place, ir.InScratchpad):
            return Address(None, _APART * number)
        return self._base(number)

    def number(self, number: ir.Scalar | float, form: DataFormats) -> Address:
        if not isinstance(number, ir.Scalar):
            return self._base(Number(number, form))
        names = [operand.name if isinstance(operand, ir.Scalar) else None for operand in self.op.inputs]
        return self._base(Given(names.index(number.name), form))

    def symbol(self, address: Address) -> int:
        assert address.parameter is not None
        return -1 - self.offsets.setdefault((address.parameter, address.byte), len(self.offsets))

    def _base(self, base: Base) -> Address:
        text = repr(base)
        if text not in self.texts:
            self.texts[text] = len(self.found)
            self.found.append(base)
        return Address(self.texts[text])
