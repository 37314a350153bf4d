"""Families of transformers on the card, against the same weights on the CPU in float32. `make models` does all of them, all ways."""

import pytest
import torch

from torch_spyre.inductor.reporting.report import compile_report

from .comparing import BOUND, error, on_card
from .families import BY_NAME, FAMILIES
from .generation import WAYS, generate, judge

pytest.importorskip("transformers", reason="pip install 'openspyre[models]' for the tests of whole models")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, about themselves

# Those whose compiled graphs differ most; the others are left to `make models`.
COMPILED = ("bert", "granitemoe", "granitemoehybrid", "llama", "resnet")
GENERATING = [("llama", way) for way in WAYS] + [("granitemoehybrid", "static"), ("t5", "dynamic")]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_computes_on_the_card_what_the_cpu_does(family):
    torch.spyre.set_fallback_mode("error")
    assert error(family, on_card(family)) < BOUND


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_family_is_one_launch(name):
    torch.spyre.set_fallback_mode("error")
    torch.compiler.reset()
    model = torch.compile(on_card(BY_NAME[name]))
    assert error(BY_NAME[name], model) < BOUND
    report = compile_report()[-1]
    assert len(report.bundles) == 1 and not report.fallbacks


@pytest.mark.parametrize(("name", "way"), GENERATING)
def test_generated_tokens_are_the_reference_s(name, way):
    family = BY_NAME[name]
    torch.manual_seed(0)
    torch.compiler.reset()
    found = generate(family, on_card(family), family.inputs_on_card(), way)
    verdict = judge(family, family.build(), family.inputs(), way, found)
    assert not verdict.problem and verdict.equal >= verdict.tokens // 2
