"""From IR to a program on the card: passes, bundle, back end. Every eager call and every graph goes this way."""

from __future__ import annotations

from dataclasses import replace

from openspyre import backend
from openspyre.card import programs
from openspyre.card.cards import settings_in_force
from openspyre.compiler import emit, pipeline
from openspyre.compiler.ir import Program
from openspyre.program import model as card_program
from openspyre.spec.machine import SPYRE


def compile_program(ir: Program) -> tuple[Program, card_program.Program]:
    """The program as the passes leave it, with its layouts, and what the card executes."""
    machine = replace(SPYRE, cores=settings_in_force().sencores)
    lowered = pipeline.run(ir, machine)
    return lowered, backend.compile_bundle(emit.emit(lowered))


def load(ir: Program) -> tuple[int, int]:
    """Compile and load; the program's number and the bytes of its pool."""
    _, program = compile_program(ir)
    return programs.load(program).number, program.pool_bytes
