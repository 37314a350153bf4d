"""Normalisations: a row's expression cut into stages at its folds.

Values per element are maps into row registers; values per row are the finish of the last fold they need. What is folded or
returned is kept in a register, all else is computed where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from openspyre.artifact.model import Description
from openspyre.backend.operands import lane_of
from openspyre.program.model import ROW_SCALAR, Combine, RowStage, Step, StepKind
from openspyre.spec.errors import InternalError
from openspyre.spec.ops import TABLE
from openspyre.spec.ops.expression import Lane, Value, trace
from openspyre.spec.ops.row_expression import FOLDS, trace_row


def lower(description: Description, step: Step) -> Step:
    body = TABLE[description.row].body
    if body is None:
        raise InternalError(f"the op table says no way to compute {description.row!r}")
    length = prod(dim.size for dim in description.dims if dim.reduced)
    lanes = [lane_of(operand) for operand in description.inputs]
    results = trace_row(body, length, lanes, dict(description.attributes))
    if len(results) < len(description.outputs):
        raise InternalError(f"{description.row!r} has {len(results)} results for {len(description.outputs)} outputs")
    stages = _Stages(results[0], len(description.inputs))
    registers = tuple(stages.register(value.number) for value in results[: len(description.outputs)])
    return replace(step, kind=StepKind.ROWS, stages=tuple(stages.made), row_results=registers)


class _Stages:
    """Makes the stages of the values asked for, each after what it needs."""

    def __init__(self, any_value: Value, inputs: int) -> None:
        tracer = any_value.tracer
        self.lanes = tracer.lanes
        self.constants = {number: bits for bits, number in tracer.constants.items()}
        self.steps = {number: (opcode, sources) for opcode, number, sources in tracer.steps}
        self.folded = {sources[0] for opcode, sources in self.steps.values() if opcode in FOLDS}
        self.per_row = self._values_per_row()
        self.registers = {number: number for number in range(inputs)}
        self.made: list[RowStage] = []
        self.rows, self.scalars = inputs, 0

    def _values_per_row(self) -> set[int]:
        """Folds, and what is computed from folds and constants alone."""
        found: set[int] = set()
        for number, (opcode, sources) in self.steps.items():
            varying = [source for source in sources if source not in self.constants]
            if opcode in FOLDS or (varying and all(source in found for source in varying)):
                found.add(number)
        return found

    def register(self, number: int) -> int:
        """Where a value is kept; its stages are made first."""
        if number not in self.registers:
            if number in self.per_row:
                self._fold(number)
            else:
                self._map(number)
        return self.registers[number]

    def _map(self, number: int) -> None:
        leaves = tuple(self._leaves(number, top=True))
        rows = tuple(self.register(leaf) for leaf in leaves)
        self.registers[number] = self.rows
        self.rows += 1
        self.made.append(
            RowStage(rows, trace(self._body(number, leaves), self._lanes_of(leaves)), self.registers[number])
        )

    def _fold(self, number: int) -> None:
        """The last fold below a value is folded here; totals of earlier ones come as row scalars."""
        last = max(self._folds_below(number))
        opcode, (row,) = self.steps[last]
        source = self.register(row)
        others = tuple(leaf for leaf in self._leaves(number, top=True, stop=last) if leaf != last)
        scalars = tuple(self.register(leaf) for leaf in others)
        leaves = (last, *others)
        code = trace(self._body(number, leaves), self._lanes_of(leaves))
        self.registers[number] = ROW_SCALAR + self.scalars
        self.made.append(RowStage((source, *scalars), code, self.scalars, Combine(FOLDS[opcode].value)))
        self.scalars += 1

    def _folds_below(self, number: int) -> Iterator[int]:
        opcode, sources = self.steps[number]
        if opcode in FOLDS:
            yield number
            return
        for source in sources:
            if source in self.per_row and source not in self.registers:
                yield from self._folds_below(source)

    def _leaves(self, number: int, *, top: bool = False, stop: int = -1) -> Iterator[int]:
        """What the computation of a value starts from, each once."""
        seen: set[int] = set()

        def walk(at: int, top: bool) -> Iterator[int]:
            if at in seen or at in self.constants:
                return
            seen.add(at)
            if at == stop or (not top and self._is_kept(at, number)):
                yield at
                return
            for source in self.steps[at][1]:
                yield from walk(source, False)

        return walk(number, top)

    def _is_kept(self, at: int, within: int) -> bool:
        if at in self.registers or at in self.folded or self.steps[at][0] in FOLDS:
            return True
        return at in self.per_row and within not in self.per_row

    def _lanes_of(self, leaves: tuple[int, ...]) -> tuple[Lane, ...]:
        return tuple(self.lanes[leaf] for leaf in leaves)

    def _body(self, number: int, leaves: tuple[int, ...]) -> Callable[..., Value]:
        """The computation of a value from its leaves, as a body to trace again."""

        def body(*values: Value) -> Value:
            known = dict(zip(leaves, values, strict=True))
            tracer = values[0].tracer

            def build(at: int) -> Value:
                if at in self.constants:
                    return tracer.constant(self.constants[at], self.lanes[at])
                if at not in known:
                    opcode, sources = self.steps[at]
                    known[at] = tracer.emit(opcode, tuple(build(source) for source in sources), self.lanes[at])
                return known[at]

            return build(number)

        return body
