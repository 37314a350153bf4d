"""A program that fusion made wrong is not taken: the unfused one runs, is right, is counted and is told of."""

import logging
from dataclasses import replace

import pytest
import torch

import torch_spyre
from openspyre.backend.fusion import driver
from openspyre.backend.text_cache import TextCache
from openspyre.card import programs
from openspyre.program.model import Rows
from openspyre.spec.errors import InvalidArgument
from torch_spyre.ops.programs import refused_fusions

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load


def norm(x):
    y = x.softmax(-1)
    return y, y.clone() + 1


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    """What is spoilt here must not be found by anybody later."""
    monkeypatch.setattr(TextCache, "find", lambda *_: None)
    monkeypatch.setattr(TextCache, "keep", lambda *_: None)


def compiled_norm(rows):
    """Other rows are another program: none is ready in this process."""
    value = torch.randn(rows, 128, generator=torch.Generator().manual_seed(0)).half()
    right = norm(value.float())
    found = torch.compile(norm, dynamic=False)(value.to("spyre"))
    for result, exact in zip(found, right, strict=True):
        torch.testing.assert_close(result.cpu().float(), exact, rtol=2**-8, atol=2**-8)
    return torch_spyre.compile_report()[-1].bundles[0].specialisations[-1]


@pytest.fixture
def warnings_told(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("spyre"), "propagate", True)
    with caplog.at_level(logging.WARNING, "spyre.compiler"):
        yield caplog


def spoil(monkeypatch, spoilt):
    appended = driver.appended

    def worse(*given):
        made = appended(*given)
        return made if made is None else spoilt(made)

    monkeypatch.setattr(driver, "appended", worse)


def without_instructions(step):
    stage = step.stages[-1]
    empty = replace(stage.code, instructions=(), results=(0,))
    return replace(step, stages=(*step.stages[:-1], replace(stage, code=empty)))


def without_its_results(step):
    return replace(step, outputs=step.outputs[:1], results=step.results[:1])


@pytest.mark.parametrize(
    ("spoilt", "rows", "said"),
    [(without_instructions, 64, "no instruction writes its row"), (without_its_results, 65, "is not written any more")],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_the_verifier_refuses_runs_unfused(monkeypatch, warnings_told, spoilt, rows, said):
    spoil(monkeypatch, spoilt)
    before = sum(refused_fusions().values())
    specialisation = compiled_norm(rows)
    assert any(said in problem for problem in specialisation.refused_fusion), specialisation.refused_fusion
    assert specialisation.steps >= specialisation.ops  # a sum over cores that lies in their scratchpads is several
    assert "runs without fusion, which made it wrong" in str(specialisation)
    assert sum(refused_fusions().values()) == before + 1
    assert any("runs without fusion" in record.getMessage() for record in warnings_told.records)


def refuse_fused(monkeypatch):
    load = programs.load

    def strict(program, work=None):
        if any(isinstance(step, Rows) and len(step.outputs) > 1 for step in program.steps):
            raise InvalidArgument("a card that is stricter than the verifier")
        return load(program, work)

    monkeypatch.setattr(programs, "load", strict)


def test_what_the_card_refuses_runs_unfused(monkeypatch, warnings_told):
    refuse_fused(monkeypatch)
    before = sum(refused_fusions().values())
    specialisation = compiled_norm(66)
    assert specialisation.refused_fusion == ["a card that is stricter than the verifier"]
    assert specialisation.steps >= specialisation.ops  # a sum over cores that lies in their scratchpads is several
    assert sum(refused_fusions().values()) == before + 1
    assert any("the card refused what fusion made" in record.getMessage() for record in warnings_told.records)


def test_what_the_card_refuses_in_eager_runs_unfused(monkeypatch, warnings_told):
    load, seen = programs.load, []

    def first_never(program, work=None):
        seen.append(program)
        if len(seen) == 1:
            raise InvalidArgument("a card that is stricter than the verifier")
        return load(program, work)

    monkeypatch.setattr(programs, "load", first_never)
    before = sum(refused_fusions().values())
    x = torch.linspace(-1, 1, 67 * 3).view(67, 3)  # a size of its own: no plan is ready
    torch.testing.assert_close(torch.exp(x.to("spyre")).cpu(), torch.exp(x))
    assert len(seen) == 2 and sum(refused_fusions().values()) == before + 1
    assert any("the card refused what fusion made" in record.getMessage() for record in warnings_told.records)


def test_a_program_that_is_wrong_without_fusion_is_an_error(monkeypatch):
    def never(program, work=None):
        raise InvalidArgument("no program at all")

    monkeypatch.setattr(programs, "load", never)
    before = sum(refused_fusions().values())
    with pytest.raises(InvalidArgument, match="no program at all"):
        torch.compile(lambda x: x.softmax(-1) + 1)(torch.ones(8, 64, device="spyre"))
    assert sum(refused_fusions().values()) == before
