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


def test_an_entry_at_anothers_place_is_a_miss(tmp_path: Path) -> None:
    cache = TextCache(tmp_path, "text")
    cache.keep("one", "the first text")
    cache.keep("two", "the second text")
    one, two = (cache._path(key) for key in ("one", "two"))
    two.write_bytes(one.read_bytes())
    assert cache.find("two") is None
    assert cache.find("one") == "the first text"


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"{}", None], ids=["empty", "no text", "other text", "a folder"])
def test_what_is_none_of_ours_is_a_miss(damage: bytes | None, tmp_path: Path) -> None:
    cache = TextCache(tmp_path, "text")
    cache.keep("key", "a text")
    entry = cache._path("key")
    if damage is None:
        entry.unlink()
        entry.mkdir()
    else:
        entry.write_bytes(damage)
    assert cache.find("key") is None
    cache.keep("key", "a text")
    assert cache.find("key") == (None if damage is None else "a text")
