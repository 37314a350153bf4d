"""`bundle.mlir`: what is read is what was meant, what is written reads back, and every mistake names its line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openspyre.artifact.bundle_function import Address, Execute, Function, Loop, Node, Parameter
from openspyre.artifact.fields import Problems
from openspyre.artifact.mlir_reader import read_function
from openspyre.artifact.mlir_writer import function_text

TEXT = """#map_0 = affine_map<(d0, d1)[s0] -> (s0 + 65536*d0 + 2097152*d1 + 128)>
module {
  func.func @sdsc_bundle(%pool_base_addr: !sdscbundle.input_arg<index>, %arg_0_base_addr: !sdscbundle.input_arg<index>,
                         %sym_0_1_base: !sdscbundle.input_arg<index, granularity=64, max_value=512>) {
    %pool = sdscbundle.input_arg_extract value from %pool_base_addr : !sdscbundle.input_arg<index> -> index
    %arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
    %n = sdscbundle.input_arg_extract value from %sym_0_1_base : !sdscbundle.input_arg<index, granularity=64, max_value=512> -> index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %two = arith.constant 2 : index
    %four = arith.constant 4 : index
    %off = arith.constant 4096 : index
    %arg_0_slice = arith.addi %arg_0, %off : index
    sdscbundle.sdsc_execute (%n, %arg_0_slice) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2]}
    scf.for %i = %c0 to %two step %c1 {
      scf.for %j = %c0 to %four step %c1 {
        %a = affine.apply #map_0(%i, %j)[%arg_0]
        sdscbundle.sdsc_execute (%a, %pool) {sdsc_filename="sdsc_1.json", "symbol_ids"=[-3, -4]}
      }
    }
    sdscbundle.sdsc_execute () {sdsc_filename="sdsc_2.json"}
    return
  }
}
"""


def read(text: str) -> tuple[Function | None, list[str]]:
    problems = Problems("bundle.mlir")
    return read_function(text, problems), [str(problem) for problem in problems.found]


def test_addresses_loops_and_sizes_are_read() -> None:
    function, problems = read(TEXT)
    assert problems == [] and function is not None
    assert function.parameters == (
        Parameter("pool_base_addr"), Parameter("arg_0_base_addr"), Parameter("sym_0_1_base", 64, 512)
    )  # fmt: skip
    first, loop, last = function.body
    assert isinstance(first, Execute) and isinstance(loop, Loop) and isinstance(last, Execute)
    inner = loop.body[0]
    assert isinstance(inner, Loop) and isinstance(inner.body[0], Execute)
    assert first.symbols == ((-2, Address(1, 4096)),)  # a size is no address
    assert (loop.count, inner.count) == (2, 4)
    assert inner.body[0].symbols == ((-3, Address(1, 128, (65536, 2097152))), (-4, Address(0)))
    assert last.symbols == ()
    executed = list(function.executions())
    assert [iterations for _, iterations in executed] == [
        (), (0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3), ()
    ]  # fmt: skip
    moved = executed[6][0].symbols[0][1].at((1, 1))
    assert moved == Address(1, 128 + 65536 + 2097152)


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("module {", "modul {", 2, "'module'"),
        ("%arg_0_base_addr: !", "%pool_base_addr: !", 3, "declared before (invalid MLIR)"),
        ("arith.addi %arg_0, %off", "arith.addi %arg_0, %of", 13, "defined before"),
        ("arith.addi %arg_0, %off", "arith.addi %arg_0, %pool", 13, "at most one address"),
        ("arith.addi %arg_0, %off", "arith.muli %arg_0, %off", 13, "arith.constant"),
        ("#map_0(%i, %j)", "#map_0(%i)", 17, "2 dims and 1 symbols"),
        ("#map_0(%i, %j)", "#map_7(%i, %j)", 17, "an affine map"),
        ('"symbol_ids"=[-3, -4]', '"symbol_ids"=[-3]', 18, "as many symbol_ids"),
        ("%c0 to %two", "%c1 to %two", 15, "from 0 in steps of 1"),
        ("    return\n", "", 22, "'return'"),
        ("  }\n}\n", "  }\n", 24, "'}'"),
        ("4096", "40960000000000000000000000", 12, "an integer of at most"),
    ],
)
def test_a_mistake_names_its_line(old: str, new: str, line: int, said: str) -> None:
    function, problems = read(TEXT.replace(old, new, 1))
    assert function is None and len(problems) == 1
    assert f"line {line}:" in problems[0] and said in problems[0], problems


addresses = st.builds(Address, st.integers(0, 3), st.integers(0, 1 << 34))


def _bodies(depth: int) -> st.SearchStrategy[tuple[Node, ...]]:
    moving = st.builds(
        Address, st.integers(0, 3), st.integers(0, 1 << 34), st.tuples(*[st.integers(1, 1 << 20)] * depth)
    )
    execute = st.builds(
        lambda places, n: Execute(f"sdsc_{n}.json", tuple((-1 - i, place) for i, place in enumerate(places)), 0),
        st.lists(moving if depth else addresses, max_size=4),
        st.integers(0, 9),
    )
    if depth == 2:
        return st.lists(execute, max_size=3).map(tuple)
    inner = st.builds(Loop, st.integers(0, 5), st.deferred(lambda: _bodies(depth + 1)))
    return st.lists(execute | inner, max_size=3).map(tuple)


def _without_lines(body: tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(
        replace(node, line=0) if isinstance(node, Execute) else replace(node, body=_without_lines(node.body))
        for node in body
    )


@given(_bodies(0))
def test_what_is_written_reads_back(body: tuple[Node, ...]) -> None:
    parameters = (Parameter("pool_base_addr"), *(Parameter(f"arg_{i}_base_addr") for i in range(3)))
    function, problems = read(function_text(Function(parameters, body)))
    assert problems == [] and function is not None
    assert function.parameters == parameters and _without_lines(function.body) == body


@given(st.integers(0, len(TEXT) - 1), st.sampled_from(list('(){}[]<>,:=+*%#@!" \n-9aZ')))
def test_a_changed_letter_never_crashes_the_reader(place: int, letter: str) -> None:
    function, problems = read(TEXT[:place] + letter + TEXT[place + 1 :])
    assert (function is None) == bool(problems)
