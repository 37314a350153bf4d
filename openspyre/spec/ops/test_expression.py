"""Traced code computes what the expression says: an interpreter of its own, against numpy on the same operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from openspyre.spec.ops.expression import (
    MAX_REGISTERS,
    PRIMITIVES,
    Code,
    Lane,
    Value,
    call,
    convert,
    select,
    to_float,
    to_int,
    trace,
)

Bits = NDArray[Any]  # 32 of them per lane
NUMBERS = np.array([0, 1, 2, 3, -1, -7, 100], np.int32)


def _on_floats(function: Callable[..., Any]) -> Callable[..., Bits]:
    return lambda *sources: np.asarray(function(*(s.view(np.float32) for s in sources)), np.float32).view(np.uint32)


def _on_ints(function: Callable[..., Any]) -> Callable[..., Bits]:
    return lambda *sources: np.asarray(function(*(s.view(np.int32) for s in sources))).astype(np.int32).view(np.uint32)


MEANING: dict[str, Callable[..., Bits]] = {
    "add": _on_floats(np.add),
    "sub": _on_floats(np.subtract),
    "mul": _on_floats(np.multiply),
    "neg": _on_floats(np.negative),
    "max": _on_floats(np.maximum),
    "add_i": _on_ints(np.add),
    "sub_i": _on_ints(np.subtract),
    "mul_i": _on_ints(np.multiply),
    "neg_i": _on_ints(np.negative),
    "lt_i": _on_ints(np.less),
    "int_to_float": lambda x: x.view(np.int32).astype(np.float32).view(np.uint32),
    "lt_f": lambda a, b: (a.view(np.float32) < b.view(np.float32)).astype(np.uint32),
    "bool_to_float": lambda x: x.astype(np.float32).view(np.uint32),
    "int_to_bool": lambda x: (x != 0).astype(np.uint32),
    "float_to_bool": lambda x: (x.view(np.float32) != 0).astype(np.uint32),
    "select": lambda condition, yes, no: np.asarray(np.where(condition != 0, yes, no)),
}


def execute(code: Code, *inputs: Bits) -> list[Bits]:
    """Registers as the card has them: inputs, constants, then whatever instructions write."""
    registers: dict[int, Bits] = dict(enumerate(inputs))
    for place, bits in enumerate(code.constants):
        registers[len(inputs) + place] = np.full(len(NUMBERS), bits, np.uint32)
    for step in code.instructions:
        registers[step.target] = MEANING[step.opcode](*(registers[source] for source in step.sources))
    return [registers[result] for result in code.results]


# A tree of sums, differences, products and choices over two operands and small constants.
TREES = st.recursive(
    st.one_of(st.sampled_from(["a", "b"]), st.integers(-3, 3)),
    lambda inner: st.tuples(st.sampled_from(["+", "-", "*", "neg", "choose"]), inner, inner),
    max_leaves=40,
)


def build(tree: Any, a: Any, b: Any, choose: Callable[[Any, Any, Any], Any]) -> Any:
    match tree:
        case "a":
            return a
        case "b":
            return b
        case int():
            return a * 0 + tree
        case (operator, left, right):
            x, y = build(left, a, b, choose), build(right, a, b, choose)
            match operator:
                case "+":
                    return x + y
                case "-":
                    return x - y
                case "*":
                    return x * y
                case "neg":
                    return -x
                case _:
                    return choose(x < y, x, y)
    raise AssertionError(tree)


@given(TREES)
def test_integer_code_computes_the_expression(tree: Any) -> None:
    code = trace(lambda a, b: build(tree, a, b, select), (Lane.INT, Lane.INT))
    a, b = NUMBERS, NUMBERS[::-1].copy()
    with np.errstate(over="ignore"):
        wanted = build(tree, a, b, np.where)
        (found,) = execute(code, a.view(np.uint32), b.view(np.uint32))
    assert np.array_equal(found.view(np.int32), np.broadcast_to(wanted, found.shape))


@given(TREES)
def test_registers_are_used_again_and_stay_few(tree: Any) -> None:
    code = trace(lambda a, b: build(tree, a, b, select), (Lane.FLOAT, Lane.FLOAT))
    assert all(step.target < MAX_REGISTERS for step in code.instructions)
    pinned = len(code.inputs) + len(code.constants)
    assert all(step.target >= pinned for step in code.instructions)


def test_equal_steps_are_computed_once_and_dead_ones_never() -> None:
    def body(x: Value) -> Value:
        _ = call("exp", x)
        return (x * x) + (x * x)

    code = trace(body, (Lane.FLOAT,))
    assert [step.opcode for step in code.instructions] == ["mul", "add"]


def test_lanes_mix_as_torch_promotes() -> None:
    def body(x: Value, n: Value) -> tuple[Value, ...]:
        return x + n, n + n, n < 3, (n < 3) + (n < 3), select(n < 1, x, n)

    code = trace(body, (Lane.FLOAT, Lane.INT))
    assert code.result_lanes == (Lane.FLOAT, Lane.INT, Lane.BOOL, Lane.INT, Lane.FLOAT)
    halves = (NUMBERS / 2).astype(np.float32)
    found = execute(code, halves.view(np.uint32), NUMBERS.view(np.uint32))
    assert np.array_equal(found[0].view(np.float32), halves + NUMBERS)
    assert np.array_equal(found[3].view(np.int32), 2 * (NUMBERS < 3))
    assert np.array_equal(found[4].view(np.float32), np.where(NUMBERS < 1, halves, NUMBERS).astype(np.float32))


def test_numbers_on_the_left_keep_their_side() -> None:
    code = trace(lambda x: (10 - x, 2 * x, 1 + x, x > 0), (Lane.INT,))
    found = execute(code, NUMBERS.view(np.uint32))
    wanted = (10 - NUMBERS, 2 * NUMBERS, 1 + NUMBERS, NUMBERS > 0)
    assert all(np.array_equal(f.view(np.int32), w) for f, w in zip(found, wanted, strict=True))


def test_a_constant_of_one_kind_is_not_taken_for_the_other() -> None:
    """1 and the float with the same bits, 1e-45, are two things."""
    code = trace(lambda x, n: (x + 1e-45, n + 1), (Lane.FLOAT, Lane.INT))
    x, n = np.ones(7, np.float32), NUMBERS
    found = execute(code, x.view(np.uint32), n.view(np.uint32))
    assert np.array_equal(found[0].view(np.float32), x) and np.array_equal(found[1].view(np.int32), n + 1)


def test_a_primitive_refuses_other_lanes() -> None:
    with pytest.raises(TypeError, match="exp takes"):
        trace(lambda n: call("exp", n), (Lane.INT,))
    with pytest.raises(TypeError, match="add_i takes"):
        trace(lambda x: call("add_i", x, x), (Lane.FLOAT,))


def test_too_many_values_at_once_are_refused() -> None:
    def body(x: Value) -> Value:
        values = [x * float(i) for i in range(2, 40)]
        total = values[0]
        for value in values[1:]:
            total = total * value
        return total

    with pytest.raises(ValueError, match="more than 32 registers"):
        trace(body, (Lane.FLOAT,))


@pytest.mark.parametrize("lane", Lane)
@pytest.mark.parametrize("target", Lane)
def test_every_lane_converts_to_every_other(lane: Lane, target: Lane) -> None:
    code = trace(lambda x: convert(x, target), (lane,))
    assert code.result_lanes == (target,) or (lane, target) == (Lane.BOOL, Lane.INT)  # a predicate is a 0 or 1 already
    assert all(step.opcode in PRIMITIVES for step in code.instructions)


def test_converting_twice_is_converting_once() -> None:
    code = trace(lambda x: to_float(to_int(to_float(to_int(x)))), (Lane.INT,))
    assert [step.opcode for step in code.instructions] == ["int_to_float", "float_to_int", "int_to_float"]
