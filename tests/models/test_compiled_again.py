"""What docs/models.md says of programs that a second call compiles: weights lie otherwise by then, and a third one compiles nothing."""

import pytest
import torch

from .families import FAMILIES
from .generation import generate
from .measure import quiet


@torch.no_grad()
@pytest.mark.filterwarnings("ignore")
def test_a_static_cache_re_tiles_experts_once_and_a_third_call_compiles_nothing() -> None:
    (family,) = (one for one in FAMILIES if one.name == "granitemoe")
    pytest.importorskip("transformers", reason="the families are those of transformers")
    card, reasons = family.build(torch.float16).to("spyre"), []
    torch.compiler.reset()
    with quiet():
        for _ in range(3):
            torch.spyre.reset_compilation_stats()
            generate(family, card, family.inputs_on_card(), "static")
            reasons.append({reason for told in torch.spyre.compilation_stats().values() for reason in told})
    assert reasons[1] <= {"layouts"}
    assert reasons[2] == set()
