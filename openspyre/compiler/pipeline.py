"""The pipeline: the list of passes, in order, and nothing else."""

from __future__ import annotations

from typing import Protocol

from openspyre.compiler.ir import Program
from openspyre.compiler.passes.choose_layouts import ChooseLayouts
from openspyre.compiler.passes.divide_work import DivideWork
from openspyre.compiler.passes.drop_dead import DropDead
from openspyre.compiler.passes.eliminate_copies import EliminateCopies
from openspyre.compiler.passes.insert_relayouts import InsertRelayouts
from openspyre.compiler.passes.place_buffers import PlaceBuffers
from openspyre.compiler.verify import Verifier
from openspyre.spec.errors import InternalError
from openspyre.spec.machine import SPYRE, Machine


class Pass(Protocol):
    def run(self, program: Program) -> Program: ...


def passes(machine: Machine = SPYRE) -> tuple[Pass, ...]:
    return (
        EliminateCopies(),
        DropDead(),
        ChooseLayouts(),
        InsertRelayouts(),
        DivideWork(cores=machine.cores),
        PlaceBuffers(),
    )


def run(program: Program, machine: Machine = SPYRE, *, verify: bool = False) -> Program:
    """All passes; with `verify`, what comes in and what each of them returns is checked."""
    steps = passes(machine)
    if verify:
        _check("what the passes were given", program, Verifier(machine.cores))
    for step in steps:
        program = step.run(program)
        if verify:
            _check(f"what {type(step).__name__} returned", program, Verifier(machine.cores, lowered=step is steps[-1]))
    return program


def _check(what: str, program: Program, verifier: Verifier) -> None:
    problems = verifier.problems(program)
    if problems:
        raise InternalError("\n".join([f"{what} is no valid program {program.name!r}:", *problems]))
