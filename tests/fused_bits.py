"""One bundle as two programs, with fusion and without: run on the same numbers, every result has the same bits."""

import numpy as np

from openspyre.artifact.emitted import Emitted
from openspyre.artifact.launch_spec import Argument
from openspyre.backend import FuseSteps, compile_emitted, host_form
from openspyre.card import DeviceArray, _card, cards, programs
from openspyre.program.model import Program
from openspyre.spec.addressing import row_major
from openspyre.spec.errors import IndexOutOfRange
from openspyre.spec.packing import elements_of

_SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-9, -1e-9, 3e9, 65504.0, 1.0009765625])


def numbers(buffer, seed: int, words: int) -> np.ndarray:
    return np.asarray(_numbers(buffer, seed, words))  # without dims, numpy would make a number of it


def _numbers(buffer, seed: int, words: int) -> np.ndarray:
    """Values of all sizes, with what formats round, flush, saturate and merge among them; integers below `words`."""
    random = np.random.default_rng(seed)
    if buffer.dtype == "bool":
        return random.random(buffer.size) < 0.5
    if "int" in buffer.dtype:
        return random.integers(0, words, buffer.size).astype(buffer.dtype)
    values = random.standard_normal(buffer.size) * np.exp(random.standard_normal(buffer.size))
    chosen = random.random(buffer.size) < 0.02
    values = np.where(chosen, random.choice(_SPECIAL, buffer.size), values)
    if buffer.dtype == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    with np.errstate(over="ignore"):
        return values.astype(buffer.dtype)


def values(buffer, seed, words):
    if buffer.values is not None:
        return elements_of(buffer.values, buffer.size, buffer.stride, buffer.dtype)
    return numbers(buffer, seed, words)


def place(argument: Argument, array: np.ndarray | None) -> DeviceArray:
    """An argument on the card, with its elements if it is read."""
    layout = argument.layout
    stride = row_major(argument.size) if argument.stride is None else argument.stride
    described = (layout.device_size, layout.stride_map, int(layout.device_dtype), int(layout.element_arrangement))
    shape = _card.intern(argument.size, stride, argument.dtype, *described)
    card = cards.get()
    memory = card.allocate(shape.device_bytes)
    if array is not None:
        _card.copy_in(array, argument.dtype, memory, shape)
    return DeviceArray(card, memory, argument.size, argument.dtype, layout, shape)


def results(bundle: Emitted, program: Program, seed: int, words: int) -> dict[str, np.ndarray]:
    """Whole buffers as they lie on the card; their elements, that is, for padding is nobody's."""
    random = np.random.default_rng(seed)
    tensors = [argument for argument in bundle.arguments if argument.name in program.symbols]
    placed = {
        argument.name: place(argument, None if argument.role == "output" else values(argument, seed + number, words))
        for number, argument in enumerate(tensors)
    }
    word = min(3, words - 1)
    dtypes = {argument.name: argument.dtype for argument in bundle.arguments if argument.role == "number"}
    scalars = {
        name: word if "int" in dtypes.get(name, "") else float(random.integers(1, 5)) / 4 for name in program.scalars
    }
    loaded = programs.load(program)
    try:
        loaded.run({name: array.buffer for name, array in placed.items()}, scalars)
    finally:
        loaded.unload()
    changed = [argument.name for argument in tensors if argument.role in ("output", "update")]
    return {name: placed[name].numpy() for name in changed}


def steps_with_equal_bits(bundle: Emitted, seeds: tuple[int, ...] = (1, 2)) -> tuple[int, int]:
    """How many steps there are without and with fusion, and no bit between them."""
    plain = compile_emitted(bundle)
    outcome = FuseSteps().fused(compile_emitted(host_form(bundle)))
    assert not outcome.problems, f"{bundle.name}: fusion made a program that no card takes: {outcome.problems}"
    fused = outcome.program
    for seed in seeds if plain.steps != fused.steps else ():
        words = 7
        try:
            expected = results(bundle, plain, seed, words)
        except IndexOutOfRange:  # an integer of ours became an index into a short table; 0 is in every table
            words = 1
            expected = results(bundle, plain, seed, words)
        found = results(bundle, fused, seed, words)
        for name, array in expected.items():
            bits = f"uint{8 * array.itemsize}"
            np.testing.assert_array_equal(found[name].view(bits), array.view(bits), err_msg=f"{bundle.name}: {name}")
    return len(plain.steps), len(fused.steps)
