"""How row expressions become stages: cut at the folds by hand, and evaluated on paper's terms with numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fuzz import samples
from openspyre.artifact import Bundle, check
from openspyre.artifact.model import Attribute, Description
from openspyre.backend import compile_bundle
from openspyre.program.model import ROW_SCALAR, Combine, RowStage, Step, StepKind
from openspyre.program.text import parse_program, print_program
from openspyre.spec.ops.expression import Code

_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "eq_f": np.equal, "select": np.where, "copy": np.copy,
}  # fmt: skip
_FOLDS: dict[Combine, Callable[..., np.ndarray]] = {Combine.SUM: np.sum, Combine.MAX: np.max}


def row_bundle(row: str, attributes: tuple[tuple[str, Attribute], ...] = ()) -> Bundle:
    """A sum of rows made a normalisation of them: its output walks the rows, too."""
    bundle = samples.row_sums()
    (description,) = bundle.descriptions
    source, target = bundle.buffers
    written = Description(row, description.dims, description.inputs, (description.tensors[0],), attributes)
    places = (bundle.executions[0].places[0], replace(bundle.executions[0].places[0], buffer=target.name))
    out = replace(source, name=target.name, role=target.role)
    execution = replace(bundle.executions[0], places=places)
    return replace(bundle, buffers=(source, out), descriptions=(written,), executions=(execution,))


def only_step(bundle: Bundle) -> Step:
    assert not check(bundle)
    program = compile_bundle(bundle)
    assert parse_program(print_program(program)) == program
    (step,) = program.steps
    assert step.kind is StepKind.ROWS
    return step


def run_code(code: Code, inputs: list[np.ndarray]) -> np.ndarray:
    constants = [np.array([bits], np.uint32).view(np.float32) for bits in code.constants]
    registers = dict(enumerate([*inputs, *constants]))
    for instruction in code.instructions:
        registers[instruction.target] = _FUNCTIONS[instruction.opcode](*(registers[s] for s in instruction.sources))
    return registers[code.results[0]]


def run_stages(step: Step, x: np.ndarray) -> list[np.ndarray]:
    """The stages one after the other on one row, in the precision of x."""
    values: dict[int, np.ndarray] = {0: x}
    for stage in step.stages:
        inputs = [values[row] for row in stage.rows]
        if stage.combine is not None:
            inputs[0] = _FOLDS[stage.combine](inputs[0], keepdims=True)
        values[stage.target + (0 if stage.combine is None else ROW_SCALAR)] = run_code(stage.code, inputs)
    return [values[result] for result in step.row_results]


def shape_of(stage: RowStage) -> tuple[Combine | None, tuple[int, ...], int]:
    return stage.combine, stage.rows, stage.target


def test_softmax_is_cut_at_its_two_folds() -> None:
    step = only_step(row_bundle("softmax"))
    assert [shape_of(stage) for stage in step.stages] == [
        (Combine.MAX, (0,), 0),
        (None, (0, ROW_SCALAR), 1),  # exp(x - max) is folded, hence kept
        (Combine.SUM, (1,), 1),
        (None, (1, ROW_SCALAR + 1), 2),
    ]
    assert step.row_results == (2,)
    assert [i.opcode for i in step.stages[1].code.instructions] == ["sub", "exp"]


def test_a_variance_needs_the_mean_first() -> None:
    step = only_step(row_bundle("layer_norm", (("affine", ""), ("eps", 1e-5))))
    assert [shape_of(stage) for stage in step.stages] == [
        (Combine.SUM, (0,), 0),
        (None, (0, ROW_SCALAR), 1),  # the squares
        (Combine.SUM, (1,), 1),
        (None, (0, ROW_SCALAR, ROW_SCALAR + 1), 2),
    ]


X = np.random.default_rng(0).normal(1, 2, 200)
EXACT = {
    "softmax": ((), np.exp(X) / np.exp(X).sum()),
    "safe_softmax": ((), np.exp(X) / np.exp(X).sum()),
    "log_softmax": ((), X - np.log(np.exp(X).sum())),
    "layer_norm": ((("affine", ""), ("eps", 1e-5)), (X - X.mean()) / np.sqrt(X.var() + 1e-5)),
    "rms_norm": ((("affine", ""), ("eps", 1e-5)), X / np.sqrt((X * X).mean() + 1e-5)),
    "attention_weights": ((("scale", 0.5),), np.exp(X / 2) / np.exp(X / 2).sum()),
}


@pytest.mark.parametrize("row", EXACT)
def test_stages_compute_the_expression(row: str) -> None:
    attributes, exact = EXACT[row]
    (found,) = run_stages(only_step(row_bundle(row, attributes)), X)
    np.testing.assert_allclose(found, exact, rtol=1e-6)


@pytest.mark.parametrize(
    "attributes", [(), (("eps", 1e-5),), (("affine", "w"), ("eps", 1e-5)), (("affine", ""), ("eps", "small")),
                   (("affine", ""), ("eps", 1e-5), ("dim", 3))], ids=str)  # fmt: skip
def test_wrong_attributes_are_a_problem_of_the_bundle(attributes: tuple[tuple[str, Attribute], ...]) -> None:
    assert any("layer_norm" in str(problem) for problem in check(row_bundle("layer_norm", attributes)))
