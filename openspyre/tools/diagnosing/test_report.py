import json
import resource
import zipfile
from pathlib import Path

import pytest

from openspyre.tools.command import main
from openspyre.tools.diagnosing import archive
from openspyre.tools.diagnosing.archive import write_archive
from openspyre.tools.diagnosing.discretion import ALLOWED, HIDDEN, Discretion

SECRET = "correct-horse-battery"  # looks like nothing: its name alone gives it away


def contents(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as found:
        assert found.testzip() is None
        return {name: found.read(name).decode() for name in found.namelist()}


def test_the_doctor_writes_one_archive_for_its_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENSPYRE_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "report.zip"
    assert main(["doctor", "--report", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert path.stat().st_mode & 0o77 == 0
    found = contents(path)
    assert json.loads(found["doctor.json"])["self_test"]["passed"] is True
    assert {"environment.json", "packages.json", "errors.json", "README.txt"} <= found.keys()
    assert {p.name for p in tmp_path.iterdir()} <= {"report.zip", "cache"}


def test_no_secret_of_the_environment_and_no_directory_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "of a customer" / "cache"
    (inside / "graphs").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("MY_TOKEN", SECRET)
    monkeypatch.setenv("SOMETHING_ELSE", "Zx81bKq09LmNv77TgHy3")
    monkeypatch.setenv("OPENSPYRE_CACHE_DIR", str(inside))
    monkeypatch.setenv("SPYRE_LOG_PASSES", f"all {SECRET}")
    told = {
        "facts": {"relayouts": [["a", "b", 1, "why", f'File "/srv/{SECRET}/my model.py", line 3, in f']]},
        "tensors": [["float16", [1], [1], [], "VALUES"]],
        "results": ["Zx81bKq09LmNv77TgHy3", "https://me:hunter22@example.org/x", "hf_abcdefghijklmnop"],
    }
    (inside / "graphs" / "0.graph").write_text(f"digest\n{json.dumps(told)}\nprogram {{}}\n")
    main(["doctor", "--report", str(tmp_path / "report.zip")])
    found = contents(tmp_path / "report.zip")
    assert "my model.py" in found["compiled/0_facts.json"]
    whole = "\n".join([*found, *found.values()])
    for hidden in (SECRET, "of a customer", "VALUES", "Zx81bKq09LmNv77TgHy3", "hunter22", "hf_abcdefghijklmnop"):
        assert hidden not in whole
    assert HIDDEN in whole
    assert str(tmp_path) not in whole
    assert set(json.loads(found["environment.json"])) <= ALLOWED
    assert "MY_TOKEN" not in whole


def test_words_that_are_no_secrets_stay() -> None:
    discretion = Discretion.of({"SHELL_KEY": "abc", "EDITOR": "vim", "LANG": "C.UTF-8", "SENCORES": "32"})
    text = 'layer 1/2, aten.add.Tensor, a/b, 3 / 4, float16/float32, "d0 (128)", __/__ and x = y / z'
    assert discretion.text(text) == text
    assert discretion.text('File "/home/me/a b/net.py", line 5') == 'File ".../net.py", line 5'
    assert discretion.text("at /home/me/x/net.py:12 in f, ~/y/z.npy") == "at .../net.py:12 in f, .../z.npy"


def test_a_full_disk_or_a_wrong_place_is_told_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = tmp_path / "report.zip"
    old.write_text("an older one")
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        assert main(["doctor", "--report", str(old)]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot write the report" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["an older one"]
    assert main(["doctor", "--report", str(tmp_path)]) == 1
    assert "is a directory" in capsys.readouterr().err
    assert main(["doctor", "--report", str(tmp_path / "nowhere" / "report.zip")]) == 1


def test_too_much_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_LETTERS", 10)
    found = contents(write_archive(tmp_path / "r.zip", {"a": "1234567", "b": "1234567", "c": "123"}))
    assert found.keys() == {"a", "c", "README.txt"}
    assert "too much: b" in found["README.txt"]


def test_a_report_is_written_where_a_switch_makes_no_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSPYRE_CARDS", "many")
    assert main(["doctor", "--report", str(tmp_path / "r.zip")]) == 0
    assert "OPENSPYRE_CARDS='many' is not valid" in contents(tmp_path / "r.zip")["doctor.json"]


def test_launches_that_failed_are_told_without_their_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = tmp_path / "saved" / "launch_00000"
    launch.mkdir(parents=True)
    (launch / "launch.json").write_text('{"site": "/home/me/net.py:3"}')
    (launch / "buffer_0.npy").write_bytes(b"BYTES")
    monkeypatch.setenv("OPENSPYRE_SAVE_FAILED", str(tmp_path / "saved"))
    main(["doctor", "--report", str(tmp_path / "r.zip")])
    found = contents(tmp_path / "r.zip")
    assert found["failed/launch_00000/launch.json"] == '{"site": ".../net.py:3"}'
    assert not any("buffer" in name for name in found)
