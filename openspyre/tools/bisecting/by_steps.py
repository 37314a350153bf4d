"""A program step by step: what each writes, by its distance from the first element. Programs of one bundle have steps of one name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from openspyre.backend import FuseSteps
from openspyre.program.footprint import byte_span
from openspyre.program.model import Program, Space, Step
from openspyre.program.reach import Piece, pieces
from openspyre.program.tree import unrolled
from openspyre.spec.formats import DataFormats
from openspyre.tools.bisecting.machine import StepMachine, one_step
from openspyre.tools.bisecting.records import Elements, Record
from openspyre.tools.bisecting.sides import Launch, Runnable


@dataclass(frozen=True, slots=True)
class Part:
    """Steps of one op, as a program; `name` has a number behind it where a loop comes round again."""

    name: str
    steps: tuple[Step, ...]
    program: Program


def parts_of(program: Program) -> list[Part]:
    found, seen = [], dict[str, int]()
    for name, steps in groupby(unrolled(program).steps, key=lambda step: step.name):
        own = tuple(steps)
        times = seen[name] = seen.get(name, -1) + 1
        found.append(Part(f"{name}#{times}" if times else name, own, one_step(program, own)))
    return found


def members_of(launch: Launch) -> dict[str, tuple[str, ...]]:
    """By step of the fused program: the ops that it computes, if several. A saved program does not say; fusing again does."""
    if launch.fused is None or launch.unfused is None:
        return {}
    steps, order = (
        list(dict.fromkeys(step.name for step in unrolled(what[0]).steps)) for what in (launch.fused, launch.unfused)
    )
    found = {}
    for name, ops in FuseSteps().fused(launch.unfused[0]).members.items():
        if name in steps and not set(steps) & set(ops) - {name}:  # else another version fused it, and otherwise
            found[name] = tuple(op for op in order if op in ops)
    return found


def start(runnable: Runnable) -> StepMachine:
    return StepMachine(runnable.arguments, runnable.images, runnable.scalars, runnable.pads)


def trace_steps(number: int, launch: Launch, what: tuple[Program, Runnable]) -> Iterator[Record]:
    """Runs it; an error of the card ends it."""
    program, runnable = what
    machine, sources = start(runnable), launch.sources
    for part in parts_of(program):
        machine.run(part.program)
        name = part.name.split("#")[0]
        kind = name.split("_", 1)[-1]
        outputs = tuple(_outputs(part, machine, runnable))
        yield Record(number, part.name, kind, sources.get(name, launch.site), (), outputs)


def _outputs(part: Part, machine: StepMachine, runnable: Runnable) -> Iterator[Elements]:
    """What the steps leave for others: not what the op keeps for itself between them."""
    found: dict[tuple[int, int, str], list[NDArray[np.int64]]] = {}
    for place, step in enumerate(part.steps):
        for number, operand in enumerate(step.outputs):
            if operand.space is not Space.MEMORY or _is_read(step, number, part.steps[place + 1 :]):
                continue
            key = (operand.symbol, number if operand.symbol == runnable.pool else 0, operand.data_format)
            found.setdefault(key, []).append(operand.offset + elements_of_pieces(pieces(step, number, output=True)))
    for (symbol, _, form), places in found.items():
        if symbol >= len(runnable.arguments):
            continue
        argument = runnable.arguments[symbol]
        at = np.unique(np.concatenate(places)) + argument.offset
        codes, known = machine.elements(symbol, at, DataFormats[form])
        first = int(at[0]) if symbol == runnable.pool and at.size else 0
        yield Elements(argument.name, DataFormats[form], (), (at - first)[known], codes[known])


def _is_read(step: Step, number: int, later: tuple[Step, ...]) -> bool:
    operand = step.outputs[number]
    span = byte_span(step, operand)
    for other in later:
        for read in other.inputs:
            found = byte_span(other, read)
            if found and span and read.symbol == operand.symbol and found[0] < span[1] and span[0] < found[1]:
                return True
    return False


def elements_of_pieces(found: tuple[Piece, ...]) -> NDArray[np.int64]:
    """Elements of pieces, counted from the operand's offset."""
    parts = []
    for piece in found:
        at = np.array([piece.first], np.int64)
        for count, stride in piece.grid:
            if stride or count == 0:
                at = (at[:, None] + np.arange(count, dtype=np.int64)[None, :] * stride).ravel()
        parts.append((at[:, None] + np.arange(piece.run, dtype=np.int64)[None, :]).ravel())
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
