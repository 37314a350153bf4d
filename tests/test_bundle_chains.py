"""Normalisations as they are launched, fused with the launch's numbers: one step, with the bits of the bundle's sequence."""

import math
from dataclasses import replace

import numpy as np
import pytest
from chains import CHAINS, layer_norm, program_of, variance

from openspyre.backend import FuseSteps, compile_emitted
from openspyre.backend.superdsc import compile_bundle
from openspyre.card import cards, programs
from openspyre.compiler import pipeline
from openspyre.compiler.emit.bundle import emit_bundle
from openspyre.program.model import Relayout, Rows, Use
from openspyre.program.verify import problems
from openspyre.spec.encodings import sen169_encode
from openspyre.spec.planning import Planning

USES = {"input": Use.READ, "output": Use.FRESH, "update": Use.SHARED, "pool": Use.SCRATCH}
SIZES = [((48, 64), -1), ((3, 16, 256), -1), ((8, 1024), -1), ((7, 200), -1), ((256, 128), 0), ((4, 192, 64), 1)]
CASES = [(m, s, a) for m in CHAINS for s, a in SIZES if m is not variance and (a == -1 or m is not layer_norm)]
NUMBER = 0.5
IN_MEMORY = Planning(scratchpads=False)  # after a bundle from files anybody may look at the scratchpads: its steps stay


def image(argument, seed):
    values = np.random.default_rng(seed).standard_normal(argument.bytes // 2)
    if argument.role in ("number", "constant"):
        values = np.full(1, NUMBER if argument.value is None else argument.value)
    wide = argument.dtype == "float32"
    codes = values.astype(np.float32) if wide else sen169_encode(values.astype(np.float32)).astype(np.uint16)
    return codes.tobytes().ljust(argument.bytes, b"\0")[: argument.bytes]


def run(program, arguments, names):
    """Every argument's bytes after a launch, the pool's aside."""
    card, buffers = cards.get(), {}
    for number, (name, argument) in enumerate(zip(names, arguments, strict=True)):
        buffers[name] = card.allocate(max(128, argument.bytes))
        buffers[name].write_memory(image(argument, number))
    scalars = {n: NUMBER if a.value is None else a.value for n, a in zip(names, arguments, strict=True)}
    loaded = programs.load(program)
    try:
        loaded.run({n: buffers[n] for n in program.symbols}, {n: scalars[n] for n in program.scalars}, card.index)
    finally:
        loaded.unload()
    return [buffers[n].read_memory() for n, a in zip(names, arguments, strict=True) if a.role != "pool"]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("make", "size", "along"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_chain_of_a_bundle_is_one_step_over_rows(make, size, along, dtype):
    emitted = emit_bundle(pipeline.run(program_of(make, size, along, dtype), planning=IN_MEMORY, verify=True))
    arguments = emitted.arguments
    plain = compile_bundle(emitted.bundle, [argument.bytes for argument in arguments])
    plain = replace(plain, uses=tuple(USES.get(argument.role, Use.READ) for argument in arguments))
    assert all(math.isfinite(a.value or 0.0) for a in arguments)
    fused = FuseSteps().run(compile_emitted(emitted))
    assert problems(fused) == [] and len(fused.steps) < len(plain.steps)
    assert run(fused, arguments, [argument.name for argument in arguments]) == run(plain, arguments, plain.symbols)
    kinds = [type(step) for step in fused.steps if not isinstance(step, Relayout)]
    if not emitted.extensions and size[-1] % 64 == 0 and along == -1:
        assert kinds == [Rows]
