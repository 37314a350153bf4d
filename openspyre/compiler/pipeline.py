"""The pipeline: the list of passes, in order, and nothing else."""

from __future__ import annotations

from typing import Protocol

from openspyre.compiler.ir import Program
from openspyre.compiler.passes.choose_layouts import ChooseLayouts
from openspyre.compiler.passes.divide_work import DivideWork
from openspyre.compiler.passes.insert_relayouts import InsertRelayouts
from openspyre.compiler.passes.place_buffers import PlaceBuffers
from openspyre.spec.machine import SPYRE, Machine


class Pass(Protocol):
    def run(self, program: Program) -> Program: ...


def passes(machine: Machine = SPYRE) -> tuple[Pass, ...]:
    return (ChooseLayouts(), InsertRelayouts(), DivideWork(cores=machine.cores), PlaceBuffers())


def run(program: Program, machine: Machine = SPYRE) -> Program:
    for step in passes(machine):
        program = step.run(program)
    return program
