"""The examples with real models, run as a user runs them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .packages import MINILM, SMOLLM2, Package, Unavailable

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


def needs(package: Package, *libraries: str) -> None:
    for library in libraries:
        pytest.importorskip(library, reason="pip install 'openspyre[models]' for the tests of whole models")
    try:
        package.folder()
    except Unavailable as problem:
        pytest.skip(str(problem))


def test_the_chat_answers_and_tells_how_fast() -> None:
    needs(SMOLLM2, "transformers", "gguf")
    done = run("examples/chat.py", "What is the capital of France?", "--tokens", "12")
    assert done.returncode == 0, done.stderr
    assert "The capital of France is Paris." in done.stdout
    assert re.search(r"then \d+\.\d tokens/s; on a card, predicted: \d+ tokens/s", done.stdout)


def test_sentences_that_belong_together_are_found() -> None:
    needs(MINILM, "sentence_transformers")
    done = run("examples/embed.py")
    assert done.returncode == 0, done.stderr
    assert "A man is eating food.  <->  Someone is having a meal." in done.stdout
    found = re.search(r"cosine to float32 on the CPU: (\d\.\d+)", done.stdout)
    assert found and float(found[1]) >= 0.9995
    alone = run("examples/embed.py", "one")
    assert alone.returncode == 2 and "two sentences" in alone.stderr


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("import torch\ndef build():\n    return torch.nn.Linear(64, 64), (torch.randn(8, 64),)\n")
    done = run("examples/your_model.py", f"{mine}:build", "--out", str(tmp_path / "pages"))
    assert done.returncode == 0, done.stderr
    assert "operators that ran on the CPU: none" in done.stdout
    assert all((tmp_path / "pages" / name).is_file() for name in ("errors.html", "time.html"))
    for place, words in (("mine.py", "no file.py:function"), (f"{mine}:other", "no function 'other'")):
        wrong = run("examples/your_model.py", place)
        assert wrong.returncode == 1 and words in wrong.stderr
