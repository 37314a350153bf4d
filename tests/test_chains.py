"""A normalisation that comes as a sequence of the card's ops is one step over rows again, with the bits of the sequence."""

import pytest
from chains import CHAINS, layer_norm, program_of, variance
from fused_bits import steps_with_equal_bits

from openspyre.backend import FuseSteps, compile_emitted, host_form
from openspyre.backend.fusion.maps import moves_bits
from openspyre.compiler import pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.program.model import Rows

ALONG_THE_STICK = [((48, 64), -1), ((3, 16, 256), -1), ((8, 1024), -1), ((5, 4096), -1), ((7, 200), -1), ((9, 33), -1)]
ALONG_ANOTHER_DIM = [((256, 128), 0), ((4, 200, 64), 1), ((1030, 64), 0), ((3, 48, 70), 1)]


def named(value):
    return value.__name__ if callable(value) else str(value)


CASES = [
    (make, size, along)
    for make in CHAINS
    for size, along in (*ALONG_THE_STICK, *ALONG_ANOTHER_DIM)
    if along == -1 or make is not layer_norm  # exx2 runs along sticks
]
MIXED = ("wide_rms_norm",)  # fp32 rows of 70 lanes are three sticks, with which blocks of 64 lanes do not end


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("make", "size", "along"), CASES, ids=named)
def test_a_chain_of_ops_is_one_step_over_rows(make, size, along, dtype):
    bundle = emit_bundle(pipeline.run(program_of(make, size, along, dtype), verify=True))
    steps_with_equal_bits(bundle)
    steps = FuseSteps().run(compile_emitted(host_form(bundle))).body
    kinds = [type(step) for step in steps if not moves_bits(step)]  # weights that lie otherwise are moved
    tail = dtype == "float16" and size[-1] == 70 and make.__name__ in MIXED
    dense = make is variance and along == -1  # totals lie one to a stick, and the result does not
    assert kinds == [Rows] or ((tail or dense) and kinds[0] is Rows and len(kinds) <= 3)
