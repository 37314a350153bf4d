"""Texts are found again as they were; damaged ones are not found; the oldest go first."""

import errno
import os
import resource
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from openspyre.backend.text_cache import TextCache
from openspyre.spec.environment import Settings
from openspyre.spec.errors import CacheWarning, EnvironmentVariableError


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
    with nullcontext() if damage is not None else pytest.warns(CacheWarning, match="Is a directory"):
        cache.keep("key", "a text")
    assert cache.find("key") == (None if damage is None else "a text")


def a_file_in_the_way(room: Path) -> Path:
    (room / "file").write_text("no directory")
    return room / "file"


UNUSABLE: dict[str, Callable[[Path], Path]] = {
    "it is a file": a_file_in_the_way,
    "it would lie in a file": lambda room: a_file_in_the_way(room) / "deep" / "cache",
    "nobody can write there": lambda room: Path("/proc/cache"),
}


@pytest.mark.parametrize("why", UNUSABLE)
def test_a_cache_that_cannot_be_written_is_told_once_and_missed(why: str, tmp_path: Path) -> None:
    settings = Settings.read({"OPENSPYRE_CACHE_DIR": str(UNUSABLE[why](tmp_path))})
    with pytest.warns(CacheWarning, match="cannot be written .* set OPENSPYRE_CACHE_DIR") as told:
        for number in range(3):
            texts = TextCache.of(settings, f"text{why}")
            texts.keep(f"key{number}", "text")
            assert texts.find(f"key{number}") is None and texts.clear() == 0
    assert len(told) == 1


@pytest.fixture
def small_files() -> Iterator[None]:
    """Files end after 4 KiB, as those on a full disk end somewhere."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_a_write_was_cut_short_at_leaves_nothing(texts: TextCache, small_files: None) -> None:
    with pytest.warns(CacheWarning, match="File too large"):
        texts.keep("large", "x" * 10_000)
    assert texts.find("large") is None and list(texts.directory.iterdir()) == []
    texts.keep("small", "x" * 10)
    assert texts.find("small") == "x" * 10


def test_a_full_disk_is_told(texts: TextCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", full)
    with pytest.warns(CacheWarning, match="No space left on device"):
        texts.keep("key", "text")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        texts.keep("key", "text")


def test_a_user_without_a_home_has_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert Settings.read({}).cache_dir.name == f"openspyre-{os.getuid()}"
