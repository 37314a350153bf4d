"""The build shows how far it is, and what went wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

INSTALL = Path(__file__).parents[1] / "csrc" / "install.py"


def _run(script: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    copy = tmp_path / "csrc" / "install.py"  # its log lies beside it, not in ours
    copy.parent.mkdir()
    copy.write_text(INSTALL.read_text())
    (tmp_path / "openspyre").symlink_to(INSTALL.parents[1] / "openspyre")
    command = [sys.executable, str(copy), "building", sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_build_that_fails_shows_its_end_and_where_the_rest_is(tmp_path: Path) -> None:
    done = _run("print('[1/2] Building CXX'); print('error: no such thing'); raise SystemExit(3)", tmp_path)
    assert done.returncode == 3
    assert "error: no such thing" in done.stderr and str(tmp_path / "build" / "install.log") in done.stderr
    assert "[1/2]" in (tmp_path / "build" / "install.log").read_text()


def test_a_short_build_says_nothing(tmp_path: Path) -> None:
    done = _run("print('[1/2] Building CXX')", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("line", "deed"),
    [
        ("  [12/143] Building CXX object csrc/card/x.o", "12 of 143 files"),
        ("Collecting torch==2.13.0", "collecting torch==2.13.0"),
        ("  Downloading https://host/torch-2.13.0.whl (180 MB)", "downloading torch-2.13.0.whl"),
        ("Installing collected packages: mpmath, torch", "installing collected packages mpmath"),
        ("  Running command", None),
    ],
)
def test_lines_of_pip_and_ninja_are_stages(line: str, deed: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(INSTALL.parent))
    import install

    assert install.deed_of(line) == deed
