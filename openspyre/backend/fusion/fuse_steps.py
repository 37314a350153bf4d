"""Joins steps of a program that hand values on through memory: they stay in registers, rounded as a store would have done."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from openspyre.backend.fusion.driver import Fusion, settled
from openspyre.backend.fusion.forms import Bound, Forms
from openspyre.backend.fusion.idle_bytes import without_idle_bytes
from openspyre.backend.fusion.memory import Listed, Memory, Touch, in_memory
from openspyre.backend.fusion.repeats import TreeFusion
from openspyre.backend.fusion.values import Home, Values, values_of
from openspyre.program.model import (
    Contract,
    Gather,
    Map,
    Operand,
    Program,
    Reduce,
    Relayout,
    Rows,
    Scan,
    Scatter,
    Sort,
    Use,
)
from openspyre.program.reach import itemsize
from openspyre.program.verify import step_problems

_log = logging.getLogger("spyre.compiler")


@dataclass(frozen=True, slots=True)
class Fused:
    """What became of a program; where `problems` say why the fused one is wrong, it is the program as it was.

    `members`: of steps that several became, by name, the names of those.
    """

    program: Program
    problems: tuple[str, ...] = ()
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FuseSteps:
    """No division or rounding changes, and no bit of a result (contract N3). What cannot be improved stays as it is."""

    def run(self, program: Program) -> Program:
        return self.fused(program).program

    def fused(self, program: Program) -> Fused:
        """With the reasons, where fusion made a program that no card would take: each is a defect of ours."""
        uses = tuple(map(program.use, range(len(program.symbols) + (1 if program.pool_bytes else 0))))
        problems: list[str] = []
        members: dict[str, tuple[str, ...]] = {}
        body = TreeFusion(uses, partial(_fused, program, problems, members)).body(program.body)
        if problems:
            _log.warning("program %r runs without fusion, which made it wrong: %s", program.name, "; ".join(problems))
            return Fused(program, tuple(problems))
        if body is program.body:
            return Fused(program)
        return Fused(without_idle_bytes(replace(program, body=body)), members=members)


def _fused(
    program: Program,
    problems: list[str],
    members: dict[str, tuple[str, ...]],
    steps: Sequence[Listed],
    uses: tuple[Use, ...],
) -> tuple[Listed, ...] | None:
    """Steps one behind the other; None if they stay as they are."""
    scratch = frozenset(symbol for symbol, use in enumerate(uses) if use is Use.SCRATCH)
    values = values_of(steps, len(uses), scratch)
    if values is None:
        return None
    forms = Forms(values.homes)
    before = _bound(steps, values, forms)
    kept = Fusion(before, Memory(uses), forms).run()
    if len(kept) == len(before):
        return None
    problems += _problems(before, kept, uses, program)
    for step in kept:
        if len(step.members) > 1:
            members[step.name] = tuple(
                dict.fromkeys([one for name in step.members for one in members.get(name, (name,))])
            )
    return tuple(step.step(values.homes) for step in kept)


def _problems(
    before: Sequence[Bound], after: Sequence[Bound], uses: tuple[Use, ...], program: Program
) -> Iterator[str]:
    """Steps of a form are right together, so each form is looked at once. What was written must be written still."""
    for form, bound in {bound.form: bound for bound in after}.items():
        if not isinstance(form.step, Touch):
            for problem in step_problems(form.step, len(bound.symbols), len(program.scalars)):
                yield f"step {bound.name!r}: {problem}"
    written = [{span.symbol for step in steps for span in step.writes} for steps in (before, after)]
    gone = written[0] - written[1]
    for number, use in enumerate(uses):
        if number in gone and use is not Use.SCRATCH:
            name = program.symbols[number] if number < len(program.symbols) else "in a repeat"
            yield f"{use} argument {name!r} is not written any more"
    for step in after:
        if any(span.symbol in gone for span in step.reads):
            yield f"step {step.name!r} reads what is not written any more"


def _bound(steps: Sequence[Listed], values: Values, forms: Forms) -> tuple[Bound, ...]:
    """Steps made from one description differ in where their operands begin and in which of them are the same memory."""
    found = []
    for step, inputs, outputs in zip(steps, values.inputs, values.outputs, strict=True):
        chosen, operands = (*inputs, *outputs), (*step.inputs, *step.outputs)
        offsets = [_offset_at_home(o, symbol, values.homes) for o, symbol in zip(operands, chosen, strict=True)]
        symbols = tuple(dict.fromkeys([s for o, s in zip(operands, chosen, strict=True) if in_memory(o)]))
        make = partial(_at_home, step, chosen, offsets)
        found.append(forms.bound(_key(step, operands, chosen, offsets, symbols), symbols, step, make))
    return tuple(found)


def _offset_at_home(operand: Operand, symbol: int, homes: dict[int, Home]) -> int:
    """An operand's offset, counted from where its value begins."""
    if symbol == operand.symbol or symbol not in homes:
        return operand.offset
    return operand.offset - homes[symbol].begin // itemsize(operand.data_format)


def _at_home(step: Listed, symbols: Sequence[int], offsets: Sequence[int]) -> Listed:
    """The step on its values."""
    made = [
        replace(operand, symbol=symbol, offset=offset)
        for operand, symbol, offset in zip((*step.inputs, *step.outputs), symbols, offsets, strict=True)
    ]
    first = len(step.inputs)
    return settled(replace(step, inputs=tuple(made[:first]), outputs=tuple(made[first:])))


def _key(
    step: Listed, operands: Sequence[Operand], chosen: Sequence[int], offsets: Sequence[int], symbols: tuple[int, ...]
) -> Hashable:
    """Equal for steps that are the same but for their symbols. Those of one description have its parts, not copies of them."""
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    return (
        type(step),
        () if isinstance(step, Relayout) else (id(step.dims), id(step.lane), step.cores),
        _own(step),
        tuple(
            [
                (numbers[symbol] if in_memory(o) else symbol, o.kind, offset, o.strides, o.tile_stride, o.dtype)
                for o, symbol, offset in zip(operands, chosen, offsets, strict=True)
            ]
        ),
        tuple([(o.data_format, o.space, o.owner, o.advance) for o in operands]),
    )


def _own(step: Listed) -> Hashable:
    """What steps of a kind have of their own."""
    match step:
        case Map():
            return id(step.code)
        case Reduce():
            return id(step.code), id(step.finish), step.combine
        case Rows():
            return id(step.stages), step.results
        case Contract():
            codes = (id(step.a_code), id(step.b_code))
            return step.k_extent, step.k_lanes, step.b_row_stride, step.b_along_k, codes
        case Relayout():
            return step.source, step.target
        case Gather():
            return id(step.code), step.index_stride, step.index_bound
        case Scatter():
            return id(step.code), step.index_stride, step.index_bound, step.accumulate
        case Scan() | Sort():
            return step.combine
        case Touch():
            return step.exact
