"""Ops right before their first use: the order of the documents, from whatever order they came in."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.compiler.passes.order_by_use import OrderByUse


def op(made: str, *read: str, row: str = "add") -> Op:
    accesses = tuple(Access(name, 0, (1,), "float16") for name in read)
    return Op(made, row, (Dim("i", 64),), accesses, (Access(made.split("'")[0], 0, (1,), "float16"),))


def program(*ops: Op, results: tuple[str, ...], role: Role = Role.OUTPUT) -> Program:
    names = dict.fromkeys([*results, *(access.buffer for each in ops for access in each.accesses)])
    written = {access.buffer for each in ops for access in each.outputs}
    roles = {name: role if name in results else Role.TEMP if name in written else Role.INPUT for name in names}
    return Program("p", tuple(Buffer(n, "float16", (64,), (1,), r) for n, r in roles.items()), ops)


def names(made: Program) -> list[str]:
    return [each.name for each in made.ops]


def test_what_is_needed_late_runs_late() -> None:
    """Two norms before two products: the second runs when the second product needs it, as in the reference's swiglu."""
    ops = (op("norm", "x"), op("again", "x"), op("first", "norm"), op("gate", "first"), op("second", "again"))
    ordered = OrderByUse().run(program(*ops, op("out", "gate", "second"), results=("out",)))
    assert names(ordered) == ["norm", "first", "gate", "again", "second", "out"]


def test_operands_come_in_the_order_in_which_they_are_read() -> None:
    """(x @ a) + y * 2: the product first, though it came last."""
    ops = (op("scaled", "y"), op("product", "x", "a"), op("out", "product", "scaled"))
    assert names(OrderByUse().run(program(*ops, results=("out",)))) == ["product", "scaled", "out"]


def test_what_several_read_comes_before_the_first_of_them() -> None:
    ops = (op("shared", "x"), op("alone", "y"), op("late", "alone", "shared"), op("early", "shared"))
    ordered = OrderByUse().run(program(*ops, op("out", "early", "late"), results=("out",)))
    assert names(ordered) == ["shared", "early", "alone", "late", "out"]


def test_results_come_in_the_callers_order() -> None:
    ops = (op("b", "x"), op("a", "x"))
    assert names(OrderByUse().run(program(*ops, results=("a", "b")))) == ["a", "b"]


def test_parts_of_one_buffer_stay_together() -> None:
    """cat: both parts are computed, and then copied."""
    ops = (op("p", "x"), op("joined", "p"), op("q", "y"), op("joined'1", "q"), op("out", "joined"))
    assert names(OrderByUse().run(program(*ops, results=("out",)))) == ["p", "q", "joined", "joined'1", "out"]


def test_what_is_written_in_place_keeps_its_order() -> None:
    ops = (op("b", "x"), op("a", "x"))
    given_order = program(*ops, results=("a", "b"), role=Role.UPDATE)
    assert OrderByUse().run(given_order) == given_order


@given(st.integers(2, 12), st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_one_before(count: int, random: Random) -> None:
    ops = [op("o0", "x")]
    for number in range(1, count):
        ops.append(op(f"o{number}", *(f"o{random.randrange(number)}" for _ in range(random.randint(1, 3)))))
    read = {access.buffer for each in ops for access in each.accesses[:-1]}
    results = tuple(each.name for each in ops if each.name not in read)
    one = program(*ops, results=results)
    other, left = list[Op](), list(ops)
    while left:
        ready = [o for o in left if not {a.buffer for a in o.accesses[:-1]} & {o.name for o in left}]
        other.append(random.choice(ready))
        left.remove(other[-1])
    ordered = OrderByUse().run(one)
    assert names(ordered) == names(OrderByUse().run(replace(one, body=tuple(other))))
    seen = {"x"}
    for each in ordered.ops:
        assert {access.buffer for access in each.accesses[:-1]} <= seen
        seen.add(each.name)
    assert len(ordered.ops) == count
