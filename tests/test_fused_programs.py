"""Random programs whose values lie in the same bytes one after the other: fused, they leave the same bits in every argument."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from openspyre.backend import FuseSteps
from openspyre.card import programs, to_card
from openspyre.program.model import Dim, LaneBlock, Map, Node, Operand, OperandKind, Program, Reduce, Repeat, Step, Use
from openspyre.program.reach import bounds, itemsize, pieces
from openspyre.program.tree import in_iteration
from openspyre.program.verify import problems
from openspyre.spec.ops.expression import Lane, call, trace
from openspyre.spec.ops.row import Fold

ROWS, BLOCKS, SLOTS = 4, 2, 5
SLOT = ROWS * BLOCKS * 128  # bytes of 16-bit rows; 32-bit ones take two slots
SYMBOLS = ("x", "y", "out", "pool")
X, Y, OUT, POOL = range(4)
KINDS = {16: ("float16", "SEN169_FP16"), 32: ("float32", "IEEE_FP32")}


class Recipe:
    """Steps drawn so that places are used again and again, whole, shifted, in parts and by other formats."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.shared = self.choose.random() < 0.4
        self.recent: list[
            Operand
        ] = []  # operands of the last steps: what they wrote is read, what they read is read again

    def program(self) -> Program:
        steps = []
        while len(steps) < self.choose.randint(3, 9):
            step = self.step(f"s{len(steps)}", last=False)
            if _is_sound(step):
                steps.append(step)
                self.recent = [*self.recent, *step.inputs, *step.outputs][-6:]
        steps.append(self.result(f"s{len(steps)}"))
        uses = (Use.SHARED if self.shared else Use.READ, Use.READ, Use.FRESH, Use.SCRATCH)
        return Program("random", SYMBOLS, (), tuple(steps), uses=uses)

    def result(self, name: str) -> Step:
        while not _is_sound(step := self.step(name, last=True)):
            pass
        return step

    def step(self, name: str, *, last: bool) -> Step:
        width, lanes = BLOCKS * 64, self.choose.choice((BLOCKS * 64, BLOCKS * 64, 100))
        target = (
            OUT if last or self.choose.random() < 0.15 else X if self.shared and self.choose.random() < 0.2 else POOL
        )
        lane = LaneBlock(64, lanes, 1)
        dims = (Dim(ROWS), Dim(BLOCKS))
        if self.choose.random() < 0.3 and not last:
            code = trace(lambda v: call(self.choose.choice(("neg", "abs")), v), (Lane.FLOAT,))
            finish = trace(lambda total, index: total, (Lane.FLOAT, Lane.INT))
            lane = LaneBlock(64, lanes, 1, reduced=True)
            dims = (Dim(ROWS), Dim(BLOCKS, reduced=True))
            combine = self.choose.choice((Fold.SUM, Fold.MAX))
            return Reduce(name, dims, lane, (self.rows(),), (self.per_row(target),), code, combine, finish)
        if self.choose.random() < 0.15 and not last:
            per_row = tuple(self.per_row(POOL, dims=1, written=place == 2) for place in range(3))
            code = trace(lambda a, b: call("add", a, b), (Lane.FLOAT,) * 2)
            return Map(name, dims[:1], LaneBlock(64, 1, -1), per_row[:2], per_row[2:], code)
        inputs = tuple(self.operand() for _ in range(self.choose.randint(1, 3)))
        opcodes = [self.choose.choice(("add", "mul", "max", "sub")) for _ in inputs]

        def body(*values):
            result = call(self.choose.choice(("neg", "exp", "abs", "sqrt")), values[0])
            for opcode, value in zip(opcodes, values[1:], strict=False):
                result = call(opcode, result, value)
            return result

        code = trace(body, (Lane.FLOAT,) * len(inputs))
        assert width >= lanes
        return Map(name, dims, lane, inputs, (self.rows(target),), code)

    def operand(self) -> Operand:
        return self.per_row(POOL) if self.choose.random() < 0.25 else self.rows()

    def _again(self, kind: OperandKind, dims: int = 2) -> Operand | None:
        known = [operand for operand in self.recent if operand.kind is kind]
        if not known or self.choose.random() < 0.3:
            return None
        found = self.choose.choice(known)
        return replace(
            found, strides=(found.strides[0], *((0,) if kind is OperandKind.SPLAT else found.strides[1:]))[:dims]
        )

    def rows(self, symbol: int | None = None) -> Operand:
        """Whole rows, of 16 or 32 bits."""
        if symbol is None and (found := self._again(OperandKind.VECTOR)):
            return found
        chosen = self.choose.choice((X, Y, POOL, POOL, POOL)) if symbol is None else symbol
        bits = self.choose.choice((16, 16, 16, 32)) if chosen == POOL else 16
        slots = SLOTS - (1 if bits == 32 else 0)
        byte = self.choose.randrange(slots) * SLOT if chosen in (POOL, X) else 0
        if chosen == POOL and self.choose.random() < 0.1:
            byte = min(byte + BLOCKS * 128, (slots - 1) * SLOT)  # a row further
        strides = (BLOCKS * 64, 64)
        tile = 32 if bits == 32 else 0
        return Operand(OperandKind.VECTOR, chosen, byte * 8 // bits, strides, tile, *KINDS[bits])

    def per_row(self, symbol: int, dims: int = 2, *, written: bool = False) -> Operand:
        """One value to a stick, in lane 0 or 1."""
        if symbol == POOL and not written and (found := self._again(OperandKind.SPLAT, dims)):
            return found
        bits = self.choose.choice((16, 32)) if symbol == POOL else 16
        sticks = self.choose.choice((0, 8, 16, 20)) if symbol == POOL else 0
        offset = sticks * 1024 // bits + self.choose.choice((0, 0, 1))
        return Operand(OperandKind.SPLAT, symbol, offset, (1024 // bits, 0)[:dims], 0, *KINDS[bits])


def _is_sound(step: Step) -> bool:
    """What it writes it reads at the same place, or not at all: else its result would depend on the order of its points."""
    (target,) = step.outputs
    for place, source in enumerate(step.inputs):
        if source.symbol != target.symbol:
            continue
        same = (source.kind, source.offset, source.strides, source.data_format) == (
            target.kind, target.offset, target.strides, target.data_format)  # fmt: skip
        if not (same and isinstance(step, Map)) and _span(step, place, False) & _span(step, 0, True):
            return False
    return True


def _span(step: Step, place: int, output: bool) -> set[int]:
    operand = (step.outputs if output else step.inputs)[place]
    first, end = bounds(pieces(step, place, output=output))
    size = itemsize(operand.data_format)
    return set(range((operand.offset + first) * size, (operand.offset + end) * size))


class Repeats:
    """Steps of a program in repeats, some in each other, with operands that move by rows."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(f"repeats {seed}")

    def program(self, program: Program) -> Program:
        return replace(program, body=self.body(program.steps, ()))

    def body(self, steps: tuple[Step, ...], counts: tuple[int, ...]) -> tuple[Node, ...]:
        found: list[Node] = []
        while steps:
            if len(counts) < 2 and self.choose.random() < 0.35:
                length, count = self.choose.randint(1, len(steps)), self.choose.choice((1, 2, 3))
                found.append(Repeat(count, self.body(steps[:length], (*counts, count))))
            else:
                length = 1
                found.append(self.moving(steps[0], counts))
            steps = steps[length:]
        return tuple(found)

    def moving(self, step: Step, counts: tuple[int, ...]) -> Step:
        """Somewhere in its memory, and sound, in every iteration; else it stays where it is."""
        inputs, outputs = (tuple(self.moved(o, counts) for o in operands) for operands in (step.inputs, step.outputs))
        made = replace(step, inputs=inputs, outputs=outputs)
        all_of_them = [in_iteration(made, where) for where in itertools.product(*map(range, counts))]
        return made if all(_is_sound(here) and _is_inside(here) for here in all_of_them) else step

    def moved(self, operand: Operand, counts: tuple[int, ...]) -> Operand:
        if self.choose.random() < 0.6:
            return operand
        row = 1024 // (16 if operand.data_format == "SEN169_FP16" else 32) * BLOCKS
        return replace(operand, advance=tuple(self.choose.choice((-row, 0, row, ROWS * row)) for _ in counts))


def _is_inside(step: Step) -> bool:
    sides = [(place, False) for place in range(len(step.inputs))] + [(0, True)]
    return all(min(_span(step, *side)) >= 0 and max(_span(step, *side)) < SLOTS * SLOT for side in sides)


def run(program: Program, seed: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    held = {name: to_card(draw.normal(0, 1, SLOTS * SLOT // 2).astype(np.float16)) for name in SYMBOLS}
    loaded = programs.load(program)
    try:
        loaded.run({name: array.buffer for name, array in held.items()})
    finally:
        loaded.unload()
    return {name: held[name].numpy().view(np.uint16) for name in SYMBOLS[:-1]}


@pytest.mark.parametrize("first", range(0, 600, 50))
@pytest.mark.parametrize("repeats", [False, True])
def test_fusion_changes_no_bit_of_an_argument(first, repeats):
    saved = 0
    for seed in range(first, first + 50):
        program = Recipe(seed).program()
        program = Repeats(seed).program(program) if repeats else program
        assert problems(program) == []
        fused = FuseSteps().fused(program)
        assert not fused.problems, f"seed {seed}: {fused.problems}"
        assert problems(fused.program) == []
        saved += len(program.steps) - len(fused.program.steps)
        wanted = run(program, seed)
        for name, found in run(fused.program, seed).items():
            np.testing.assert_array_equal(found, wanted[name], err_msg=f"seed {seed}: {name}")
    assert saved > (15 if repeats else 25), "too little was fused to see a fault"
