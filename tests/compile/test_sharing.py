"""What layers have in common is worked out once. The bundle and the program are those of a compiler that shares nothing."""

import copy
import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from openspyre.artifact.bundle import bundle_texts
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.text import print_program
from openspyre.program.text import print_program as print_card_program
from openspyre.spec.sharing import nothing_shared
from torch_spyre.inductor.launching.launch import clear

with warnings.catch_warnings():  # Inductor warns of its own deprecations while it loads
    warnings.simplefilter("ignore")
    from torch_spyre.inductor.launching import specialise

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations
WIDTH, HEADS = 128, 2


class Layer(nn.Module):
    def __init__(self, inner=192):
        super().__init__()
        self.before, self.behind = nn.RMSNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend, self.merge = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, inner), nn.Linear(inner, WIDTH)

    def forward(self, x):
        parts = self.attend(self.before(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.merge(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.silu(self.up(self.behind(x))) * 0.5)


class Region(Layer):
    @torch.compiler.nested_compile_region
    def forward(self, x):
        return super().forward(x)


def equal(count, kind=Layer):
    return nn.Sequential(*(kind() for _ in range(count)))


def one_is_wider():
    return nn.Sequential(Layer(), Layer(256), Layer())


def one_weight_in_two_layers():
    stack = equal(3)
    stack[2].up.weight = stack[0].up.weight
    return stack


STACKS = {
    "one": lambda: equal(1),
    "two": lambda: equal(2),
    "eight": lambda: equal(8),
    "one is wider": one_is_wider,
    "one weight in two layers": one_weight_in_two_layers,
    "regions": lambda: equal(4, Region),
}


@pytest.fixture
def compiled(monkeypatch):
    """Of all that is specialised: the program as it comes from the graph and as the passes leave it, the bundle, the card's."""
    seen = []
    real = specialise.compile_program

    def watched(program, watch=None, **options):
        made = real(program, watch, **options)
        emitted = emit_bundle(made.lowered)
        seen.append([print_program(replace(program, name="")), print_program(replace(made.lowered, name="")),
                     bundle_texts(emitted.bundle), emitted.arguments, print_card_program(replace(made.program, name=""))])  # fmt: skip
        return made

    monkeypatch.setattr(specialise, "compile_program", watched)
    monkeypatch.setattr(specialise.TextCache, "find", lambda cache, key: None)
    return seen


@pytest.mark.parametrize("make", STACKS.values(), ids=STACKS.keys())
def test_a_stack_becomes_the_same_bundle_and_program_with_nothing_shared(compiled, make):
    torch.manual_seed(0)
    stack, x = make().eval().requires_grad_(False).half(), torch.randn(1, 64, WIDTH).half()

    def run():
        compiled.clear()
        clear()
        torch.compiler.reset()
        result = torch.compile(copy.deepcopy(stack).to("spyre"), dynamic=False)(x.to("spyre")).cpu()
        return result, copy.copy(compiled)

    result, shared = run()
    with nothing_shared():
        alone, apart = run()
    assert len(shared) == len(apart) >= 1
    for one, other in zip(shared, apart, strict=True):
        assert one == other
    assert torch.equal(result, alone)


def test_tensors_that_differ_within_their_last_stick_are_told_apart():
    """Their SuperDSCs are equal: none says how many elements of a stick are any. What stays in scratchpads was computed for the first of them."""

    def function(x):
        return torch.exp(x) * x - x.sum()

    for count in (2, 3):
        x = torch.randn(count)
        clear()
        torch.testing.assert_close(torch.compile(function, dynamic=False)(x.to("spyre")).cpu(), function(x))
