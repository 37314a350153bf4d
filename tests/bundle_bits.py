"""What our compiler writes, read three ways: every op of a bundle by the second reader and by the card from the same memory,
and the whole bundle, read from its files, against the program that is made of it in memory."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from independent import run as second_reader
from independent.formats import FORMATS
from independent.memory import CORES, SCRATCHPAD

from openspyre.artifact.bundle import Bundle, bundle_texts, read_bundle
from openspyre.artifact.bundle_check import check_bundle
from openspyre.artifact.bundle_function import Loop
from openspyre.artifact.launch_spec import Argument
from openspyre.artifact.superdsc import SuperDsc, Tensor
from openspyre.backend import compile_emitted
from openspyre.card import _card, cards, programs
from openspyre.compiler import ir
from openspyre.compiler.emit import Emitted, emit_bundle
from openspyre.program.model import Dim, LaneBlock, Map, Operand, OperandKind, Program, Space
from openspyre.spec.addressing import row_major
from openspyre.spec.encodings import float_of
from openspyre.spec.errors import IndexOutOfRange
from openspyre.spec.formats import require_supported
from openspyre.spec.ops.expression import Lane, trace
from openspyre.spec.packing import elements_of
from openspyre.tools.launches import execute as run
from openspyre.tools.launches import prepare

# What computes nothing that could be rounded otherwise.
EXACT = {"identity", "ReStickifyOpHBM", "shuffle", "dl16tofp32", "fp32todl16", "where3", "floor", "clip", "batchmatmul"}
EXACT |= {"add", "sub", "mul", "neg", "abs", "relufwd", "maximum", "minimum", "realdiv", "reciprocal", "sqrt"}
EXACT |= {"equal", "notequal", "greaterthan", "greaterequal", "lesserthan", "lesserequal"}
EXACT |= {"max", "min", "sum", "prod", "mean"}
_POISON = {2: np.uint16(0x4F3F), 4: np.float32(1234.5).view(np.uint32), 1: np.uint8(0x31)}
_SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-9, 3e9, 65504.0, 1.0009765625])


def agrees(program: ir.Program, words: int = 7) -> Emitted:
    """Emits a lowered program; fails where readers disagree. Padding lanes and the pool hold numbers that would show."""
    emitted = emit_bundle(program)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        bundle = _through_files(emitted.bundle, directory)
        known = _known_numbers(program)
        given = [replace(each, value=known[each.name]) if each.name in known else each for each in emitted.arguments]
        images = [_image(argument, seed, words) for seed, argument in enumerate(given)]
        try:
            after = run(prepare(bundle, dict(enumerate(images)), None, directory))
        except IndexOutOfRange:  # an integer of ours became an index into a short table; 0 is in every table
            assert words > 1
            return agrees(program, words=1)
        if not any(
            buffer.unset and buffer.role is ir.Role.TEMP for buffer in program.buffers
        ):  # else the pool's bytes show
            _as_compiled(program, emitted, images, after, words)
        if any(isinstance(node, Loop) for node in bundle.function.body):
            _with_its_loops(bundle, images, after, directory)
        _op_by_op(bundle, images, directory)
    return emitted


def _with_its_loops(bundle: Bundle, images: list[bytes], after: list[bytes], directory: Path) -> None:
    """The whole bundle by the second reader, where it has no op that the two may round differently."""
    ops = bundle.ops.values()
    if any(op.extension is not None or op.op.removesuffix("nonstick") not in EXACT for op in ops):
        return
    (others,) = second_reader([directory], [[np.frombuffer(image, np.uint8).copy() for image in images]])
    for number, (here, there) in enumerate(zip(after, others, strict=True)):
        if not bundle.function.parameters[number].is_pool:
            np.testing.assert_array_equal(np.frombuffer(here, np.uint8), there, err_msg=f"{bundle.name}: {number}")


def _through_files(bundle: Bundle, directory: Path) -> Bundle:
    for file, text in bundle_texts(bundle).items():
        (directory / file).write_text(text)
    found = read_bundle(directory)
    assert found.ops == bundle.ops
    assert found.function.files() == bundle.function.files()
    assert check_bundle(found) == []
    return found


def _op_by_op(bundle: Bundle, images: list[bytes], directory: Path) -> None:
    """Both readers from the same memory, one op at a time: all memory afterwards, the pool and the scratchpads too."""
    pads = np.zeros((CORES, SCRATCHPAD), np.uint8)
    for execute, iterations in bundle.function.executions():
        symbols = tuple((symbol, address.at(iterations)) for symbol, address in execute.symbols)
        node, op = replace(execute, symbols=symbols), bundle.ops[execute.file]
        one = replace(bundle, function=replace(bundle.function, body=(node,)), ops={node.file: op})
        spans = [_span(op, op.tensors[n]) for n in op.outputs if op.tensors[n].component == "lx"]
        for first, end in spans:
            pads[: op.cores, first:end] = _read_pads(first, end, op.cores)
        after = run(prepare(one, dict(enumerate(images)), None, directory))
        if op.extension is None:
            (directory / "bundle.mlir").write_text(bundle_texts(one)["bundle.mlir"])
            given = [np.frombuffer(image, np.uint8).copy() for image in images]
            held = pads.copy()
            (others,) = second_reader([directory], [given], pads)
            form, name = FORMATS[op.tensors[op.outputs[0]].format.name], op.op.removesuffix("nonstick")
            places = [(f"argument {n}", *three) for n, three in enumerate(zip(images, after, others, strict=True))]
            for first, end in spans:
                before, here, there = (
                    held[: op.cores, first:end],
                    _read_pads(first, end, op.cores),
                    pads[: op.cores, first:end],
                )
                places.append(("scratchpads", *(part.tobytes() for part in (before, here, there))))
                there[:] = here
            for where, before, here, there in places:
                problem = _difference(name, form, before, here, there)
                assert problem is None, f"{bundle.name}, {node.file} ({op.op}), {where}: {problem}"
        images = after


def _span(op: SuperDsc, tensor: Tensor) -> tuple[int, int]:
    """Bytes that one core holds of a tensor in the scratchpads: whole sticks, by the tensor's own division where it has one."""
    sticks = 1
    for label in tensor.order:
        if tensor.scale(label) == 1:
            owners = [dict(own).get(label, 0) for own in tensor.owners]
            size = op.axis[label].size // (1 + max(owners) if owners else op.axis[label].split)
            sticks *= max(1, size // tensor.elems_per_stick) if label == tensor.stick else size
    return tensor.starts[0], tensor.starts[0] + 128 * sticks


def _read_pads(first: int, end: int, cores: int) -> np.ndarray:
    """These bytes of the card's scratchpads, a row for each core."""
    sticks = (end - first) // 128
    loops, lane = (Dim(cores, cores), Dim(sticks)), LaneBlock(64, 64 * sticks, 1)
    bits = {"dtype": "int16", "data_format": "SENINT16"}
    source = Operand(OperandKind.VECTOR, 0, first // 2, (0, 64), **bits, space=Space.SCRATCHPAD)
    target = Operand(OperandKind.VECTOR, 0, 0, (64 * sticks, 64), **bits)
    step = Map("pads", loops, lane, (source,), (target,), code=trace(lambda x: x, (Lane.INT,)))
    buffer = cards.get().allocate(max(128, cores * (end - first)))
    loaded = programs.load(Program("pads", ("pads",), (), (step,), whole_sticks=True))
    try:
        loaded.run({"pads": buffer}, {})
    finally:
        loaded.unload()
    return np.frombuffer(buffer.read_memory(), np.uint8)[: cores * (end - first)].reshape(cores, end - first)


def _difference(name: str, form, before: bytes, here: bytes, there: np.ndarray) -> str | None:
    old, codes, wanted = (np.frombuffer(bytes(data), form.word) for data in (before, here, there))
    off = codes != wanted
    if name == "ReStickifyOpHBM":
        off &= codes != old  # of rows that are not in memory nobody says what their lanes hold
    if not off.any():
        return None
    with np.errstate(invalid="ignore"):
        found, expected = (form.decode(data[off]).astype(np.float64) for data in (codes, wanted))
    both_nan = np.isnan(found) & np.isnan(expected)
    if name in EXACT:
        return (
            None
            if both_nan.all()
            else f"{found[~both_nan][:4]} instead of {expected[~both_nan][:4]}, {off.sum()} in all"
        )
    # One code of the 16-bit format; of fp32, what the contract gives functions on either side.
    steps = np.abs(codes[off].astype(np.int64) - wanted[off].astype(np.int64))
    far = ~both_nan & (steps > (1 if form.word.itemsize == 2 else 6))
    return f"{found[far][:4]} instead of {expected[far][:4]}, {far.sum()} in all" if far.any() else None


def _as_compiled(program: ir.Program, emitted: Emitted, images: list[bytes], after: list[bytes], words: int) -> None:
    """Every element as the program in memory leaves it, which knows what is padding and has numbers in its code."""
    compiled = compile_emitted(emitted)
    card = cards.get()
    names = {argument.name: number for number, argument in enumerate(emitted.arguments) if argument.role != "pool"}
    buffers = {}
    own = {buffer.name: _image(_constant(buffer), 0, words) for buffer in program.buffers if buffer.values is not None}
    for name in compiled.symbols:
        image = own[name] if name in own else images[names[name]]
        buffers[name] = card.allocate(max(128, len(image)))
        buffers[name].write_memory(image)
    loaded = programs.load(compiled)
    try:
        known = _known_numbers(program)
        loaded.run(buffers, {s.name: known.get(s.name, _number(s.dtype, words)) for s in program.scalars})
    finally:
        loaded.unload()
    for name, buffer in buffers.items():
        if name in own:
            continue
        argument = emitted.arguments[names[name]]
        expected, found = elements(argument, buffer.read_memory()), elements(argument, after[names[name]])
        np.testing.assert_array_equal(found, expected, err_msg=f"{program.name}: {name}")


def _known_numbers(program: ir.Program) -> dict[str, float]:
    """Floats that the program was written for: ops may have them as constants of their own."""
    floats = [scalar for scalar in program.scalars if "float" in scalar.dtype]
    return {scalar.name: float_of(scalar.word) for scalar in floats if scalar.word is not None}


def _constant(buffer: ir.Buffer) -> Argument:
    layout, known = buffer.layout, {"stride": buffer.stride, "values": buffer.values}
    return Argument(buffer.name, "constant", layout.device_bytes, buffer.dtype, buffer.size, layout, **known)


def _image(argument: Argument, seed: int, words: int) -> bytes:
    """An argument before the launch: drawn elements, and poison in all other lanes."""
    itemsize = 2 if argument.layout is None else 128 // argument.layout.elems_per_stick()
    word = _POISON[itemsize]
    if argument.layout is not None and "INT" in argument.layout.device_dtype.name and itemsize == 4:
        word = np.uint32(3)
    poison = np.full(argument.bytes // itemsize, word).tobytes()
    if argument.layout is None:
        return poison
    shape = _shape(argument)
    buffer = cards.get().allocate(max(128, shape.device_bytes))
    buffer.write_memory(poison)
    values = _values(argument, seed, words)
    if values.size:
        _card.copy_in(np.asarray(values, order="C"), argument.dtype, buffer, shape)
    return buffer.read_memory()[: argument.bytes]


def elements(argument: Argument, image: bytes) -> np.ndarray:
    shape = _shape(argument)
    buffer = cards.get().allocate(max(128, shape.device_bytes))
    buffer.write_memory(bytes(image[: shape.device_bytes]))
    result = np.empty(argument.size, dtype=require_supported(argument.dtype).numpy)
    _card.copy_out(buffer, shape, result, argument.dtype)
    return result


def _shape(argument: Argument):
    layout = argument.layout
    stride = row_major(argument.size) if argument.stride is None else argument.stride
    described = (layout.device_size, layout.stride_map, int(layout.device_dtype), int(layout.element_arrangement))
    return _card.intern(argument.size, stride, argument.dtype, *described)


def _number(dtype: str, words: int) -> float | int:
    return min(2, words - 1) if "int" in dtype else 0.75


def _values(argument: Argument, seed: int, words: int) -> np.ndarray:
    if argument.values is not None:
        return elements_of(argument.values, argument.size, argument.stride, argument.dtype)
    if argument.role in ("number", "constant"):
        number = _number(argument.dtype, words) if argument.value is None else argument.value
        return _host(np.asarray(number), argument.dtype)
    random = np.random.default_rng(seed)
    if argument.dtype == "bool":
        return np.asarray(random.random(argument.size) < 0.5)
    if "int" in argument.dtype:
        return _host(np.asarray(random.integers(0, words, argument.size)), argument.dtype)
    values = np.asarray(random.standard_normal(argument.size) * np.exp(random.standard_normal(argument.size)))
    chosen = random.random(argument.size) < 0.02
    return _host(np.where(chosen, random.choice(_SPECIAL, argument.size), values), argument.dtype)


def _host(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        return np.asarray(values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    with np.errstate(over="ignore"):
        return values.astype(require_supported(dtype).numpy)
