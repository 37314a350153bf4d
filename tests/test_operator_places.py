"""`openspyre ops --where`: what it tells is what stands there. The sources themselves are the judge."""

import json
from pathlib import Path

import pytest

from openspyre.tools import where
from openspyre.tools.command import main
from torch_spyre import operator_places
from torch_spyre.ops import composed, eager

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while Inductor loads
ROOT = Path(__file__).parents[1]


def told(capsys, name):
    assert main(["ops", "--where", name, "--json"]) == 0
    return {(place["name"], place["file"]) for place in json.loads(capsys.readouterr().out)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("softmax", {("softmax", "openspyre/spec/ops/rows.py"), ("_softmax", "torch_spyre/ops/rows.py")}),
        (
            "torch.nn.functional.gelu",
            {("gelu", "openspyre/spec/ops/activations.py"), ("gelu", "csrc/torch/operators/eager.cpp")},
        ),
        ("aten::add.Tensor", {("add", "openspyre/spec/hardware.py"), ("add.Tensor", "torch_spyre/ops/pointwise.py")}),
        ("ReStickifyOpHBM", {("restickify", "openspyre/spec/ops/movement.py")}),
        ("maxnonstick", {("amax", "openspyre/spec/ops/reduction.py")}),
        ("cat", {("cat", "csrc/torch/operators/moves.cpp"), ("cat", "torch_spyre/ops/movement.py")}),
        (
            "clone",
            {
                ("clone", "csrc/torch/operators/moves.cpp"),
                ("clone", "torch_spyre/inductor/lowering/graph_lowerings.py"),
            },
        ),
        ("roll", {("roll", "torch_spyre/ops/compositions.py")}),
        ("index_put_", {("index_put_", "torch_spyre/ops/scattered.py")}),
        ("spyre::scaled_mm", {("spyre.scaled_mm", "csrc/torch/operators/spyre_operators.cpp")}),
        ("linalg_qr", {("linalg_qr.out", "csrc/torch/operators/fallback.cpp")}),
        ("rand", {("rand", "torch_spyre/inductor/lowering/random_operators.py")}),
    ],
)
def test_a_name_is_found_wherever_it_is_known(capsys, name, expected):
    assert expected <= told(capsys, name)


def test_a_name_nobody_knows_is_refused_with_its_neighbours(capsys):
    assert main(["ops", "--where", "softmx"]) == 1
    assert "did you mean softmax" in capsys.readouterr().err


def test_every_operator_that_is_served_has_a_line_in_a_file():
    places = operator_places.places()
    ours = [place for place in places if place.file.startswith(("torch_spyre/", "csrc/"))]
    for place in ours:
        assert 0 < place.line <= len((ROOT / place.file).read_text().splitlines()), place
    names = {place.name for place in ours}
    assert eager.bindings().keys() <= names
    assert {operator_places.plain_name(overload) for overload in composed.table()} <= names


def test_kernels_stand_on_the_lines_told():
    for name in ("clone", "cat.out", "_copy_from", "resize_"):
        place = next(p for p in where.places_of(name) if p.name == name and p.file.startswith("csrc/torch/"))
        assert f'"{name}"' in (ROOT / place.file).read_text().splitlines()[place.line - 1]
