"""From IR to a program on the card: passes, bundle, back end. Every eager call and every graph goes this way."""

from __future__ import annotations

from dataclasses import replace

from openspyre import backend
from openspyre.card import programs
from openspyre.card.cards import settings_in_force
from openspyre.compiler import emit, pipeline
from openspyre.compiler.ir import Program
from openspyre.spec.machine import SPYRE


def load(ir: Program) -> tuple[int, int]:
    """Compile and load; the program's number and the bytes of its pool."""
    machine = replace(SPYRE, cores=settings_in_force().sencores)
    bundle = emit.emit(pipeline.run(ir, machine))
    program = backend.compile_bundle(bundle)
    return programs.load(program).number, program.pool_bytes
