"""Products that read through a restickify or a map in front of them: on the card, against numpy and against the steps apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from openspyre.backend.fusion.operands_of_products import fed_by, read_through
from openspyre.card import cards, programs
from openspyre.program.model import Contract, Dim, LaneBlock, Map, Operand, OperandKind, Program, Step
from openspyre.program.verify import problems
from openspyre.spec.encodings import sen169_decode, sen169_encode
from openspyre.spec.ops.expression import Code, Instruction, Lane

E = 64
F, INT = Lane.FLOAT, Lane.INT
BITS = {"dtype": "int16", "data_format": "SENINT16"}
COPY = Code((INT,), (), (), (0,), (INT,))


def tiled(values: np.ndarray) -> bytes:
    """[.., rows, columns] as sticks along the columns: [columns / 64][.., rows][64]."""
    codes = sen169_encode(values.astype(np.float32)).astype(np.uint16)
    sticks = codes.reshape(*values.shape[:-1], -1, E)
    return np.moveaxis(sticks, -2, 0).tobytes()


def untiled(image: bytes, shape: tuple[int, ...]) -> np.ndarray:
    codes = np.frombuffer(image, np.uint16).reshape(shape[-1] // E, *shape[:-1], E)
    return sen169_decode(np.moveaxis(codes, 0, -2).reshape(shape))


class Case:
    """C[b, m, n] = A[b, m, k] * W[b, n, k]: W lies along k, as cached keys do, and is restickified to lie along n."""

    def __init__(self, batch: int, m: int, n: int, k: int, split: int = 1) -> None:
        self.shapes = ((batch, m, k), (batch, n, k), (batch, m, n), (batch, k, n))
        self.restickify = Map(
            "restickify",
            (Dim(batch), Dim(n // E), Dim(k // E), Dim(E)),
            LaneBlock(E, n, 1),
            (Operand(OperandKind.STRIDED, 1, 0, (n * E, E * E, batch * n * E, 1), E, **BITS),),
            (Operand(OperandKind.VECTOR, 3, 0, (k * E, batch * k * E, E * E, E), 0, **BITS),),
            COPY,
        )
        self.product = Contract(
            "product",
            (Dim(batch), Dim(m), Dim(n // E), Dim(k // E, split, True)),
            LaneBlock(E, n, 2),
            (
                Operand(OperandKind.VECTOR, 0, 0, (m * E, E, 0, batch * m * E)),
                Operand(OperandKind.VECTOR, 3, 0, (k * E, 0, batch * k * E, E * E)),
            ),
            (Operand(OperandKind.VECTOR, 2, 0, (m * E, E, batch * m * E, 0)),),
            k_extent=k,
            k_lanes=E,
            b_row_stride=E,
        )

    def scale(self, symbol: int, target: int, factor: float) -> Map:
        """A map of A or W, along its own sticks, to another symbol."""
        batch, rows, columns = self.shapes[symbol]
        bits = int(np.float32(factor).view(np.uint32))
        code = Code((F,), (bits,), (Instruction("mul", 2, (0, 1)),), (2,), (F,))
        strides = (rows * E, E, batch * rows * E)
        return Map(
            "scale",
            (Dim(batch), Dim(rows), Dim(columns // E)),
            LaneBlock(E, columns, 2),
            (Operand(OperandKind.VECTOR, symbol, 0, strides),),
            (Operand(OperandKind.VECTOR, target, 0, strides),),
            code,
        )

    def run(self, steps: list[Step], a: np.ndarray, w: np.ndarray) -> bytes:
        """C after the steps; symbols 3 to 5 are temps."""
        program = Program("p", ("a", "w", "c", "t", "u", "v"), (), tuple(steps))
        assert problems(program) == []
        sizes = [2 * int(np.prod(self.shapes[s])) for s in (0, 1, 2, 3, 0, 1)]
        card = cards.get()
        buffers = {name: card.allocate(size) for name, size in zip(program.symbols, sizes, strict=True)}
        buffers["a"].write_memory(tiled(a))
        buffers["w"].write_memory(tiled(w))
        loaded = programs.load(program)
        loaded.run(buffers)
        loaded.unload()
        return buffers["c"].read_memory()[: sizes[2]]


CASES = [(1, 1, 64, 64), (2, 5, 128, 192), (3, 70, 64, 128), (1, 600, 192, 64)]


def small_integers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


@pytest.mark.parametrize("sizes", CASES)
@pytest.mark.parametrize("split", [1, 2])
def test_a_product_reads_through_a_restickify(sizes: tuple[int, int, int, int], split: int) -> None:
    case = Case(*sizes, split=split if sizes[3] // E % split == 0 else 1)
    through = fed_by(case.product, 1, case.restickify)
    assert through is not None
    assert through.b_along_k
    assert through.inputs[1].symbol == 1
    a, w = small_integers(case.shapes[0], 1), small_integers(case.shapes[1], 2)
    exact = np.einsum("bmk,bnk->bmn", a, w)
    for steps in ([case.restickify, case.product], [through]):
        assert (untiled(case.run(steps, a, w), case.shapes[2]) == exact).all()


@pytest.mark.parametrize("sizes", CASES)
def test_a_product_scales_what_it_reads(sizes: tuple[int, int, int, int]) -> None:
    """Both operands, the second one behind a restickify: as attention scales queries and keys."""
    case = Case(*sizes)
    scale_a, scale_w = case.scale(0, 4, 0.3535), case.scale(1, 5, 0.3535)
    restickify = replace(case.restickify, inputs=(replace(case.restickify.inputs[0], symbol=5),))
    product = replace(case.product, inputs=(replace(case.product.inputs[0], symbol=4), case.product.inputs[1]))
    through = fed_by(product, 0, scale_a)
    assert through is not None
    for maker in (restickify, scale_w):
        through = fed_by(through, 1, maker)
        assert through is not None, maker.name
    rng = np.random.default_rng(3)
    a, w = (rng.standard_normal(case.shapes[s]).astype(np.float32) for s in (0, 1))
    a[0, 0, :3] = (np.inf, 0.0, -1e-9)
    apart = case.run([scale_a, scale_w, restickify, product], a, w)
    assert case.run([through], a, w) == apart
    factor = np.float32(0.3535)
    rounded = [sen169_decode(sen169_encode(sen169_decode(sen169_encode(x)) * factor)) for x in (a[:, 1:], w)]
    wanted = np.einsum("bmk,bnk->bmn", *(x.astype(np.float64) for x in rounded))
    got = untiled(apart, case.shapes[2])[:, 1:]
    assert np.abs(got - wanted).max(initial=0) <= 2.0**-9 * np.abs(wanted).max(initial=1)


def test_what_is_not_cheap_or_reads_more_stays_a_step() -> None:
    case = Case(2, 5, 128, 192)
    scale = case.scale(0, 4, 2.0)
    product = replace(case.product, inputs=(replace(case.product.inputs[0], symbol=4), case.product.inputs[1]))
    costly = replace(scale, code=replace(scale.code, instructions=(Instruction("exp", 2, (0,)),)))
    assert fed_by(product, 0, scale) is not None
    assert fed_by(product, 0, costly) is None
    assert fed_by(product, 0, replace(scale, inputs=scale.inputs * 2)) is None
    part = replace(scale, dims=(Dim(2), Dim(4), Dim(3)))  # rows that the map does not make
    assert fed_by(product, 0, part) is None
    shorter = replace(case.product, k_extent=150)
    assert fed_by(shorter, 1, case.restickify) is None


def test_a_map_reads_across_the_sticks_of_what_was_restickified() -> None:
    case = Case(2, 1, 128, 192)
    batch, n, k = case.shapes[1]
    strides = (k * E, batch * k * E, E)
    double = Map(
        "double",
        (Dim(batch), Dim(n // E), Dim(k)),
        LaneBlock(E, n, 1),
        (Operand(OperandKind.VECTOR, 3, 0, strides),),
        (Operand(OperandKind.VECTOR, 2, 0, strides),),
        Code((F,), (), (Instruction("add", 1, (0, 0)),), (1,), (F,)),
    )
    through = read_through(double, 0, case.restickify)
    assert through is not None
    assert through.inputs[0].kind is OperandKind.STRIDED
    case.shapes = (case.shapes[0], case.shapes[1], case.shapes[3], case.shapes[3])
    a, w = small_integers(case.shapes[0], 1), small_integers(case.shapes[1], 2)
    for steps in ([case.restickify, double], [through]):
        assert (untiled(case.run(steps, a, w), case.shapes[3]) == 2 * w.transpose(0, 2, 1)).all()
