"""What the compiler computes on the host for constants is, bit for bit, what the card computes: every row that it may fold, every primitive."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from fused_bits import place

from openspyre.backend import compile_emitted
from openspyre.card import cards, programs
from openspyre.compiler import ir, pipeline
from openspyre.compiler.constant_values import DTYPES, KnownValues, computed
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.primitives import fma
from openspyre.spec.encodings import float_bits, float_of, sen169_decode, sen169_encode, to_device, to_host
from openspyre.spec.ops import TABLE, Kind

N = 512
REALS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.5,
    np.inf,
    -np.inf,
    np.nan,
    65504.0,
    1e-9,
    2.0**31,
    -(2.0**31),
    3e9,
    7.0,
    -7.0,
]
WHOLE = [0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 33, 255, 2**31 - 1, -(2**31), -(2**31) + 1, 65536, 46341]
ROWS = [row for row in TABLE.values() if row.kind in (Kind.POINTWISE, Kind.CREATION) and row.body is not None]


def drawn(dtype: str, seed: int) -> np.ndarray:
    """Elements as registers load them; all that is special meets all else."""
    random = np.random.default_rng(seed)
    if "int" in dtype:
        some = random.integers(-40, 40, N)
        if dtype == "int64":  # what leaves its 32 bits is left to the card, whose sanitizer tells
            return np.where(random.random(N) < 0.6, random.integers(-46000, 46000, N), some).astype(np.int32)
        return np.where(random.random(N) < 0.6, random.choice(WHOLE, N), some).astype(np.int32)
    if dtype == "bool":
        return random.integers(0, 2, N).astype(np.float32)
    some = random.standard_normal(N) * np.exp(3 * random.standard_normal(N))
    values = np.where(random.random(N) < 0.5, random.choice(REALS, N), some).astype(np.float32)
    return values if dtype == "float32" else sen169_decode(sen169_encode(values))


def result_dtype(row, dtype: str) -> str:
    return "bool" if row.compares else dtype


def number(row, dtype: str, place: int) -> ir.Scalar:
    """A number of the launch that is known already: 3, -2, ..."""
    value = 3 - 5 * place
    whole = "int" in dtype or row.name in ("tril", "triu")
    return ir.Scalar(f"s{place}", *(("int32", value & 0xFFFFFFFF) if whole else ("float32", float_bits(value))))


def op_of(row, dtype: str) -> ir.Op:
    """The row on tensors x0, x1, ..., or on counts where it makes something, and on numbers."""
    creates = row.kind is Kind.CREATION and row.name not in ("tril", "triu")
    counts = [ir.Iota(3 - k, (1 - 2 * k,)) for k in range(row.operands)]
    inputs = counts if creates else [ir.Access(f"x{k}", 0, (1,), dtype) for k in range(row.operands)]
    if row.name in ("tril", "triu"):
        inputs[1] = ir.Iota(-N // 2, (1,))
    target = ir.Access("out", 0, (1,), result_dtype(row, dtype))
    numbers = [number(row, dtype, place) for place in range(len(row.scalars))]
    return ir.Op("one", row.name, (ir.Dim("i", N),), (*inputs, *numbers), (target,))


def known_values(op: ir.Op, zeros_alike: bool) -> tuple[dict[str, KnownValues], dict[str, np.ndarray]]:
    known, hosts = {}, {}
    for seed, access in enumerate(op.accesses[:-1]):
        held = known[access.buffer] = KnownValues(ir.Buffer(access.buffer, access.dtype, (N,), (1,), ir.Role.INPUT))
        values = drawn(access.dtype, seed + len(op.row))
        hosts[access.buffer] = host(np.where(values == 0, 0, values) if zeros_alike else values, access.dtype)
        codes = to_device(hosts[access.buffer], access.dtype)
        held.values[:] = sen169_decode(codes) if codes.dtype == np.uint16 else codes
        held.known[:] = True
    return known, hosts


def folds(row, dtype: str) -> bool:
    if row.composite is not None or (not row.integers and "int" in dtype) or (not row.floats and "float" in dtype):
        return False
    op = op_of(row, dtype)
    try:
        return computed(op, known_values(op, zeros_alike=True)[0]) is not None
    except TypeError:  # no expression of such operands
        return False


def on_card(op: ir.Op, hosts: dict[str, np.ndarray]) -> np.ndarray:
    roles = {access.buffer: (ir.Role.INPUT, access.dtype) for access in op.accesses}
    roles["out"] = (ir.Role.OUTPUT, op.outputs[0].dtype)
    buffers = tuple(ir.Buffer(name, dtype, (N,), (1,), role) for name, (role, dtype) in roles.items())
    asked = {s.name: replace(s, word=None) for s in op.inputs if isinstance(s, ir.Scalar)}
    later = replace(op, inputs=tuple(asked[i.name] if isinstance(i, ir.Scalar) else i for i in op.inputs))
    bundle = emit_bundle(pipeline.run(ir.Program("one", buffers, (later,), tuple(asked.values())), verify=True))
    placed = {
        buffer.name: place(buffer, hosts.get(buffer.name))
        for buffer in bundle.arguments
        if buffer.role in ("input", "output")
    }
    words = {s.name: (s.dtype, s.word) for s in op.inputs if isinstance(s, ir.Scalar)}
    numbers = {
        name: float_of(word) if dtype == "float32" else int(np.uint32(word).view(np.int32))
        for name, (dtype, word) in words.items()
    }
    loaded = programs.load(compile_emitted(bundle))
    try:
        loaded.run({name: array.buffer for name, array in placed.items()}, numbers, cards.get().index)
    finally:
        loaded.unload()
    return placed["out"].numpy()


def host(values: np.ndarray, dtype: str) -> np.ndarray:
    codes = sen169_encode(values) if dtype in ("float16", "bfloat16", "bool") else values
    with np.errstate(over="ignore"):
        return to_host(codes, dtype)


CASES = [pytest.param(row, dtype, id=f"{row.name}-{dtype}") for row in ROWS for dtype in DTYPES if folds(row, dtype)]


@pytest.mark.parametrize("row, dtype", CASES)
def test_a_row_on_the_host_is_the_row_on_the_card(row, dtype):
    op = op_of(row, dtype)
    known, hosts = known_values(op, zeros_alike=False)
    result = computed(op, known)
    if result is None:  # which of two zeros it is, only the card knows
        known, hosts = known_values(op, zeros_alike=True)
        result = computed(op, known)
    made = op.outputs[0].dtype
    found, expected = host(result, made), on_card(op, hosts)
    np.testing.assert_array_equal(found.view(f"u{found.itemsize}"), expected.view(f"u{found.itemsize}"))


def test_what_graphs_count_with_is_computed():
    names = {(case.values[0].name, case.values[1]) for case in CASES}
    rows = {"arange", "linspace", "eye", "causal_mask", "tril", "triu", "iota", "add", "mul", "sub", "cast", "lt"}
    assert {(row, "float32") for row in rows} <= names
    assert {
        (row, "int64") for row in ("arange", "add", "mul", "floor_divide", "remainder", "abs", "minimum", "eq")
    } <= names


def test_fma_rounds_once():
    """Against exact fractions."""
    random = np.random.default_rng(0)
    a, b, c = (
        (random.standard_normal(4000) * 2.0 ** random.integers(-20, 20, 4000)).astype(np.float32) for _ in range(3)
    )
    c[::2] = -(a[::2].astype(np.float64) * b[::2]).astype(np.float32)  # the products' errors alone are left
    c[1::4] = (a[1::4].astype(np.float64) * b[1::4] * 2.0**24).astype(np.float32)
    for x, y, z, found in zip(a, b, c, fma(a, b, c), strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        near = [found, np.nextafter(found, np.float32(np.inf)), np.nextafter(found, np.float32(-np.inf))]
        errors = [abs(Fraction(float(value)) - exact) for value in near]
        assert errors[0] == min(errors)
        if errors.count(min(errors)) > 1:
            assert int(found.view(np.uint32)) % 2 == 0
