"""A program full of mistakes: makes each one under the sanitizer and prints, as JSON, what it was told about it."""

import json
import sys
import warnings
from collections.abc import Callable

import numpy as np
import torch

from openspyre import card
from openspyre.card import _card
from openspyre.card.programs import load
from openspyre.program.model import Dim, LaneBlock, Map, Operand, OperandKind, Program, Space
from openspyre.spec.errors import SanitizerFinding, SanitizerWarning
from openspyre.spec.ops import TABLE
from openspyre.spec.ops.expression import Lane, trace

FAULTS: dict[str, Callable[[], object]] = {}
ROWS = 8


def fault(make: Callable[[], object]) -> Callable[[], object]:
    FAULTS[make.__name__] = make
    return make


def halves(*size: int) -> torch.Tensor:
    return torch.ones(size, dtype=torch.float16).to("spyre")


def unwritten(*size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.float16, device="spyre")


# --- torch's own calls ---


@fault
def computing_with_what_nobody_wrote():
    return unwritten(10, 70) + 1  # LINE computing_with_what_nobody_wrote


@fault
def the_host_reads_what_nobody_wrote():
    return unwritten(3, 5).cpu()  # LINE the_host_reads_what_nobody_wrote


@fault
def copies_are_allowed_and_remember():
    copy = unwritten(3, 70).t().contiguous().clone()
    torch.spyre.synchronize()
    return copy * 2


@fault
def an_integer_wraps():
    return torch.tensor([5, 2**30]).to("spyre") * 4


@fault
def an_index_nobody_wrote():
    return halves(9, 64).index_select(0, torch.empty(3, dtype=torch.int64, device="spyre"))


@fault
def part_of_a_sum_is_missing():
    x = unwritten(4, 100)
    x[:, :99] = 1
    assert x[:, :99].sum().item() == 396
    return x.sum()


@fault
def a_matrix_nobody_wrote():
    return halves(4, 64) @ unwritten(64, 32)


@fault
def a_compiled_graph():
    return torch.compile(lambda x, y: (x + y).relu())(halves(5, 70), unwritten(5, 70))


@fault
def a_compiled_graph_fills_a_part():
    """What the launch computed before must not pass for what nobody wrote."""

    def function(x, order):
        y = (x.exp() @ x.t()).softmax(-1)  # temps whose memory is free again
        room = torch.empty_like(y)
        room[order] = y[:3]
        return room * 2

    return torch.compile(function)(halves(5, 70), torch.tensor([0, 2, 3]).to("spyre"))


@fault
def a_compiled_graph_computes_with_an_empty():
    return torch.compile(lambda x: x + torch.empty_like(x))(halves(5, 70))


@fault
def nothing_wrong_filling_all_in_a_graph():
    def function(order):
        places = torch.empty_like(order)
        places[order] = torch.arange(5, device=order.device)
        return places

    assert torch.compile(function)(torch.tensor([4, 2, 0, 1, 3]).to("spyre")).tolist() == [2, 3, 1, 4, 0]


@fault
def nothing_wrong_copying_an_empty_in_a_graph():
    torch.compile(lambda x: x.copy_(torch.empty_like(x)))(halves(5, 70))


@fault
def nothing_wrong_selecting_the_clean_side():
    x, mask = halves(7, 70), torch.zeros(7, 70, dtype=torch.bool).to("spyre")
    assert torch.where(mask, unwritten(7, 70), x).cpu().eq(1).all()


@fault
def nothing_wrong_writing_parts_and_reading_them():
    cache = unwritten(4, 32, 64)
    cache[:, :3] = halves(4, 3, 64)
    cache.index_copy_(1, torch.tensor([3, 4]).to("spyre"), halves(4, 2, 64))
    assert torch.softmax(cache[:, :5], -1).sum().item() == 20
    torch.empty(3, 3, dtype=torch.float16, device="spyre").uniform_()


# --- programs written by hand ---


def operand(symbol: int, **changes: object) -> Operand:
    """Rows of two sticks, in the default layout: the second sticks of all rows lie behind the first ones."""
    return Operand(
        OperandKind.VECTOR, symbol, **{"offset": 0, "strides": (ROWS * 64, 64), "tile_stride": 64, **changes}
    )


def program(columns: int = 128, split: int = 4, source: dict | None = None, target: dict | None = None) -> Program:
    step = Map(
        name="negate",
        dims=(Dim(2), Dim(ROWS, split)),
        lane=LaneBlock(64, columns, 0),
        inputs=(operand(0, **source or {}),),
        outputs=(operand(1, **target or {}),),
        code=trace(TABLE["neg"].body, (Lane.FLOAT,)),
    )
    return Program("by_hand", ("x", "y"), (), (step,))


def run(made: Program, columns: int = 128) -> None:
    x, y = (card.to_card(np.ones((ROWS, columns), np.float16)) for _ in range(2))
    load(made).run({"x": x.buffer, "y": y.buffer})


@fault
def padding_becomes_an_element():
    run(program(), columns=70)


@fault
def a_step_leaves_its_tensor():
    run(program(source={"offset": 64}))


@fault
def cores_write_the_same_place():
    run(program(target={"strides": (ROWS * 64, 0)}))


@fault
def a_core_reads_what_another_writes():
    x = card.to_card(np.ones((ROWS, 192), np.float16))
    load(program(source={"offset": 64})).run({"x": x.buffer, "y": x.buffer})


@fault
def memory_is_used_after_it_was_freed():
    x, y = (card.to_card(np.ones((ROWS, 128), np.float16)) for _ in range(2))
    addresses = [x.buffer.address, y.buffer.address]
    x.buffer.release()
    _card.run_program(load(program()).number, 0, 0, addresses, [])


@fault
def a_core_reads_a_scratchpad_it_did_not_write():
    (keep,) = program(target={"space": Space.SCRATCHPAD}).steps
    (take,) = program(split=8, source={"space": Space.SCRATCHPAD}).steps
    run(Program("by_hand", ("x", "y"), (), (keep, take)))


@fault
def nothing_wrong_keeping_values_in_scratchpads():
    (keep,) = program(target={"space": Space.SCRATCHPAD}).steps
    (take,) = program(source={"space": Space.SCRATCHPAD}).steps
    run(Program("by_hand", ("x", "y"), (), (keep, take)))


# --- steps that do not do what they say: the card is told to misbehave, as no sound program does ---


@fault
def a_step_stores_nothing():
    _card.misbehave_once("skip")
    run(program())


@fault
def a_step_stores_beyond():
    _card.misbehave_once("store_beyond")
    run(program(columns=70), columns=70)


@fault
def an_eager_operator_stores_nothing():
    x = halves(10, 70)
    torch.spyre.synchronize()
    _card.misbehave_once("skip")
    return x + 1  # LINE an_eager_operator_stores_nothing


@fault
def a_copy_within_the_card_stores_nothing():
    x = halves(10, 70)
    torch.spyre.synchronize()
    _card.misbehave_once("skip")
    return x.t().contiguous()


@fault
def a_fused_graph_stores_nothing():
    f = torch.compile(lambda x: (y := x.softmax(-1), y * 2))
    x = halves(10, 70)
    f(x)
    torch.spyre.synchronize()
    _card.misbehave_once("skip")
    return f(x)


@fault
def nothing_wrong_with_results_that_look_like_poison():
    for value in (0x5A, 0xA5 - 256):
        x = torch.full((3, 200), value, dtype=torch.int8).to("spyre")
        assert (x.t().contiguous() + 0).cpu().eq(value).all()


def told_about(make: Callable[[], object]) -> str:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", SanitizerWarning)
        try:
            make()
            torch.spyre.synchronize()
        except SanitizerFinding as finding:
            return f"error {finding}"
    told = [f"warning {w.filename}:{w.lineno} {w.message}" for w in seen if w.category is SanitizerWarning]
    return "\n".join(told) or "nothing"


if __name__ == "__main__":
    wanted = sys.argv[1:] or FAULTS
    warnings.simplefilter("ignore")
    print(json.dumps({name: told_about(FAULTS[name]) for name in wanted}))
