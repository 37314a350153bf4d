"""Mutants of bundles and programs: what the verifier accepts runs, and whatever the card loads is safe to run. `make fuzz` tries many more.

The verifier and the card's own check were written apart and only ever saw sound bundles, or damaged text: a bundle whose
facts contradict each other, a dtype of another width than its layout, went through both.
"""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from fuzz import mutants
from fuzz.execution import judge_directory
from fuzz.model_mutants import mutant, sites, with_value
from fuzz.samples import samples
from openspyre.artifact.bundle import Bundle, bundle_texts
from openspyre.artifact.bundle_function import Address, Execute, Function, Parameter
from openspyre.artifact.superdsc import Axis, Component, Stick, SuperDsc, Tensor
from openspyre.backend import FuseSteps, compile_emitted
from openspyre.program.model import Step
from openspyre.spec.formats import DataFormats
from openspyre.tools.bundle import examine

SEED = 9
COUNT = 300


@pytest.mark.parametrize("original", mutants.originals(), ids=lambda original: original.name)
def test_every_sample_runs(original: mutants.Original, tmp_path: Path) -> None:
    found = judge_directory(mutants.unpack(original, original.files, tmp_path / "bundle"))
    # Vectors of other compilers may be larger than what is run here; tests/foreign runs them all.
    assert found == "executed" or ("/" in original.name and found in ("loaded", "too large"))


def test_samples_have_every_kind_of_step() -> None:
    programs = [compile_emitted(bundle) for bundle in samples()]
    found = {type(step) for program in (*programs, *map(FuseSteps().run, programs)) for step in program.steps}
    assert found == set(get_args(Step))


@pytest.mark.parametrize("kind", mutants.JUDGES)
def test_mutants_are_refused_with_words_or_run(kind: str) -> None:
    outcomes = [mutants.JUDGES[kind](SEED, number) for number in range(COUNT)]
    assert [outcome for outcome in outcomes if outcome.startswith("fault")] == []
    assert Counter(outcomes)["executed"] > COUNT // 20, "some mutants must be sound, or nothing is tried"


def test_every_field_of_an_op_is_changed_by_some_mutant() -> None:
    """A hardware op with a mask, a constant and gaps, and an extension op with its whole record."""
    by_name = {sample.name: sample.bundle for sample in samples()}
    for op in (by_name["row_sums"].ops["sdsc_0.json"], by_name["turned"].ops["sdsc_0.json"]):
        fields = {site.field for site in sites(op)} - {""}
        rng, changed = random.Random(0), set()
        for _ in range(900):
            _, other = mutant(rng, op)
            changed |= {s.field for s in sites(op) if s.path and _at(other, s.path) != s.value}
        none = {site.field for site in sites(op) if site.value in (None, ())}
        assert fields - changed <= none, "the sample has none of these"


def _at(model, path):
    for step in path:
        if isinstance(step, int):
            model = model[step] if isinstance(model, tuple) and step < len(model) else None
        else:
            model = getattr(model, step, None)
    return model


def test_a_value_is_put_where_the_path_leads() -> None:
    op = samples()[0].bundle.ops["sdsc_0.json"]
    changed = with_value(op, ("axes", 1, "size"), 7)
    assert changed.axes[1].size == 7
    assert (changed.axes[0], changed.tensors) == (op.axes[0], op.tensors)


def test_the_same_number_makes_the_same_mutant() -> None:
    first, again, other = (mutants.bundle(random.Random(seed)) for seed in (4, 4, 5))
    assert first == again != other


def test_a_mutant_that_kills_its_process_is_told_and_the_rest_goes_on() -> None:
    """With a card that is no module at all every mutant kills its process."""
    command = [sys.executable, "-m", "fuzz", "--count", "2", "--card", __file__.replace(".py", ".so")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.count("kills the process") == 2
    assert done.stdout.splitlines()[-1].endswith("2 faults")


def test_a_model_without_facts_has_no_mutant() -> None:
    """The generator looked for another value for ever, once the ops of a bundle were gone."""
    assert mutant(random.Random(0), Function((), ())) == ("nothing left to change", Function((), ()))


def test_every_execution_of_a_file_must_lie_so_that_it_can_be_walked(tmp_path: Path) -> None:
    """Each file was tried once, with its first places: the second execution of a sum over cores went past the verifier."""
    regular, shifted = ({-1: 0, -2: 32 * 128, -3: 0, -4: 0}, {-1: 0, -2: 33 * 128, -3: 0, -4: 0})
    for second, problems in ((regular, 0), (shifted, 1)):
        directory = tmp_path / str(problems)
        directory.mkdir()
        for name, text in bundle_texts(_sum_over_cores(regular, second)).items():
            (directory / name).write_text(text)
        found = examine(directory)[1]
        assert len(found) == problems
        assert all("their addresses do not follow from the division" in str(problem) for problem in found)


def _sum_over_cores(*places: dict[int, int]) -> Bundle:
    def tensor(number: int, first: int, rows: int) -> Tensor:
        return Tensor(
            name=f"Tensor{number}",
            role="OUTPUT",
            format=DataFormats.SEN169_FP16,
            order=("mb", "out"),
            sticks=(Stick("out", 64),),
            scales=(("mb", rows), ("out", 1)),
            component=Component.MEMORY,
            starts=(first, first - 1),
        )

    op = SuperDsc(
        name="0_sum",
        op="sumnonstick",
        unit="sfp",
        format=DataFormats.SEN169_FP16,
        axes=(Axis("mb", 64, 2), Axis("out", 64, 1)),
        slices=((0, 0), (1, 0)),
        tensors=(tensor(0, -1, 1), tensor(1, -3, -1)),
        inputs=(0,),
        outputs=(1,),
        constants=(),
    )
    executions = tuple(
        Execute("sdsc_0.json", tuple((symbol, Address(int(symbol < -2), byte)) for symbol, byte in place.items()), 0)
        for place in places
    )
    parameters = (Parameter("arg_0_base_addr"), Parameter("arg_1_base_addr"))
    return Bundle("twice", Function(parameters, executions), {"sdsc_0.json": op})
