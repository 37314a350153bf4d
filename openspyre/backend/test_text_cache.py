"""Texts are found again as they were; damaged ones are not found; the oldest go first."""

import os
from pathlib import Path

import pytest

from openspyre.backend.text_cache import TextCache
from openspyre.spec.environment import Settings
from openspyre.spec.errors import EnvironmentVariableError


@pytest.fixture
def texts(tmp_path: Path) -> TextCache:
    return TextCache.of(Settings.read({"OPENSPYRE_CACHE_DIR": str(tmp_path / "cache")}), "text")


@pytest.mark.parametrize("text", ["", "one line", "two\nlines\n", "ümlaut \u2028"])
def test_a_text_is_found_as_it_was(texts: TextCache, text: str) -> None:
    assert texts.find("key") is None
    texts.keep("key", text)
    texts.keep("other", "another text")
    assert texts.find("key") == text
    assert texts.clear() == 2
    assert texts.find("key") is None


def test_any_damaged_byte_is_a_miss(texts: TextCache) -> None:
    texts.keep("key", "a text of some length")
    (entry,) = texts.directory.iterdir()
    whole = entry.read_bytes()
    for place in range(len(whole)):
        entry.write_bytes(whole[:place] + bytes([whole[place] ^ 0x81]) + whole[place + 1 :])
        assert texts.find("key") is None, place
        entry.write_bytes(whole[:place])
        assert texts.find("key") is None, place
    entry.write_bytes(whole)
    assert texts.find("key") == "a text of some length"


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    texts = TextCache(tmp_path / "texts", "text", limit_bytes=1000)
    for age, key in ((300, "old"), (200, "used"), (100, "new")):
        texts.keep(key, "x" * 300)
        path = max(texts.directory.iterdir(), key=lambda entry: entry.stat().st_mtime_ns)
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    assert texts.find("old") is not None  # is the newest by this
    texts.forget_oldest()
    assert texts.find("used") is None
    assert texts.find("old") is not None and texts.find("new") is not None


def test_a_directory_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(EnvironmentVariableError, match="nobody else may write"):
        TextCache.of(Settings.read({"OPENSPYRE_CACHE_DIR": str(tmp_path / "open")}), "text")
