"""`openspyre trace`, and aiu-trace-analyzer on what it writes: the field's own tool is the judge."""

import csv
import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from openspyre.tools.command import main
from openspyre.tools.tracing.reading import read_trace
from openspyre.tools.tracing.summary import summarise

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def trace(traced, block, tmp_path):
    model, compiled, x = block

    def work():
        with torch.no_grad():
            for _ in range(3):
                compiled(x.to("spyre")).cpu()
            model(x.to("spyre")).cpu()

    traced(work)
    return tmp_path / "trace.json"


def test_a_trace_is_told_by_launch_and_step(trace, capsys):
    assert main(["trace", str(trace)]) == 0
    told = capsys.readouterr().out
    assert "batchmatmul" in told
    assert "conftest.py:" in told
    assert "a real card would take" in told
    assert "gap" in told
    assert main(["trace", str(trace), "--json", "--top", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["steps"]) == 3
    assert sum(line["calls"] for line in found["launches"]) <= 3 + 4
    events = json.loads(trace.read_text())["traceEvents"]
    launched = sum(e["dur"] for e in events if e.get("cat") == "kernel")
    assert found["launches_us"] == pytest.approx(launched, rel=0.01)  # one stream: nothing overlaps
    assert found["busy_us"] == pytest.approx(found["launches_us"] + found["copies_us"] - found["overlap_us"], rel=1e-6)
    assert found["copied_bytes"] == 8 * 64 * 256 * 2


def test_packed_traces_are_read(trace):
    packed = trace.with_suffix(".json.gz")
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    assert summarise(read_trace(packed)).launches == summarise(read_trace(trace)).launches


def test_a_picture_draws_every_row_and_what_fits_with_its_name(trace, tmp_path, capsys):
    drawn = tmp_path / "trace.svg"
    assert main(["trace", str(trace), "--picture", str(drawn)]) == 0
    assert str(drawn) in capsys.readouterr().out
    root = ElementTree.parse(drawn).getroot()
    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for row in ("card 0, stream 0", "card 0, stream 0: steps", "card 0 (predicted)"):
        assert row in words
    width = float(root.get("width"))
    bars = [rect for rect in root.iter("{http://www.w3.org/2000/svg}rect") if rect.get("height") == "24"]
    assert all(float(bar.get("width")) > 0 and float(bar.get("x")) + float(bar.get("width")) < width for bar in bars)
    told = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(told) == len(bars)
    events = json.loads(trace.read_text())["traceEvents"]
    of_card = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy") and e.get("ph") == "X"]
    apart = sum(1 for one in told if one.startswith(tuple({e["name"] for e in of_card})))
    assert 3 <= apart <= len(of_card)  # three launches are long; what is short stands together


def test_a_picture_that_cannot_be_made_is_refused(trace, tmp_path, capsys):
    assert main(["trace", str(trace), "--picture", str(tmp_path / "none" / "x.svg")]) == 1
    assert "cannot be written" in capsys.readouterr().err
    trace.write_text("[]")
    assert main(["trace", str(trace), "--picture", str(tmp_path / "x.svg")]) == 1
    assert "nothing to draw" in capsys.readouterr().err


@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
def test_a_cut_off_trace_is_refused_with_what_happened(trace, share, capsys):
    raw = trace.read_bytes()
    trace.write_bytes(raw[: int(len(raw) * share)])
    assert main(["trace", str(trace)]) == 1
    told = capsys.readouterr().err
    assert str(trace) in told
    assert "ends in the middle" in told or "no Chrome trace" in told
    packed = trace.with_suffix(".gz")
    packed.write_bytes(gzip.compress(raw)[:-200])
    assert main(["trace", str(packed)]) == 1
    assert "not whole" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"traceEvents": 3}', "no json", '[{"ph": "X", "pid": 1}]', "\x00\xff"]
)
def test_what_is_no_trace_is_refused_or_told_to_be_empty(tmp_path, content, capsys):
    path = tmp_path / "x.json"
    path.write_bytes(content.encode("latin-1"))
    code = main(["trace", str(path)])
    told = capsys.readouterr()
    assert (
        (code, "no event of the card" in told.out) == (0, True)
        if content == "[]"
        else (code, str(path) in told.err) == (1, True)
    )


def test_a_file_that_is_not_there(tmp_path, capsys):
    assert main(["trace", str(tmp_path / "none.json")]) == 1
    assert "No such file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["trace", "x.json", "--top", "0"])
    assert "1 or more" in capsys.readouterr().err


def test_the_fields_analyser_reads_the_trace_of_a_real_card(trace, tmp_path, capsys):
    """Return code 0, summaries with every kernel, categories, and the arrays' use as the clock has it."""
    analyser = Path(sys.executable).parent / "acelyzer"
    if not analyser.exists():
        pytest.skip("aiu-trace-analyzer is not installed: pip install -e '.[test]'")
    directory = tmp_path / "card"
    assert main(["trace", str(trace), "--json", "--card", str(directory)]) == 0
    found = json.loads(capsys.readouterr().out)
    command = found["card"]["acelyzer"].split()
    assert command[0] == "acelyzer"
    done = subprocess.run([str(analyser), *command[1:]], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "overlap" not in done.stdout + done.stderr
    with (directory / "analysed_categories.csv").open() as file:
        categories = {row["Category"]: row for row in csv.DictReader(file)}
    assert float(categories["Total"]["PT_Util"]) == pytest.approx(found["array_use"], rel=0.01, abs=1e-4)
    assert float(categories["Total"]["Kernel_Time"]) == pytest.approx(found["predicted_us"], rel=0.01)
    assert float(categories["batchmatmul"]["PT_Util"]) > 0
    kernels = {path.name for path in (directory / "inductor-spyre").iterdir()}
    summary = (directory / "analysed_summary.csv").read_text().splitlines()
    assert len(summary) - 1 == len(kernels)
    plain = subprocess.run(
        [str(analyser), "-i", str(trace), "-o", str(tmp_path / "plain.json")],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert plain.returncode == 0, plain.stderr  # as torch.profiler wrote it
    checked = subprocess.run(
        [str(analyser), "-V", "-i", str(directory / "trace.json"), "-o", str(tmp_path / "v.txt")],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_trace_without_predicted_times_says_what_to_do(traced, block, tmp_path, capsys):
    import torch_spyre

    _, compiled, x = block
    with torch_spyre.profiler.configure(predicted=False):
        traced(lambda: compiled(x.to("spyre")))
    assert main(["trace", str(tmp_path / "trace.json"), "--card", str(tmp_path / "card")]) == 1
    assert "configure(predicted=True)" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "card", ignore_errors=True)
