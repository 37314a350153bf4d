"""Takes numbers that a program reads from arguments of one element as scalars of the launch: no memory is needed for them.

Documented bundles know no other numbers than tensors; whoever launches one of ours knows what they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openspyre.program.model import LoopNest, Operand, OperandKind, Program, Relayout, Space, Step
from openspyre.program.tree import mapped


@dataclass(frozen=True, slots=True)
class BindNumbers:
    """`numbers`: symbols that are no arguments any more, but scalars of that name, already rounded to their formats."""

    numbers: tuple[str, ...] = ()

    def run(self, program: Program) -> Program:
        symbols = {program.symbols.index(name) for name in self.numbers if name in program.symbols}
        symbols -= {symbol for step in program.steps for symbol in _read_otherwise(step)}
        if not symbols:
            return program
        taken = {symbol: len(program.scalars) + place for place, symbol in enumerate(sorted(symbols))}
        left = [symbol for symbol in range(len(program.symbols) + 1) if symbol not in taken]  # the pool comes last
        names = {symbol: place for place, symbol in enumerate(left)}
        return replace(
            program,
            symbols=tuple(program.symbols[symbol] for symbol in left[:-1]),
            uses=tuple(program.uses[symbol] for symbol in left[:-1]) if program.uses else (),
            scalars=(*program.scalars, *(program.symbols[symbol] for symbol in taken)),
            body=mapped(program.body, lambda step: _bound(step, taken, names)),
        )


def _lies_in(operand: Operand) -> bool:
    return operand.kind.in_memory and operand.space is Space.MEMORY


def _read_otherwise(step: Step) -> list[int]:
    """Symbols that a step takes for more than one value."""
    read = [
        o for o in step.inputs if isinstance(step, Relayout) or not (o.kind is OperandKind.SPLAT and _stays(step, o))
    ]
    return [operand.symbol for operand in (*read, *step.outputs) if _lies_in(operand)]


def _stays(step: LoopNest, operand: Operand) -> bool:
    loops = zip(step.loops, operand.strides, strict=True)
    return (
        operand.offset == 0
        and not any(operand.advance)
        and all(loop.extent == 1 or stride == 0 for loop, stride in loops)
    )


def _bound(step: Step, taken: dict[int, int], names: dict[int, int]) -> Step:
    def bound(o: Operand) -> Operand:
        if not _lies_in(o):
            return o
        if o.symbol in taken:
            return replace(o, kind=OperandKind.SCALAR, symbol=taken[o.symbol], strides=(0,) * len(o.strides))
        return replace(o, symbol=names[o.symbol])

    return replace(
        step,
        inputs=tuple(map(bound, step.inputs)),
        outputs=tuple(map(bound, step.outputs)),
    )
