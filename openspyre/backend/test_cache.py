"""Programs are found again by content; a damaged entry is compiled anew and replaced."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz import samples
from openspyre.backend import FuseSteps, cache, compile_bundle
from openspyre.backend.cache import ProgramCache
from openspyre.spec.environment import Settings
from openspyre.spec.errors import CacheWarning, EnvironmentVariableError


@pytest.fixture
def programs(tmp_path: Path) -> ProgramCache:
    return ProgramCache.of(Settings.read({"OPENSPYRE_CACHE_DIR": str(tmp_path / "cache")}))


def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_again(bundle: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(cache, "compile_bundle", compile_again)


def test_the_second_time_nothing_is_compiled(programs: ProgramCache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = [programs.compiled(bundle) for bundle in samples.samples()]
    forbid_compiling(monkeypatch)
    assert [programs.compiled(bundle) for bundle in samples.samples()] == first


def test_another_content_is_another_entry(programs: ProgramCache) -> None:
    bundle = samples.matmul()
    programs.compiled(bundle)
    programs.compiled(replace(bundle, name="other"))
    assert len(list(programs.texts.directory.iterdir())) == 2
    assert programs.clear() == 2
    assert list(programs.texts.directory.iterdir()) == []


def test_another_compiler_is_another_entry(programs: ProgramCache, monkeypatch: pytest.MonkeyPatch) -> None:
    programs.compiled(samples.matmul())
    monkeypatch.setattr(cache, "compiler_hash", lambda: "other sources")
    programs.compiled(samples.matmul())
    assert len(list(programs.texts.directory.iterdir())) == 2


@pytest.mark.parametrize("damage", [b"", b"program", b"\xff\xfe", b"step", b'program {"name": "x", "symbols": [1'])
def test_a_damaged_entry_is_replaced(damage: bytes, programs: ProgramCache) -> None:
    bundle = samples.pointwise()
    expected = programs.compiled(bundle)
    (entry,) = programs.texts.directory.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage)
    assert programs.compiled(bundle) == expected == FuseSteps().run(compile_bundle(bundle))
    assert entry.read_bytes() == whole


def test_the_cache_is_private(programs: ProgramCache, tmp_path: Path) -> None:
    programs.compiled(samples.matmul())
    (entry,) = programs.texts.directory.iterdir()
    assert stat.S_IMODE(programs.texts.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(EnvironmentVariableError, match="nobody else may write"):
        ProgramCache.of(Settings.read({"OPENSPYRE_CACHE_DIR": str(tmp_path / "open")}))


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    bundle, programs = samples.matmul(), ProgramCache.of(Settings.read({"OPENSPYRE_CACHE_DIR": str(tmp_path / "file")}))
    with pytest.warns(CacheWarning, match="Not a directory"):
        assert programs.compiled(bundle) == FuseSteps().run(compile_bundle(bundle))
