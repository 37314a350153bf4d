"""`openspyre opt` from the outside: what it prints and writes, what each pass did, how it exits."""

import io
import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from fuzz import samples
from openspyre.backend import FuseSteps, compile_emitted
from openspyre.compiler import pipeline
from openspyre.compiler.text import parse_program
from openspyre.program.model import Repeat
from openspyre.program.text import parse_program as parse_card_program
from openspyre.program.text import print_program as print_card_program
from openspyre.tools.command import main

# x + y.t(): the sticks of y run the other way, so a relayout is needed; the copy of x is not.
GRAPH = """program "sum" pool 0
buffer "x" input float16 [96, 320] [320, 1] layout [5, 96, 64] [64, 320, 1] SEN169_FP16 STANDARD
buffer "y" input float16 [320, 96] [96, 1] layout [2, 320, 64] [64, 96, 1] SEN169_FP16 STANDARD
buffer "copy" temp float16 [96, 320] [320, 1]
buffer "unread" temp float16 [96, 320] [320, 1]
buffer "out" output float16 [96, 320] [320, 1]
op "clone" relayout
  dim "i" 96
  dim "j" 320
  read "x" float16 0 [320, 1]
  write "copy" float16 0 [320, 1]
op "neg" neg
  dim "i" 96
  dim "j" 320
  read "x" float16 0 [320, 1]
  write "unread" float16 0 [320, 1]
op "add" add
  dim "i" 96
  dim "j" 320
  read "copy" float16 0 [320, 1]
  read "y" float16 0 [1, 96]
  write "out" float16 0 [320, 1]
"""


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    (tmp_path / "graph.ir").write_text(GRAPH)
    return tmp_path / "graph.ir"


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["opt", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def rows(text: str) -> list[str]:
    return [op.row for op in parse_program(text).ops]


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["opt", "--help"])
    assert exit_.value.code == 0
    assert "example: openspyre opt graph.ir" in capsys.readouterr().out


def test_the_list_is_the_pipelines_with_purpose_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    records = json.loads(printed(capsys, "--list", "--json"))
    passes = [(step, "compiler") for step in pipeline.passes()] + [(FuseSteps(), "backend")]
    assert [(record["pass"], record["room"]) for record in records] == [(type(s).__name__, room) for s, room in passes]
    for record, (step, _) in zip(records, passes, strict=True):
        assert record["purpose"].endswith(".")
        named = {field.name: getattr(step, field.name) for field in fields(step)}  # type: ignore[arg-type]
        assert list(record["options"]) == [n for n, v in named.items() if isinstance(v, int | float | str | tuple)]
    text = printed(capsys, "--list")
    assert "# backend, on the text of a card's program\nFuseSteps\n    Joins steps" in text
    assert "DivideWork (cores=32, limit=268431360)\n    Divides" in text


def test_passes_know_the_span_in_force(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSPYRE_CORE_SPAN_MIB", "3")
    assert main(["opt", "--list", "--json"]) == 0
    limits = {row["pass"]: row["options"].get("limit") for row in json.loads(capsys.readouterr().out)}
    assert limits["LimitSpans"] == limits["DivideWork"] == (3 << 20) - 4096


def test_passes_run_in_the_order_given(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rows(printed(capsys, graph, "--pass", "DropDead")) == ["relayout", "add"]
    assert rows(printed(capsys, graph, "--pass", "EliminateCopies")) == ["neg", "add"]
    assert rows(printed(capsys, graph, "--pass=EliminateCopies", "--pass=DropDead")) == ["add"]


def test_without_a_pass_the_whole_pipeline_runs(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lowered = parse_program(printed(capsys, graph, "--verify"))
    assert [op.row for op in lowered.ops] == ["restickify", "add"]
    assert lowered.ops[0].inputs[0].buffer == "y"  # type: ignore[union-attr]
    assert lowered.pool_bytes == 96 * 320 * 2
    assert [dim.split for dim in lowered.ops[1].dims] == [32, 1]


def test_a_pass_takes_options(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = ["--pass=EliminateCopies", "--pass=DropDead", "--pass=ChooseLayouts", "--pass=InsertRelayouts"]
    divided = parse_program(printed(capsys, graph, *before, "--pass=DivideWork:cores=3,limit=1000000"))
    assert [dim.split for dim in divided.ops[1].dims] == [3, 1]


def test_inputs_that_may_be_tiled_anew_are_named_with_plus(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = ["--pass=EliminateCopies", "--pass=DropDead"]
    for movable, wanted in (("", ["relayout", "add"]), ("y", ["add"]), ("x+y", ["add"])):
        chosen = printed(capsys, graph, *before, f"--pass=ChooseLayouts:movable={movable}", "--pass=InsertRelayouts")
        assert rows(chosen) == wanted


def test_every_stage_can_be_printed(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [type(step).__name__ for step in pipeline.passes()]
    text = printed(capsys, graph, "--print-after-all")
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("# after ")] == names
    stages = json.loads(printed(capsys, graph, "--json"))["stages"]
    assert [stage["pass"] for stage in stages] == names
    assert text == "\n".join(f"# after {stage['pass']}\n{stage['text']}" for stage in stages)


def test_a_file_is_written_and_the_standard_input_read(
    graph: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = graph.with_name("out.ir")
    assert printed(capsys, graph, "-o", out) == ""
    monkeypatch.setattr("sys.stdin", io.StringIO(GRAPH))
    assert printed(capsys, "-") == out.read_text()
    assert main(["opt", str(graph), "-o", str(graph.parent)]) == 1
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "FILE is missing; --list shows the passes"),
        (["f", "--pass", "Inline"], "no pass 'Inline'; known are ExpandComposites, "),
        (["f", "--pass", "DropDead:cores=1"], "DropDead takes no options"),
        (["f", "--pass", "DivideWork:lanes=1"], "DivideWork takes cores=..., limit=..."),
        (["f", "--pass", "DivideWork:cores=few"], "cores is int, which 'few' is not"),
    ],
)
def test_a_command_line_that_makes_no_sense_exits_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["opt", *arguments])
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("no program", [], "line 1, 'no program': 'program' should follow"),
        (GRAPH.replace('op "add" add', 'op "add" plus'), ["--verify"], "the op table has no row 'plus'"),
        (GRAPH, ["--pass", "PlaceBuffers"], "PlaceBuffers cannot work on program 'sum': temp 'copy' has no layout yet"),
    ],
)
def test_a_program_with_problems_exits_with_1(
    text: str, arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f.ir").write_text(text)
    assert main(["opt", str(tmp_path / "f.ir"), *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "/nowhere/graph.ir"]) == 1
    assert "cannot read /nowhere/graph.ir as the text of a program" in capsys.readouterr().err


@pytest.fixture
def card_program(tmp_path: Path) -> Path:
    """Three maps, one behind the other."""
    (tmp_path / "card.program").write_text(print_card_program(compile_emitted(samples.pointwise())))
    return tmp_path / "card.program"


def test_programs_of_the_card_have_passes_too(card_program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fused = parse_card_program(printed(capsys, card_program, "--pass", "FuseSteps", "--verify"))
    before = parse_card_program(card_program.read_text())
    assert (len(before.steps), len(fused.steps)) == (3, 1)
    assert fused == FuseSteps().run(before)
    assert parse_card_program(printed(capsys, card_program)) == fused, "all that there are, if none is named"


def test_passes_work_on_programs_with_repeats(card_program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = parse_card_program(card_program.read_text())
    card_program.write_text(print_card_program(replace(before, body=(Repeat(3, before.body),))))
    (repeat,) = parse_card_program(printed(capsys, card_program, "--pass", "FuseSteps", "--verify")).body
    assert isinstance(repeat, Repeat) and repeat.count == 3
    assert repeat.body == FuseSteps().run(before).body


def test_passes_of_the_compiler_take_loops_or_refuse_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loop.ir").write_text(
        'program "p" pool 0\n'
        'buffer "x" input float16 [8, 64] [64, 1] layout [1, 8, 64] [64, 64, 1] SEN169_FP16 STANDARD\n'
        'buffer "y" output float16 [8, 64] [64, 1] layout [1, 8, 64] [64, 64, 1] SEN169_FP16 STANDARD\n'
        "loop 2\n"
        '  op "n" neg\n    dim "m" 4\n    dim "n" 64\n'
        '    read "x" float16 0 [64, 1] advance [256]\n    write "y" float16 0 [64, 1] advance [256]\n'
        "end\n"
    )
    divided = printed(capsys, tmp_path / "loop.ir", "--pass", "DivideWork", "--verify")
    assert 'loop 2\n  op "n" neg\n    dim "m" 4 split 4' in divided
    assert main(["opt", str(tmp_path / "loop.ir"), "--pass", "DropDead"]) == 1
    assert "program 'p' has loops where ops alone are asked for" in capsys.readouterr().err


def test_a_pass_of_the_other_room_is_refused(
    graph: Path, card_program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file, name in ((graph, "FuseSteps"), (card_program, "DropDead")):
        with pytest.raises(SystemExit) as exit_:
            main(["opt", str(file), "--pass", name])
        assert exit_.value.code == 2
        assert f"on which {name} cannot work" in capsys.readouterr().err


def test_a_program_that_no_card_takes_exits_with_1(card_program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card_program.write_text(card_program.read_text().replace('"opcode": "add"', '"opcode": "sqrt"', 1))
    assert main(["opt", str(card_program)]) == 1
    assert "step 0 '0_add': code: instruction 0 (sqrt) takes 1 registers, found 2" in capsys.readouterr().err
