"""One bundle as two programs, with fusion and without: run on the same numbers, every result has the same bits."""

import numpy as np

from openspyre.artifact.model import Bundle, Role
from openspyre.backend.fusion import FuseSteps
from openspyre.backend.lowering import compile_bundle
from openspyre.card import programs
from openspyre.program.model import Program
from openspyre.spec.errors import IndexOutOfRange
from openspyre.spec.packing import elements_of
from openspyre.tools.run_execution import place

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


def results(bundle: Bundle, program: Program, seed: int, words: int) -> dict[str, np.ndarray]:
    """Whole buffers as they lie on the card; their elements, that is, for padding is nobody's."""
    random = np.random.default_rng(seed)
    placed = {
        buffer.name: place(buffer, None if buffer.role is Role.OUTPUT else values(buffer, seed + number, words))
        for number, buffer in enumerate(bundle.arguments)
    }
    word = min(3, words - 1)
    scalars = {s.name: word if "int" in s.dtype else float(random.integers(1, 5)) / 4 for s in bundle.scalars}
    loaded = programs.load(program)
    try:
        loaded.run({name: array.buffer for name, array in placed.items()}, scalars)
    finally:
        loaded.unload()
    changed = [buffer.name for buffer in bundle.arguments if buffer.role in (Role.OUTPUT, Role.UPDATE)]
    return {name: placed[name].numpy() for name in changed}


def steps_with_equal_bits(bundle: Bundle, seeds: tuple[int, ...] = (1, 2)) -> tuple[int, int]:
    """How many steps there are without and with fusion, and no bit between them."""
    plain = compile_bundle(bundle)
    outcome = FuseSteps().fused(plain)
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
