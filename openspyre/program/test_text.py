"""Any program survives its text; a text that is no program is refused by line."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openspyre.program.lines import InvalidProgram
from openspyre.program.model import (
    Contract,
    Dim,
    Gather,
    LaneBlock,
    LoopNest,
    Map,
    Operand,
    OperandKind,
    Program,
    Reduce,
    Relayout,
    Repeat,
    Rows,
    RowStage,
    Scan,
    Scatter,
    Sort,
    Space,
    Step,
    Use,
    View,
)
from openspyre.program.text import parse_program, print_program
from openspyre.spec.formats import TENSOR_DTYPES, DataFormats
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops.expression import PRIMITIVES, Code, Instruction, Lane
from openspyre.spec.ops.row import Fold

EMPTY = 'program {"name": "p", "symbols": [], "scalars": [], "pool_bytes": 0, "whole_sticks": false, "uses": []}'
NAMES = st.text(max_size=6)
NUMBERS = st.integers(-(2**62), 2**62)
TUPLES = st.lists(NUMBERS, max_size=4).map(tuple)
REGISTERS = st.lists(st.integers(0, 31), max_size=3).map(tuple)
LANES = st.lists(st.sampled_from(list(Lane)), max_size=3).map(tuple)
DTYPES = st.sampled_from(TENSOR_DTYPES)

CODES = st.builds(
    Code,
    LANES,
    st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple),
    st.lists(st.builds(Instruction, st.sampled_from(list(PRIMITIVES)), st.integers(0, 31), REGISTERS), max_size=3).map(
        tuple
    ),
    REGISTERS,
    LANES,
)
OPERANDS = st.builds(
    Operand,
    st.sampled_from(list(OperandKind)),
    st.integers(0, 9),
    NUMBERS,
    TUPLES,
    NUMBERS,
    DTYPES,
    st.sampled_from([f.name for f in DataFormats]),
    st.sampled_from(list(Space)),
    st.integers(-1, 31),
    TUPLES,
)
LAYOUTS = st.lists(st.integers(1, 300), max_size=4).map(lambda size: SpyreTensorLayout(size, "float16"))
VIEWS = st.builds(View, DTYPES, LAYOUTS, DTYPES, TUPLES, TUPLES, NUMBERS, TUPLES, TUPLES)
FOLDS = st.sampled_from(list(Fold))
OPERAND_LISTS = st.lists(OPERANDS, max_size=2).map(tuple)
NESTS = st.builds(
    LoopNest,
    name=NAMES,
    dims=st.lists(st.builds(Dim, NUMBERS, NUMBERS, st.booleans()), max_size=2).map(tuple),
    lane=st.builds(LaneBlock, NUMBERS, NUMBERS, NUMBERS, st.booleans(), st.booleans()),
    inputs=OPERAND_LISTS,
    outputs=OPERAND_LISTS,
    cores=TUPLES,
)
STAGES = st.lists(st.builds(RowStage, REGISTERS, CODES, st.integers(0, 140), st.none() | FOLDS), max_size=2).map(tuple)
# What steps of each kind have of their own.
OWN: dict[type[LoopNest], tuple[st.SearchStrategy[object], ...]] = {
    Map: (CODES,),
    Reduce: (CODES, FOLDS, CODES),
    Rows: (STAGES, REGISTERS),
    Contract: (NUMBERS, NUMBERS, NUMBERS, st.booleans(), st.none() | CODES, st.none() | CODES),
    Gather: (CODES, NUMBERS, NUMBERS),
    Scatter: (CODES, NUMBERS, NUMBERS, st.booleans()),
    Scan: (FOLDS,),
    Sort: (FOLDS,),
}


@st.composite
def steps(draw: st.DrawFn) -> LoopNest | Relayout:
    kind = draw(st.sampled_from([None, *OWN]))
    if kind is None:
        return Relayout(draw(NAMES), draw(OPERAND_LISTS), draw(OPERAND_LISTS), draw(VIEWS), draw(VIEWS))
    nest = draw(NESTS)
    return kind(*nest.head, *map(draw, OWN[kind]), cores=nest.cores)


STEPS = steps()
BODIES = st.recursive(
    st.lists(STEPS, max_size=2).map(tuple),
    lambda bodies: st.lists(STEPS | st.builds(Repeat, NUMBERS, bodies), max_size=2).map(tuple),
    max_leaves=3,
)
NAME_LISTS = st.lists(NAMES, max_size=3).map(tuple)
PROGRAMS = st.builds(
    Program,
    NAMES,
    NAME_LISTS,
    NAME_LISTS,
    BODIES,
    NUMBERS,
    st.booleans(),
    st.lists(st.sampled_from(list(Use)), max_size=3).map(tuple),
)


def test_every_kind_of_step_is_among_them() -> None:
    assert {*OWN, Relayout} == set(get_args(Step))


@settings(max_examples=60)
@given(PROGRAMS)
def test_a_program_survives_its_text(program: Program) -> None:
    assert parse_program(print_program(program)) == program


@settings(max_examples=60)
@given(PROGRAMS, st.data())
def test_a_changed_text_is_a_program_or_refused(program: Program, data: st.DataObject) -> None:
    text = print_program(program)
    place = data.draw(st.integers(0, len(text)))
    changed = text[:place] + data.draw(st.text(max_size=3)) + text[place + data.draw(st.integers(0, 3)) :]
    try:
        again = parse_program(changed)
    except InvalidProgram as error:
        assert "line" in str(error) or "ends" in str(error)
    else:
        assert parse_program(print_program(again)) == again


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'program' should follow"),
        ("step {}", "expected program"),
        ("program", "a JSON object"),
        ("program [1]", "a JSON object"),
        (EMPTY.replace("0", "true"), "pool_bytes"),
        (EMPTY + '\ndim {"extent": 1}', "expected the end"),
        (EMPTY + " junk", "a JSON object"),
        (EMPTY + '\nrepeat {"count": 2}', "'end' should follow"),
        (EMPTY + "\nend {}", "line 2, keyword: found 'end', expected the end"),
        (EMPTY + '\nrepeat {"count": 2}' * 17, "repeat: found 'depth 17', expected at most 16"),
        (EMPTY.replace("0", str(2**63)), "64 bits"),
    ],
)
def test_what_is_no_program_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidProgram, match=message):
        parse_program(text)
