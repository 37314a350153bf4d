"""Any program survives its text, at every stage of the pipeline; what is no program is refused by line."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openspyre.compiler import pipeline
from openspyre.compiler.ir import (
    Access,
    Attribute,
    Buffer,
    Dim,
    Hint,
    InPool,
    InScratchpad,
    Iota,
    Loop,
    NamedDim,
    Op,
    Program,
    Role,
    Scalar,
)
from openspyre.compiler.test_random_views import View, buffers, views
from openspyre.compiler.text import InvalidText, parse_program, print_program
from openspyre.spec.formats import TENSOR_DTYPES
from openspyre.spec.ops import TABLE
from openspyre.spec.origin import Change, Origin

NAMES = st.text(max_size=8)
NUMBERS = st.integers(-(2**62), 2**62)
LISTS = st.lists(NUMBERS, max_size=4).map(tuple)
DTYPES = st.sampled_from(TENSOR_DTYPES)
ACCESSES = st.builds(Access, NAMES, NUMBERS, LISTS, DTYPES, LISTS)
SCALARS = st.builds(Scalar, NAMES, DTYPES)
ATTRIBUTES = st.one_of(NUMBERS, st.booleans(), NAMES, LISTS, st.floats(allow_nan=False))
LABELS = st.lists(NAMES, max_size=2).map(tuple)
COUNTS = st.tuples(NAMES, NUMBERS)
HINTS = st.builds(
    Hint,
    NUMBERS,
    st.lists(COUNTS, max_size=2).map(tuple),
    st.none() | COUNTS,
    st.none() | LABELS,
    st.none() | LABELS,
)
DIMS = st.builds(Dim, NAMES, NUMBERS, st.booleans(), st.integers(1, 32), st.booleans(), LABELS)
CALLS = st.builds(Origin, NAMES, NUMBERS, NAMES, NAMES, LABELS, NAMES)
CHANGES = st.builds(Change, st.sampled_from(["rewrite", "fusion", "clone"]), NAMES, NAMES)
ORIGINS = st.builds(
    lambda call, merged, history: replace(call, merged=tuple(merged), history=tuple(history)),
    CALLS,
    st.lists(CALLS, max_size=2),
    st.lists(CHANGES, max_size=2),
)
OPS = st.builds(
    Op,
    NAMES,
    st.sampled_from(list(TABLE)),
    st.lists(DIMS, max_size=3).map(tuple),
    st.lists(st.one_of(ACCESSES, SCALARS, st.builds(Iota, NUMBERS, LISTS)), max_size=3).map(tuple),
    st.lists(ACCESSES, max_size=2).map(tuple),
    st.lists(st.tuples(NAMES, ATTRIBUTES), max_size=3).map(tuple),
    ORIGINS,
    st.lists(HINTS, max_size=2).map(tuple),
)
BODIES = st.recursive(
    st.lists(OPS, max_size=3).map(tuple),
    lambda bodies: st.lists(OPS | st.builds(Loop, NUMBERS, bodies), max_size=2).map(tuple),
    max_leaves=3,
)
PLACES = st.none() | st.builds(InPool, NUMBERS) | st.builds(InScratchpad, NUMBERS)
BUFFERS = st.one_of(
    buffers(),
    st.builds(
        Buffer,
        NAMES,
        DTYPES,
        LISTS,
        LISTS,
        st.sampled_from(list(Role)),
        st.none(),
        PLACES,
        st.booleans(),
        named=st.lists(st.builds(NamedDim, NAMES, NUMBERS, NUMBERS), max_size=2).map(tuple),
    ),
)
PROGRAMS = st.builds(
    Program,
    NAMES,
    st.lists(BUFFERS, max_size=3).map(tuple),
    BODIES,
    st.lists(SCALARS, max_size=2).map(tuple),
    NUMBERS,
)


@settings(max_examples=200)
@given(PROGRAMS)
def test_any_program_comes_back(program: Program) -> None:
    assert parse_program(print_program(program)) == program


def test_attributes_keep_their_kind() -> None:
    values: tuple[Attribute, ...] = (1, 1.0, True, "1", (1,), (), math.inf, -0.0)
    op = Op("op", "add", (), (), (), tuple((f"a{i}", value) for i, value in enumerate(values)))
    (back,) = parse_program(print_program(Program("p", (), (op,)))).ops
    assert [(type(value), str(value)) for _, value in back.attributes] == [(type(v), str(v)) for v in values]


@given(views(dtype="float16"))
def test_every_stage_of_the_pipeline_comes_back(view: View) -> None:
    size = tuple(dim.size for dim in view.dims)
    target = Buffer("out", "float16", size, tuple(math.prod(size[i + 1 :]) for i in range(len(size))), Role.OUTPUT)
    op = Op("add", "add", view.dims, (view.access, view.access), (Access("out", 0, target.stride, "float16"),))
    program = Program("p", (view.buffer, target), (op,))
    for step in pipeline.passes():
        program = step.run(program)
        assert parse_program(print_program(program)) == program


def test_it_reads_like_a_program() -> None:
    x = Buffer("x", "float16", (2, 3), (3, 1), Role.INPUT)
    reads = Access("x", 0, (3, 1), "float16")
    op = Op(
        "total",
        "sum",
        (Dim("m", 2, split=2), Dim("n", 3, reduced=True)),
        (reads,),
        (Access("y", 0, (1, 0), "float16"),),
    )
    y = Buffer("y", "float16", (2,), (1,), Role.OUTPUT)
    assert print_program(Program("sum", (x, y), (op,))).splitlines() == [
        'program "sum" pool 0',
        'buffer "x" input float16 [2, 3] [3, 1]',
        'buffer "y" output float16 [2] [1]',
        'op "total" sum',
        '  dim "m" 2 split 2',
        '  dim "n" 3 reduced',
        '  read "x" float16 0 [3, 1]',
        '  write "y" float16 0 [1, 0]',
    ]


def test_names_and_hints_read_like_the_users() -> None:
    x = Buffer("x", "float16", (6,), (1,), Role.UPDATE, named=(NamedDim("M", 2, 3), NamedDim("K", 3, 1)))
    there = Access("x", 0, (3, 1), "float16")
    hints = (
        Hint(0, tiles=("M", 2), whole=False),
        Hint(1, (("M", 2), ("K", 1)), expected_named_dims=("M", "K"), expected_reduction_dims=()),
    )
    op = Op(
        "neg", "neg", (Dim("d0", 2, named=("M",)), Dim("d1", 3, split=3, named=("K",))), (there,), (there,), hints=hints
    )
    program = Program("p", (x,), (op,))
    assert parse_program(print_program(program)) == program
    assert print_program(program).splitlines()[1:] == [
        'buffer "x" update float16 [6] [1] named "M" 2 3 named "K" 3 1',
        'op "neg" neg',
        '  dim "d0" 2 named "M"',
        '  dim "d1" 3 split 3 named "K"',
        '  read "x" float16 0 [3, 1]',
        '  write "x" float16 0 [3, 1]',
        '  hint 0 part tiles "M" 2',
        '  hint 1 work_div "M" 2 work_div "K" 1 expects "M" "K" reduces',
    ]


def test_a_loop_reads_like_one() -> None:
    op = Op("copy", "neg", (Dim("m", 4),), (Access("x", 0, (1,), "int32", (4,)),), (Access("y", 0, (1,), "int32"),))
    assert print_program(Program("p", (), (Loop(3, (Loop(2, (op,)), op)),))).splitlines()[1:5] == [
        "loop 3",
        "  loop 2",
        '    op "copy" neg',
        '      dim "m" 4',
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the end of the text: 'program' should follow"),
        ('op "x" add', "line 1"),
        ('program "p"', "'pool' is missing"),
        ('program "p" pool many', "invalid literal"),
        ('program "p" pool 0 1', "one word too many"),
        ('program "p" pool 0\n\nbuffer "x" input', "line 3"),
        ('program "p" pool 0\nbuffer "x" guest float16 [] []', "'guest' is not a valid Role"),
        ('program "p" pool 0\nbuffer "x" input float16 [1.5] [1]', "no list of integers"),
        (
            'program "p" pool 0\nbuffer "x" input float16 [4] [1] layout [1, 65] [64, 1] SEN169_FP16 STANDARD',
            "a stick holds 64",
        ),
        ('program "p" pool 0\nop "x" add\n  dim "d" 3 4', "too many"),
        (
            'program "p" pool 0\nop "x" add\n  write "y" float16 0 []\n  read "y" float16 0 []',
            "nothing like this may follow",
        ),
        ('program "p" pool 0\nop "x" add\n  with "eps" null', "no attribute"),
        ('program "p" pool 0\nloop 3', "the end of the text: 'end' should follow"),
        ('program "p" pool 0\nend', "line 2, 'end': nothing like this may follow here"),
        ('program "p" pool 0\nloop many\nend', "line 2, 'loop many'"),
        ('program "p" pool 0\n' + "loop 1\n" * 17, "at most 16 loops stand in each other"),
    ],
)
def test_what_is_wrong_is_told_by_line(text: str, told: str) -> None:
    with pytest.raises(InvalidText, match=told):
        parse_program(text)
