"""The interpreter's own rules, against numbers worked out by hand: a wrong oracle is worse than none."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from . import run
from .errors import BundleError, UnknownOperation
from .formats import FORMATS
from .handmade import SEGMENT, program, tensor, write

HALF, FLOAT, E4M3 = FORMATS["SEN169_FP16"], FORMATS["IEEE_FP32"], FORMATS["SEN143_FP8"]
FLAT = {"OUTPUT": ("mb out", "out", 64)}
MATMUL = {"INPUT": ("mb in", "in", 64), "KERNEL": ("in out", "out", 64), "OUTPUT": ("mb out", "out", 64)}


def halves(values: np.ndarray) -> np.ndarray:
    return HALF.encode(np.asarray(values, dtype=np.float32)).view(np.uint8).reshape(-1)


def tiled(values: np.ndarray, lanes: int = 64) -> np.ndarray:
    """[rows, columns] as device bytes: sticks of columns, rows within, padded with 7."""
    rows, columns = values.shape
    padded = np.full((rows, -(-columns // lanes) * lanes), 7, dtype=np.float32)
    padded[:, :columns] = values
    return halves(padded.reshape(rows, -1, lanes).transpose(1, 0, 2))


def launched(directory: Path, *images: np.ndarray) -> np.ndarray:
    """The last argument afterwards, as 16-bit numbers."""
    return HALF.decode(run([directory], [list(images)])[0][-1].view(np.uint16))


def zeros(sticks: int) -> np.ndarray:
    return np.zeros(sticks * 128, dtype=np.uint8)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *[(0.0, 0), (1.0, 0x3E00), (-1.0, 0xBE00), (0.5, 0x3C00), (1 / 3, 0x3AAB), (0.1, 0x3733), (448, 0x4F80)],
        *[(65504, 0x5E00), (2.0**-31, 0), (1.001 * 2.0**-31, 1), (np.inf, 0x7FFF), (-np.inf, 0xFFFF), (1e-30, 0)],
        *[(np.nan, 0x7FFE), (-np.nan, 0x7FFE), (1e30, 0x7FFF), (-1e30, 0xFFFF), (-0.0, 0x8000)],
        *[(1 + 2.0**-10, 0x3E01), (-1 - 2.0**-10, 0xBE01), (509.5 / 512 * 2.0**32 + 2.0**32, 0x7FFF)],
    ],
)
def test_golden_vectors_of_sen169(value: float, code: int) -> None:
    assert HALF.encode(np.array([value])) == [code]


def test_every_code_of_sen169_comes_back() -> None:
    codes = np.arange(1 << 16).astype(np.uint16)
    back = HALF.encode(HALF.decode(codes))
    assert (back == np.where(codes == 0xFFFE, 0x7FFE, codes)).all()


def test_eight_bit_floats() -> None:
    values = np.array([0, 1, -1, 448, 1e9, -np.inf, np.nan, 2.0**-10, 1.5 * 2.0**-9, 1.0625, 1.1875, -0.0])
    codes = [0, 0x38, 0xB8, 0x7E, 0x7E, 0xFE, 0x7F, 0, 2, 0x38, 0x3A, 0x80]
    assert E4M3.encode(values).tolist() == codes
    finite = np.array([c for c in range(256) if c & 0x7F != 0x7F], dtype=np.uint8)
    assert (E4M3.encode(E4M3.decode(finite)) == finite).all()
    other = FORMATS["SEN152_FP8"]
    assert other.encode(np.array([1.0, -0.0, 57344.0, 1e9, np.nan])).tolist() == [0x40, 0, 0x7F, 0x80, 0x80]


def test_a_sum_along_the_stick_goes_through_lanes(tmp_path: Path) -> None:
    row = np.zeros((1, 128))
    row[0, [0, 1, 32, 64]] = 2.0**24, 3, -(2.0**24), 1  # 5 if added one after the other
    tensors = [tensor("OUTPUT", "mb out", [1, 1], 0), tensor("OUTPUT", "mb out", [1, -2], SEGMENT)]
    write(program(tmp_path) / "sdsc_0.json", "sum", {"mb": 1, "out": 128}, {}, FLAT, tensors)
    result = launched(tmp_path, tiled(row), zeros(1))
    assert result[0] == 3
    assert (result[1:] == 0).all()  # a sparse stick: lane 0 alone is written


def test_a_mask_goes_by_its_name(tmp_path: Path) -> None:
    constants = [("scaling_factor", "IEEE_FP32", 0x3C23D70A), ("samv-maskvalue", "SEN169_FP16", 0)]
    tensors = [tensor("OUTPUT", "mb out", [1, 1], 0), tensor("OUTPUT", "mb out", [1, -2], SEGMENT)]
    sizes = {"mb": 2, "out": 128}
    write(program(tmp_path) / "sdsc_0.json", "mean", sizes, {}, FLAT, tensors, constants, {"out": [[100, 28]]})
    result = launched(tmp_path, tiled(np.array([[1.0] * 100, [3.0] * 100])), zeros(2))
    assert result[[0, 64]].tolist() == [1, 3]


@pytest.mark.parametrize(("parts", "expected"), [(1, 0), (2, 1)])
def test_parts_of_k_are_added_after_each_is_summed(tmp_path: Path, parts: int, expected: int) -> None:
    left = np.zeros((1, 128))
    left[0, [0, 1, 64, 65]] = 2.0**24, 1, 1, -(2.0**24)
    tensors = [
        tensor("INPUT", "mb in", [1, 1], [i * 128 * 2 // parts for i in range(parts)]),
        tensor("KERNEL", "in out", [1, 1], [SEGMENT + i * 128 * 128 // parts for i in range(parts)]),
        tensor("OUTPUT", "mb out", [1, 1], 2 * SEGMENT),
    ]
    sizes = {"mb": 1, "out": 64, "in": 128}
    write(program(tmp_path) / "sdsc_0.json", "batchmatmul", sizes, {"in": parts}, MATMUL, tensors)
    assert (launched(tmp_path, tiled(left), halves(np.ones((128, 64))), zeros(1)) == expected).all()


def test_products_of_float32_are_fused(tmp_path: Path) -> None:
    left = np.zeros((2, 32), dtype=np.float32)
    left[:, 0] = 1 + 2.0**-11
    left[:, 1] = 1 + 2.0**-12
    right = np.zeros((32, 32), dtype=np.float32)
    right[0], right[1] = -1, 1 + 2.0**-12
    roles = {role: (order, stick, 32) for role, (order, stick, _) in MATMUL.items()}
    places = [("INPUT", "mb in", 0), ("KERNEL", "in out", SEGMENT), ("OUTPUT", "mb out", 2 * SEGMENT)]
    tensors = [tensor(role, order, [1, 1], start, format="IEEE_FP32") for role, order, start in places]
    write(program(tmp_path) / "sdsc_0.json", "batchmatmul", {"mb": 2, "out": 32, "in": 32}, {}, roles, tensors)
    images = [left.view(np.uint8).reshape(-1), right.view(np.uint8).reshape(-1), zeros(2)]
    assert (run([tmp_path], [images])[0][2].view(np.float32) == 2.0**-24).all()


def test_exact_accumulation_of_random_float32() -> None:
    from fractions import Fraction

    from .reduction import _accumulate_fused

    random = np.random.default_rng(0)
    total, a, b = (random.standard_normal(3000).astype(np.float32) for _ in range(3))
    total = np.where(random.random(3000) < 0.5, -(a * b) * (1 + total * np.float32(1e-7)), total).astype(np.float32)
    got = _accumulate_fused(total, a, b)
    for t, x, y, result in zip(total.tolist(), a.tolist(), b.tolist(), got, strict=True):
        exact = Fraction(t) + Fraction(x) * Fraction(y)
        error = abs(Fraction(float(result)) - exact)
        neighbours = [np.nextafter(result, np.float32(end)) for end in (-np.inf, np.inf)]
        assert all(error <= abs(Fraction(float(n)) - exact) for n in neighbours)


@pytest.mark.parametrize("absent", [True, False], ids=["rows not in memory", "rows not walked"])
def test_the_gap_of_a_restickify_is_what_the_length_says(tmp_path: Path, absent: bool) -> None:
    """70 x 130 transposed, both padded to sticks; or 128 x 192 out of 186 x 192, with the same fields."""
    roles = {"OUTPUT": ("mb out", "out", 64), "KERNEL": ("out mb", "mb", 64)}
    rows = 70 if absent else 186
    source = np.random.default_rng(1).integers(-99, 99, (rows, 192)).astype(np.float32)
    columns = 130 if absent else 254
    tensors = [
        tensor("OUTPUT", "mb out", [1, 1], 0, gap={"mb": 58}),
        tensor("KERNEL", "out mb", [1, 1], SEGMENT, gap={"out": 62}),
    ]
    write(program(tmp_path) / "sdsc_0.json", "ReStickifyOpHBM", {"mb": 128, "out": 192}, {}, roles, tensors)
    result = launched(tmp_path, tiled(source), zeros(columns * 2)).reshape(2, columns, 64).transpose(0, 2, 1)
    result = result.reshape(128, columns)
    kept, wide = min(rows, 128), min(columns, 192)
    assert (result[:kept, :wide] == source[:kept, :wide]).all()
    assert (result[kept:] == 0).all()
    assert (result[:, wide:] == 0).all()


def test_loops_and_maps(tmp_path: Path) -> None:
    """Rows 4i + 2j of an 8-row tensor, reversed in blocks by a map of its own."""
    tensors = [tensor("OUTPUT", "mb out", [1, 1], -1), tensor("OUTPUT", "mb out", [1, 1], -2)]
    write(tmp_path / "sdsc_0.json", "identity", {"mb": 2, "out": 64}, {}, FLAT, tensors)
    (tmp_path / "bundle.mlir").write_text("""
#there = affine_map<(d0, d1)[s0] -> (s0 + 512*d0 + d1 * 256)>
#back = affine_map<(d0, d1)[s0] -> (s0 + 768 - (512*d0 + 256*d1))>
module { // two loops
  func.func @sdsc_bundle(%a_base: !sdscbundle.input_arg<index>, %b_base: !sdscbundle.input_arg<index>,
      %n_base: !sdscbundle.input_arg<index, granularity=1, max_value=2>) {
    %a = sdscbundle.input_arg_extract value from %a_base : !sdscbundle.input_arg<index> -> index
    %b = sdscbundle.input_arg_extract value from %b_base : !sdscbundle.input_arg<index> -> index
    %n = sdscbundle.input_arg_extract value from %n_base : !sdscbundle.input_arg<index, granularity=1, max_value=2> -> index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      scf.for %j = %c0 to %n step %c1 {
        %x = affine.apply #there(%i, %j)[%a]
        %y = affine.apply #back(%i, %j)[%b]
        sdscbundle.sdsc_execute (%x, %y) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2]}
      }
    }
    return
  }
}""")
    rows = np.arange(8).repeat(64).reshape(8, 64)
    result = launched(tmp_path, halves(rows), zeros(8)).reshape(8, 64)
    assert result[:, 5].tolist() == [6, 7, 4, 5, 2, 3, 0, 1]


@pytest.mark.parametrize(
    ("name", "operands", "constants", "expected"),
    [
        ("clip", [-5], {"clipMax": 3, "clipMin": -2}, -2),
        ("softplus", [1], {"softplusThresh": 20, "softplusBeta": 2}, 1.0634641),
        ("softplus", [11], {"softplusThresh": 20, "softplusBeta": 2}, 11),
        ("gelufwd", [1], {}, 0.8413447),
        ("silu", [-2], {}, -0.2384058),
        ("sigmoid", [-np.inf], {}, 0),
        ("tanh", [0.5], {}, 0.4621172),
        ("exp", [-1], {}, 0.3678794),
        ("log", [0], {}, -np.inf),
        ("rsqrt", [3], {}, 0.5773503),
        ("reciprocal", [-0.0], {}, -np.inf),
        ("realdiv", [1, 3], {}, 1 / 3),
        ("floor", [-1.5], {}, -2),
        ("maximum", [1, np.nan], {}, np.nan),
        ("relufwd", [np.nan], {}, np.nan),
        ("lesserthan", [1, 2], {}, 1),
        ("notequal", [2, 2], {}, 0),
        ("where3", [0, 5, 7], {}, 7),
        ("sub", [np.inf, np.inf], {}, np.nan),
    ],
)
def test_functions(
    tmp_path: Path, name: str, operands: list[float], constants: dict[str, float], expected: float
) -> None:
    tensors = [tensor("OUTPUT", "mb out", [1, 1], i * SEGMENT) for i in range(len(operands) + 1)]
    bits = [(key, "SEN169_FP16", int(HALF.encode(np.array([value]))[0])) for key, value in constants.items()]
    write(program(tmp_path) / "sdsc_0.json", name, {"mb": 1, "out": 64}, {}, FLAT, tensors, bits)
    result = launched(tmp_path, *(halves(np.full(64, x)) for x in operands), zeros(1))
    np.testing.assert_array_equal(result, HALF.decode(HALF.encode(np.full(64, expected))))


def test_statistics_of_a_norm_have_the_format_of_their_stick(tmp_path: Path) -> None:
    row = np.ones((1, 64))
    row[0, 9] += 2.0**-9  # the mean, 1 + 2^-15, is no 16-bit number: it becomes 1
    stick = [tensor("OUTPUT", "mb out", [1, 1], 0), tensor("OUTPUT", "mb out", [1, -2], SEGMENT)]
    scale = int(HALF.encode(np.array([1 / 64]))[0])
    constants = [("exx2scale", "SEN169_FP16", scale), ("useZeroMean", "SEN169_FP16", 0)]
    sizes = {"mb": 1, "out": 64}
    execution = 'sdscbundle.sdsc_execute () {sdsc_filename="sdsc_%d.json"}'
    program(tmp_path, " ".join(execution % i for i in range(3)))
    write(tmp_path / "sdsc_0.json", "exx2", sizes, {}, FLAT, stick, constants)
    stick = [tensor("OUTPUT", "mb out", [1, -2], SEGMENT), tensor("OUTPUT", "mb out", [1, 1], 2 * SEGMENT)]
    write(tmp_path / "sdsc_1.json", "layernormscale", sizes, {}, FLAT, stick, [("eps", "IEEE_FP32", 0x3F800000)])
    places = [(1, 0), (-2, 1), (-2, 2), (1, 3), (1, 4), (1, 5)]
    tensors = [tensor("OUTPUT", "mb out", [1, s], i * SEGMENT) for s, i in places]
    write(tmp_path / "sdsc_2.json", "layernormnorm", sizes, {}, FLAT, tensors)
    images = [tiled(row), zeros(1), zeros(1), halves(np.full(64, 2.0**15)), halves(np.full(64, 4.0)), zeros(1)]
    after = run([tmp_path], [images])[0]
    assert after[1].view(np.uint16)[:3].tolist() == [0x3E00, 0x3E00, 0]
    assert (after[2].view(np.uint16) == 0x3E00).all()
    result = HALF.decode(after[5].view(np.uint16))
    assert result[9] == 2.0**6 + 4
    assert (np.delete(result, 9) == 4).all()


@pytest.mark.parametrize(("name", "expected"), [("topkvalue", [np.nan, 9, 9, 5]), ("topkindex", [4, 1, 3, 2])])
def test_ranks_of_equals_and_of_nan(tmp_path: Path, name: str, expected: list[float]) -> None:
    roles = {"OUTPUT": ("out x", "x", 64), "KERNEL": ("mb x", "x", 64)}
    column = np.array([1, 9, 5, 9, np.nan, -np.inf])
    tensors = [tensor("OUTPUT", "out x", [1, 1], 0), tensor("KERNEL", "mb x", [1, 1], [SEGMENT, SEGMENT + 256])]
    sizes = {"mb": 4, "x": 64, "out": 6}
    write(program(tmp_path) / "sdsc_0.json", name, sizes, {"mb": 2}, roles, tensors)
    result = launched(tmp_path, halves(column.repeat(64)), zeros(4)).reshape(4, 64)
    np.testing.assert_array_equal(result[:, 63], expected)


def test_each_core_has_its_scratchpad_and_a_gap_counts_there(tmp_path: Path) -> None:
    tensors = [
        tensor("OUTPUT", "mb out", [1, 1], [0, 256]),
        tensor("OUTPUT", "mb out", [1, 1], 640, component="lx", gap={"mb": 3}),
    ]
    write(program(tmp_path) / "sdsc_0.json", "neg", {"mb": 4, "out": 128}, {"mb": 2}, FLAT, tensors)
    pads = np.zeros((32, 2 << 20), dtype=np.uint8)
    values = np.arange(512).reshape(4, 128)
    run([tmp_path], [[tiled(values)]], pads)
    for core in range(2):
        held = HALF.decode(pads[core, 640 : 640 + 10 * 128].view(np.uint16)).reshape(2, 5, 64)
        assert (held[:, :2] == -values[2 * core :][:2].reshape(2, 2, 64).transpose(1, 0, 2)).all()
        assert (held[:, 2:] == 0).all()
    assert not pads[2:].any()


def test_errors_name_the_file(tmp_path: Path) -> None:
    tensors = [tensor("OUTPUT", "mb out", [1, 1], 0), tensor("OUTPUT", "mb out", [1, 1], SEGMENT)]
    write(program(tmp_path) / "sdsc_0.json", "fancy", {"mb": 2, "out": 64}, {}, FLAT, tensors)
    with pytest.raises(UnknownOperation, match=r"sdsc_0\.json.*'fancy'"):
        run([tmp_path], [[zeros(2), zeros(2)]])
    write(tmp_path / "sdsc_0.json", "exp", {"mb": 2, "out": 64}, {}, FLAT, tensors)
    with pytest.raises(
        BundleError, match=r"sdsc_0\.json: exp: Tensor1 reaches byte 128 of its argument, where the last is 126"
    ):
        run([tmp_path], [[zeros(2), zeros(1)]])
    program(tmp_path, "%x = arith.muli %y, %z : index")
    with pytest.raises(BundleError, match=r"bundle\.mlir: no statement of a bundle: '%x = arith\.muli"):
        run([tmp_path], [[zeros(2), zeros(2)]])


def test_the_command(tmp_path: Path) -> None:
    tensors = [tensor("OUTPUT", "mb out", [1, 1], 0), tensor("OUTPUT", "mb out", [1, 1], SEGMENT)]
    write(program(tmp_path / "b") / "sdsc_0.json", "abs", {"mb": 1, "out": 64}, {}, FLAT, tensors)
    np.save(tmp_path / "x.npy", halves(np.full(64, -2.5)))
    np.save(tmp_path / "y.npy", zeros(1))
    images = [f"--image={i}={tmp_path / name}" for i, name in enumerate(("x.npy", "y.npy"))]
    command = [sys.executable, "-m", "tests.independent", str(tmp_path / "b"), *images, "--out", str(tmp_path / "o")]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True)
    assert (np.load(tmp_path / "o" / "arg1.npy").view(np.uint16) == HALF.encode(np.array([2.5]))).all()
