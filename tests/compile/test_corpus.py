"""Every graph of the corpus: torch's numbers, eager's bits, torch's sizes, strides, dtypes and aliases, as few launches as stated.

The program has the bits of the one without fusion. Its bundle says the same to the card and to the second reader, and asks
for no more extensions than stated.
"""

import copy
from functools import partial

import pytest
import torch
from bundle_bits import agrees
from corpus import GRAPHS
from extensions import EXTENSIONS
from fused_bits import steps_with_equal_bits
from judge import (
    HALVES,
    assert_aliased_alike,
    assert_described_alike,
    assert_near,
    assert_same_bits,
    tensors,
)

from torch_spyre.inductor.reporting.report import compile_report


def listed(row):
    return pytest.param(row, id=row.name)


def operands(row, device):
    """The row's inputs, and its function with the row's module in front of them."""
    inputs = [given.draw(seed) for seed, given in enumerate(row.inputs)]
    moved = [value.to(device) if given.on_card else value for given, value in zip(row.inputs, inputs, strict=True)]
    return [given.view(value) if given.view else value for given, value in zip(row.inputs, moved, strict=True)]


def function_of(row, module, device):
    return row.function if module is None else partial(row.function, copy.deepcopy(module).to(device))


def run(row, module, device, wrap=lambda function: function):
    inputs = operands(row, device)
    torch.manual_seed(0)
    returned = wrap(function_of(row, module, device))(*inputs)
    return tensors(returned, inputs)


@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
@pytest.mark.parametrize("row", [listed(row) for row in GRAPHS])
def test_a_compiled_graph(row, bundles, lowered):
    torch.manual_seed(0)
    module = row.module() if row.module else None
    if row.on_cpu:
        torch.spyre.set_fallback_mode("silent")
    eager = run(row, module, "spyre")
    bundles.clear()
    lowered.clear()
    earlier = compile_report()
    torch.spyre.reset_fallback_stats()
    compiled = run(row, module, "spyre", partial(torch.compile, dynamic=row.dynamic))
    reports = [report for report in compile_report() if not any(report is other for other in earlier)]
    with torch.backends.mkldnn.flags(enabled=False):  # its 16-bit kernels depend on the machine
        cpu = run(row, module, "cpu")

    assert sum(len(report.bundles) for report in reports) == row.bundles
    assert tuple(left.operator.removeprefix("aten.") for report in reports for left in report.fallbacks) == row.left_out
    assert tuple(name.removeprefix("aten::") for name in torch.spyre.fallback_stats()) == row.on_cpu
    assert_described_alike(compiled, cpu, "on the CPU", strides=not row.own_strides)
    assert_described_alike(compiled, eager, "in eager mode")
    assert_aliased_alike(compiled, cpu)
    if not row.other_bits:
        assert_same_bits(compiled, eager)
    sixteen = row.rounds_to_16_bits or any(tensor.dtype in HALVES for tensor in compiled)
    wide = copy.deepcopy(module).double() if module else None
    inputs = operands(row, "cpu")
    assert_near(compiled, function_of(row, wide, "cpu"), inputs, sixteen)
    for bundle in bundles:
        steps_with_equal_bits(bundle, seeds=(1,))
    beyond = [extension for program in lowered for extension in agrees(program).extensions]
    assert " ".join(sorted({extension.row for extension in beyond})) == EXTENSIONS.get(row.name, ""), (
        f"what {row.name} asks for beyond the hardware is not what extensions.py says: {beyond}"
    )


def test_graphs_that_the_hardware_could_run():
    """How many graphs of the corpus are ops of the hardware alone. Each graph's own test holds what the list says of it."""
    names = {row.name for row in GRAPHS}
    assert EXTENSIONS.keys() <= names
    assert 1 - len(EXTENSIONS) / len(names) >= 0.75
