"""What would save most: plans with one thing wrong each, and the same without it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.bundle_function import Address, Execute, Function, Parameter
from openspyre.artifact.superdsc import Axis, Component, Stick, SuperDsc, Tensor
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import DataFormats
from openspyre.spec.machine import MIB, SPYRE
from openspyre.tools.command import main
from openspyre.tools.explaining.comparing import compare
from openspyre.tools.explaining.counting import LaunchedBundle, explain_bundles
from openspyre.tools.explaining.machines import check_plans, machine_of
from openspyre.tools.explaining.page import page
from openspyre.tools.explaining.savings import explained

SOFTMAX = Path(__file__).parents[3] / "examples" / "kernel_directory"
FP16 = DataFormats.SEN169_FP16
MEMORY, SCRATCHPAD = Component.MEMORY, Component.SCRATCHPAD
CORES = 32


def tensor(symbols: tuple[int, ...], order: str = "mb out", stick: str = "out", where: Component = MEMORY) -> Tensor:
    labels = tuple(order.split())
    return Tensor("t", "OUTPUT", FP16, labels, (Stick(stick, 64),), tuple((label, 1) for label in labels), where, symbols)  # fmt: skip


def op(name: str, rows: int, columns: int, tensors: list[Tensor], split: tuple[int, int] = (CORES, 1)) -> SuperDsc:
    axes = (Axis("mb", rows, split[0]), Axis("out", columns, split[1]))
    inputs = tuple(range(len(tensors) - 1))
    cores = ((0, 0),) * (split[0] * split[1])
    return SuperDsc(f"0_{name}", name, "sfp", FP16, axes, cores, tuple(tensors), inputs, (len(tensors) - 1,))


def bundle(*ops: SuperDsc) -> LaunchedBundle:
    """Symbol -100 p - c - 1 is what core c has of parameter p. The first parameter is the pool; 4 lies farther back in it."""
    files = {f"sdsc_{number}.json": each for number, each in enumerate(ops)}
    symbols = tuple(
        (-100 * p - c - 1, Address(p % 4, (c << 12) + (p // 4 << 30))) for p in range(5) for c in range(CORES)
    )
    body = tuple(Execute(file, symbols, number) for number, file in enumerate(files))
    names = ("pool_base_addr", *(f"arg_{number}_base_addr" for number in range(4)))
    return LaunchedBundle(Bundle("by hand", Function(tuple(map(Parameter, names)), body), files), None)


def lies(parameter: int) -> tuple[int, ...]:
    return tuple(-100 * parameter - core - 1 for core in range(CORES))


def chain(where: Component) -> LaunchedBundle:
    """exp, then neg; what is between lies in the pool or in the scratchpads."""
    middle = tensor(lies(0) if where is MEMORY else (0,) * CORES, where=where)
    first = op("exp", 4096, 4096, [tensor(lies(1)), middle])
    return bundle(first, op("neg", 4096, 4096, [middle, tensor(lies(2))]))


def test_a_tensor_that_could_stay_in_scratchpads_is_worth_what_the_plan_with_it_there_takes() -> None:
    far, near = explained([chain(MEMORY)], machine_of("lx_mb=4")), explain_bundles([chain(SCRATCHPAD)])
    (found,) = [saving for saving in far.savings if "goes through memory from 0 exp to 1 neg" in saving.text]
    assert found.us == pytest.approx(far.totals.card_us - near.totals.card_us)
    assert found.text.startswith("pool+0 (33.6 MB)") and found == far.savings[0]


def test_tensors_that_fit_together_are_told_together() -> None:
    def long(where: Component) -> LaunchedBundle:
        first, second = (tensor(lies(n) if where is MEMORY else (n << 20,) * CORES, where=where) for n in (0, 4))
        steps = [(tensor(lies(1)), first), (first, second), (second, tensor(lies(2)))]
        return bundle(*(op(name, 4096, 4096, list(io)) for name, io in zip(("exp", "neg", "abs"), steps, strict=True)))

    far, near = explained([long(MEMORY)], machine_of("lx_mb=4")), explain_bundles([long(SCRATCHPAD)])
    (both,) = far.savings
    assert both.text.startswith("2 tensors (67.1 MB) go through memory") and "from 0 exp to 1 neg" in both.text
    assert both.us == pytest.approx(far.totals.card_us - near.totals.card_us)
    (one,) = explained([long(MEMORY)], machine_of("lx_mb=2")).savings  # neg has both, a MiB each
    assert one.text.startswith("pool+0 (33.6 MB)") and 0 < one.us < both.us


def test_what_does_not_fit_is_not_promised() -> None:
    # 33.6 MB over 32 cores is a MiB each: with as much of scratchpad there is no room beside what is reserved.
    assert explained([chain(MEMORY)], machine_of("lx_mb=1")).savings == ()
    assert explained([chain(SCRATCHPAD)]).savings == ()


def test_to_cores_that_read_what_others_wrote_only_another_division_is_promised() -> None:
    turned = tensor(tuple(reversed(lies(0))))
    first = op("exp", 4096, 4096, [tensor(lies(1)), tensor(lies(0))])
    mixed = bundle(first, op("neg", 4096, 4096, [turned, tensor(lies(2))]))
    (saving,) = explained([mixed], machine_of("lx_mb=4")).savings
    assert "because 0 exp and 1 neg divide it differently: divided alike" in saving.text
    assert explained([mixed], machine_of("lx_mb=1")).savings == ()  # no MiB per core is left beside what is reserved


def test_restickifies_are_counted_by_what_they_turn() -> None:
    move = op("ReStickifyOpHBM", 1024, 4096, [tensor(lies(1)), tensor(lies(0), "out mb", "mb")])
    explanation = explained([bundle(move, move, move)])
    (saving,) = explanation.savings
    assert saving.text.startswith("3 restickifies of arg_0 cost")
    assert saving.share == pytest.approx(1) and saving.us == pytest.approx(explanation.totals.card_us)


def test_few_cores_are_told() -> None:
    one = op("exp", 4096, 4096, [tensor(lies(1)[:1]), tensor(lies(2)[:1])], (1, 1))
    (saving,) = explained([bundle(one)]).savings
    assert "0 exp runs on 1 of 32 cores" in saving.text and saving.us > 0
    assert explained([bundle(op("exp", 4096, 4096, [tensor(lies(1)), tensor(lies(2))]))]).savings == ()


def product(splits: tuple[int, int, int]) -> LaunchedBundle:
    axes = tuple(Axis(*each) for each in zip(("mb", "out", "in"), (512, 4096, 4096), splits, strict=True))
    tensors = (tensor(lies(1), "mb in", "in"), tensor(lies(2), "in out", "out"), tensor(lies(3), "mb out", "out"))
    cores = ((0, 0, 0),) * (splits[0] * splits[1] * splits[2])
    return bundle(SuperDsc("0_mm", "batchmatmul", "pt", FP16, axes, cores, tensors, (0, 1), (2,)))


def test_a_badly_divided_product_is_told_a_better_division() -> None:
    bad, good = explained([product((32, 1, 1))]), explained([product((4, 8, 1))])
    (saving,) = bad.savings
    assert "instead of mb 32 it would save" in saving.text
    assert bad.totals.card_us - saving.us <= good.totals.card_us
    assert "no other division is better by more than the clock errs" in good.savings[0].text


def test_two_launches_are_told_what_one_would_save() -> None:
    savings = explained([chain(SCRATCHPAD), chain(SCRATCHPAD)]).savings
    assert [saving.us for saving in savings] == [2900.0] and "2 launches" in savings[0].text


def test_a_supposed_machine() -> None:
    machine = machine_of("cores=64,lx_mb=4,ddr=409.6")
    assert (machine.cores, machine.scratchpad_bytes_per_core) == (64, 4 * MIB)
    usual, faster = (explain_bundles([chain(MEMORY)], m) for m in (SPYRE, machine_of("ddr=409.6")))
    assert faster.totals.data_once_us == pytest.approx(usual.totals.data_once_us / 2)  # memory of twice the rate
    assert faster.totals.card_us < 0.6 * usual.totals.card_us
    for wrong in ("cores=0", "cores=1.5", "lx=4", "ddr", "ddr=nan"):
        with pytest.raises(InvalidArgument, match="nothing of a machine"):
            machine_of(wrong)
    with pytest.raises(InvalidArgument, match="says cores more than once"):
        machine_of("cores=16,cores=8")


def test_a_plan_that_the_machine_has_no_room_for_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"divided over 32 cores, the machine has 16.*SENCORES=16"):
        check_plans([chain(MEMORY)], machine_of("cores=16"))
    with pytest.raises(InvalidArgument, match="up to byte 1048576 of the scratchpads"):
        check_plans([chain(SCRATCHPAD)], machine_of("lx_mb=0.5"))
    check_plans([chain(SCRATCHPAD)], machine_of("lx_mb=1"))


def test_the_note_says_that_the_plan_stays(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(SOFTMAX), "--machine", "ddr=300"]) == 0
    assert "the plan is the bundle's own and stays" in capsys.readouterr().out.splitlines()[0]
    with pytest.raises(SystemExit) as exit_:
        main(["explain", str(SOFTMAX), "--machine", "speed=9"])
    assert exit_.value.code == 2


def test_two_plans_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    copy = op("identity", 4096, 4096, [tensor(lies(1)), tensor(lies(0))])
    far, near = explain_bundles([chain(MEMORY)]), explain_bundles([bundle(copy), chain(SCRATCHPAD)])
    found = compare(far, near)
    assert [(p.this and p.this.op, p.other and p.other.op) for p in found.pairs] == [
        (None, "identity"), ("exp", "exp"), ("neg", "neg"),
    ]  # fmt: skip
    changed = sum(pair.change_us for pair in found.pairs)
    assert changed == pytest.approx(near.totals.card_us - far.totals.card_us)
    assert json.loads(found.json())["totals"]["other"]["memory_bytes"] == near.totals.memory_bytes
    assert main(["explain", str(SOFTMAX), "--against", str(SOFTMAX)]) == 0
    assert "(+0.0%)" in capsys.readouterr().out


def records(text: str) -> object:
    found = re.search(r"^const records = (.*);$", text, re.MULTILINE)
    assert found is not None
    return json.loads(found[1])


def test_the_page_has_everything_and_needs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(SOFTMAX), "--json", "--html", str(tmp_path / "page.html")]) == 0
    text = (tmp_path / "page.html").read_text()
    assert records(text) == json.loads(capsys.readouterr().out)
    assert set(re.findall(r"https?://[^\"]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"<(script|link|img)[^>]* (src|href)=", text)


def test_names_cannot_break_out_of_the_page() -> None:
    evil = explain_bundles([bundle(op("</script><b>", 64, 64, [tensor(lies(1)[:1]), tensor(lies(2)[:1])], (1, 1)))])
    text = page(evil)
    assert text.count("</script>") == 1 and "</script><b>" in json.dumps(records(text))
