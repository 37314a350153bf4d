"""From IR to a program on the card: passes, bundle, back end. Every eager call and every graph goes this way."""

from __future__ import annotations

from dataclasses import replace

from openspyre import backend
from openspyre.card import programs
from openspyre.compiler import emit, pipeline
from openspyre.compiler.ir import Program
from openspyre.program import model as card_program
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.machine import SPYRE, Machine
from torch_spyre._inductor import config


def compile_program(ir: Program) -> tuple[Program, card_program.Program]:
    """The program as the passes leave it, with its layouts, and what the card executes."""
    lowered = pipeline.run(ir, planned_machine())
    return lowered, backend.compile_bundle(emit.emit(lowered))


def load(ir: Program) -> tuple[int, int]:
    """Compile and load; the program's number and the bytes of its pool."""
    _, program = compile_program(ir)
    return programs.load(program).number, program.pool_bytes


def planned_machine() -> Machine:
    """The card as work is planned for it."""
    if not 1 <= config.sencores <= SPYRE.cores:
        raise InvalidArgument(f"config.sencores is {config.sencores}: a card has 1 to {SPYRE.cores} cores to plan for")
    return replace(SPYRE, cores=config.sencores)
