"""What may be fused and what may not: programs of two or three steps, the danger in each of them named."""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion.driver import Fusion, settled
from openspyre.backend.fusion.forms import Bound, Forms, symbols_of
from openspyre.backend.fusion.memory import Listed, Memory
from openspyre.program.model import Dim, LaneBlock, Map, Operand, OperandKind, Use
from openspyre.spec.ops.expression import Lane, Value, call, trace
from openspyre.spec.sharing import nothing_shared

X, Y, OUT, OUT2, T, U = range(6)  # two inputs, two outputs, two temps
MEMORY = Memory((Use.READ, Use.READ, Use.FRESH, Use.FRESH))


def at(symbol: int, *strides: int, offset: int = 0) -> Operand:
    return Operand(OperandKind.VECTOR, symbol, offset, strides or (64,))


def mapped(
    name: str, opcode: str, inputs: tuple[Operand, ...], output: Operand, extents: tuple[int, ...] = (8,)
) -> Map:
    def body(*values: Value) -> Value:
        return call(opcode, *values)

    code = trace(body, (Lane.FLOAT,) * len(inputs))
    dims = tuple(Dim(extent) for extent in extents)
    return Map(name, dims, LaneBlock(64, 64, -1), inputs, (output,), code)


def fused(*steps: Map, memory: Memory = MEMORY) -> tuple[Map, ...]:
    """With steps of a form fused once, and each by itself: the same."""
    together = _fused(steps, memory)
    with nothing_shared():
        assert _fused(steps, memory) == together
    return tuple(step for step in together if isinstance(step, Map))


def _fused(steps: tuple[Map, ...], memory: Memory) -> tuple[Listed, ...]:
    forms = Forms({})
    bound = tuple(_bound(forms, settled(step)) for step in steps)
    return tuple(step.step({}) for step in Fusion(bound, memory, forms).run())


def _bound(forms: Forms, step: Listed) -> Bound:
    return forms.bound(step.name, symbols_of(step), step, lambda: step)


def opcodes(step: Map) -> list[str]:
    return [instruction.opcode for instruction in step.code.instructions]


def test_a_temp_is_rounded_in_a_register_and_never_stored() -> None:
    (only,) = fused(mapped("a", "exp", (at(X),), at(T)), mapped("b", "add", (at(T), at(Y)), at(OUT)))
    assert opcodes(only) == ["exp", "round_sen169", "add"]
    assert {operand.symbol for operand in only.inputs} == {X, Y}
    assert [operand.symbol for operand in only.outputs] == [OUT]


def test_an_output_that_is_read_is_stored_beside_the_other() -> None:
    (only,) = fused(mapped("a", "exp", (at(X),), at(OUT)), mapped("b", "add", (at(OUT), at(Y)), at(OUT2)))
    assert {operand.symbol for operand in only.outputs} == {OUT, OUT2}
    assert opcodes(only) == ["exp", "round_sen169", "add"]


def test_a_value_on_the_grid_needs_no_rounding() -> None:
    (only,) = fused(mapped("a", "neg", (at(X),), at(T)), mapped("b", "max", (at(T), at(Y)), at(OUT)))
    assert opcodes(only) == ["neg", "max"]


def test_cheap_values_are_computed_by_all_their_readers() -> None:
    steps = fused(
        mapped("a", "neg", (at(X),), at(T)),
        mapped("b", "exp", (at(T),), at(OUT)),
        mapped("c", "log", (at(T),), at(OUT2)),
    )
    assert [opcodes(step) for step in steps] == [["neg", "exp"], ["neg", "log"]]


def test_a_step_between_that_overwrites_an_input_keeps_the_two_apart() -> None:
    shared = Memory((Use.SHARED, Use.READ, Use.FRESH, Use.FRESH))
    steps = (
        mapped("a", "exp", (at(X),), at(T)),
        mapped("between", "neg", (at(Y),), at(X)),
        mapped("b", "add", (at(T), at(X)), at(OUT)),
    )
    assert len(fused(*steps, memory=shared)) == 3
    harmless = replace(steps[1], outputs=(at(OUT2),))
    assert len(fused(steps[0], harmless, steps[2], memory=shared)) == 2


def test_an_argument_that_may_be_another_counts_as_overlapping() -> None:
    shared = Memory((Use.READ, Use.SHARED, Use.FRESH, Use.FRESH))
    steps = (
        mapped("a", "exp", (at(X),), at(T)),
        mapped("between", "neg", (at(OUT2),), at(Y)),
        mapped("b", "add", (at(T), at(Y)), at(OUT)),
    )
    assert opcodes(fused(*steps, memory=shared)[0]) == ["exp"], "Y may be X's memory"
    assert opcodes(fused(*steps)[0]) != ["exp"]


def test_in_place_at_the_same_place_fuses_and_shifted_does_not() -> None:
    shared = Memory((Use.SHARED, Use.READ, Use.FRESH, Use.FRESH))
    first = mapped("a", "exp", (at(X),), at(T))
    assert len(fused(first, mapped("b", "sqrt", (at(T),), at(X)), memory=shared)) == 1
    assert len(fused(first, mapped("b", "sqrt", (at(T),), at(X, offset=64)), memory=shared)) == 2


def test_a_reader_that_sees_another_part_of_the_buffer_stays() -> None:
    steps = (mapped("a", "exp", (at(X),), at(T)), mapped("b", "sqrt", (at(T, offset=64),), at(OUT)))
    assert len(fused(*steps)) == 2


def test_a_dear_value_is_not_computed_over_and_over() -> None:
    first = mapped("a", "exp", (at(X),), at(T))
    reader = mapped("b", "add", (at(T, 0, 64), at(Y, 512, 64)), at(OUT, 512, 64), (100, 8))
    assert len(fused(first, reader)) == 2
    cheap = mapped("a", "neg", (at(X),), at(T))
    assert len(fused(cheap, reader)) == 1


def test_what_nobody_reads_is_not_computed() -> None:
    (only,) = fused(mapped("a", "exp", (at(X),), at(T)), mapped("b", "log", (at(X),), at(OUT)))
    assert opcodes(only) == ["log"]


def test_more_operands_than_a_step_has_are_not_put_into_one() -> None:
    many = tuple(at(X, offset=1024 * k) for k in range(7))

    def total(*values: Value) -> Value:
        result = values[0]
        for value in values[1:]:
            result = result + value
        return result

    code = trace(total, (Lane.FLOAT,) * 7)
    base = mapped("a", "exp", (at(X),), at(T))
    wide = [replace(base, inputs=many, code=code, outputs=(at(s),), name=str(s)) for s in (T, U)]
    wide[1] = replace(wide[1], inputs=tuple(at(Y, offset=1024 * k) for k in range(7)))
    assert len(fused(*wide, mapped("b", "add", (at(T), at(U)), at(OUT)))) > 1


def test_signs_of_nan_are_not_carried_past_a_full_precision_store() -> None:
    def full(operand: Operand) -> Operand:
        return replace(operand, dtype="float32", data_format="IEEE_FP32", tile_stride=32)

    def sign(value: Value) -> Value:
        return call("bool_to_float", call("sign_bit", value))

    first = mapped("a", "div", (at(X), at(Y)), full(at(T)))
    second = replace(mapped("b", "neg", (full(at(T)),), at(OUT)), code=trace(sign, (Lane.FLOAT,)))
    assert len(fused(first, second)) == 2


def test_of_several_values_for_one_place_the_last_is_read_and_stored() -> None:
    steps = fused(
        mapped("a", "exp", (at(X),), at(OUT)),
        mapped("b", "neg", (at(OUT),), at(OUT)),
        mapped("c", "sqrt", (at(OUT),), at(OUT)),
        mapped("d", "add", (at(OUT), at(Y)), at(OUT)),
    )
    (only,) = steps
    assert opcodes(only) == ["exp", "round_sen169", "neg", "sqrt", "round_sen169", "add"]
    assert only.outputs == (at(OUT),)
    assert only.code.results == (only.code.instructions[-1].target,)


def test_outputs_that_overlap_stay_in_order() -> None:
    steps = mapped("a", "exp", (at(X),), at(OUT)), mapped("b", "neg", (at(OUT),), at(OUT, offset=64))
    assert len(fused(*steps)) == 2
