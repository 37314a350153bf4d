import re
import stat
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

import openspyre
from openspyre.spec.environment import (
    Settings,
    make_private_directory,
    switch_of,
    switches_in_force,
)
from openspyre.spec.errors import EnvironmentVariableError, InvalidDevice
from openspyre.spec.retired import RETIRED, notes


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = Settings.read({})
    assert settings == Settings(cache_dir=settings.cache_dir)
    assert (settings.cards, settings.threads, settings.sencores) == (1, 0, 32)
    assert settings.card_memory_bytes == 112 << 30
    assert settings.visible_cards() == (0,)
    assert settings.default_card == 0
    assert Settings.read({"OPENSPYRE_CARDS": "", "SENCORES": "  "}) == settings


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().cards = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("OPENSPYRE_CARDS", "8", "cards", 8),
        ("OPENSPYRE_CARDS", "0", "cards", 0),
        ("OPENSPYRE_THREADS", " 4 ", "threads", 4),
        ("OPENSPYRE_CARD_MEMORY_GIB", "0.5", "card_memory_bytes", 1 << 29),
        ("OPENSPYRE_CACHE_WATERMARK", "1", "cache_watermark", 1.0),
        ("OPENSPYRE_SANITIZE", "yes", "sanitize", True),
        ("OPENSPYRE_CACHE_DIR", "/somewhere/else", "cache_dir", Path("/somewhere/else")),
        ("XDG_CACHE_HOME", "/cache", "cache_dir", Path("/cache/openspyre")),
        ("AIU_WORLD_SIZE", "3", "aiu_world_size", 3),
        ("FLEX_DEVICE", "pf", "flex_device", "PF"),
        ("TORCH_SPYRE_DOWNCAST_WARN", "off", "downcast_warning", False),
        ("TORCH_SPYRE_DOWNCAST_WARN", "TRUE", "downcast_warning", True),
        ("TORCH_SPYRE_FALLBACK", "Error", "fallback", "error"),
        ("SENCORES", "32", "sencores", 32),
        ("SPYRE_INDUCTOR_LOG_LEVEL", "debug", "inductor_log_level", "DEBUG"),
        ("LOCAL_RANK", "-1", "local_rank", -1),
    ],
)
def test_a_sensible_value_is_taken(variable: str, text: str, field: str, value: object) -> None:
    assert getattr(Settings.read({variable: text}), field) == value


@pytest.mark.parametrize(
    ("variable", "text", "accepted"),
    [
        ("OPENSPYRE_CARDS", "9", "a whole number from 0 to 8"),
        ("OPENSPYRE_CARDS", "two", "a whole number from 0 to 8"),
        ("OPENSPYRE_THREADS", "-1", "from 0 to 1024"),
        ("OPENSPYRE_CARD_MEMORY_GIB", "nan", "a number from"),
        ("OPENSPYRE_CARD_MEMORY_GIB", "0", "a number from"),
        ("OPENSPYRE_HOST_RESERVE_MIB", "1.5", "a whole number"),
        ("OPENSPYRE_CACHE_WATERMARK", "50%", "from 0 to 1"),
        ("OPENSPYRE_SANITIZE", "maybe", "1 or 0"),
        ("AIU_WORLD_SIZE", "0", "from 1 up"),
        ("SPYRE_DEVICES", "0,,1", "separated by commas"),
        ("SPYRE_DEVICES", "0,-1", "separated by commas"),
        ("FLEX_DEVICE", "GPU", "PF, VF, MOCK"),
        ("FLEX_DEVICE", "MOCK", "also needs AIU_WORLD_SIZE"),
        ("LOCAL_RANK", "-2", "from -1 up"),
        ("TORCH_SPYRE_DEBUG", "verbose", "1 or 0"),
        ("TORCH_SPYRE_DOWNCAST_WARN", "2", "1 or 0"),
        ("TORCH_SPYRE_FALLBACK", "cpu", "warn, error, silent"),
        ("SENCORES", "0", "from 1 to 32"),
        ("SENCORES", "33", "from 1 to 32"),
        ("SPYRE_INDUCTOR_LOG_LEVEL", "LOUD", "DEBUG, INFO"),
    ],
)
def test_nonsense_names_variable_value_and_what_is_accepted(variable: str, text: str, accepted: str) -> None:
    with pytest.raises(EnvironmentVariableError) as caught:
        Settings.read({variable: text})
    assert f"{variable}={text!r}" in str(caught.value)
    assert accepted in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "visible"),
    [
        ({"OPENSPYRE_CARDS": "4"}, (0, 1, 2, 3)),
        ({"OPENSPYRE_CARDS": "4", "SPYRE_DEVICES": "2,0,2"}, (2, 0)),
        ({"OPENSPYRE_CARDS": "4", "AIU_WORLD_SIZE": "3"}, (0, 1, 2)),
        ({"OPENSPYRE_CARDS": "4", "AIU_WORLD_SIZE": "9"}, (0, 1, 2, 3)),
        ({"OPENSPYRE_CARDS": "4", "SPYRE_DEVICES": "3,1,0", "AIU_WORLD_SIZE": "2"}, (3, 1)),
        ({"OPENSPYRE_CARDS": "2", "FLEX_DEVICE": "MOCK", "AIU_WORLD_SIZE": "1"}, (0,)),
        ({"FLEX_DEVICE": "MOCK", "AIU_WORLD_SIZE": "3"}, (0, 1, 2)),
        ({"FLEX_DEVICE": "MOCK", "AIU_WORLD_SIZE": "3", "SPYRE_DEVICES": "2"}, (2,)),
        ({"OPENSPYRE_CARDS": "2", "SPYRE_DEVICES": "5,1,2"}, (1,)),
        ({"SPYRE_DEVICES": "1"}, ()),
        ({"OPENSPYRE_CARDS": "0"}, ()),
    ],
)
def test_visible_cards_follow_the_precedence(environ: dict[str, str], visible: tuple[int, ...]) -> None:
    assert Settings.read(environ).visible_cards() == visible


def test_cards_that_are_named_and_missing_are_told() -> None:
    assert Settings.read({"OPENSPYRE_CARDS": "2", "SPYRE_DEVICES": "5,1,2"}).missing_cards() == (5, 2)
    assert Settings.read({"OPENSPYRE_CARDS": "2"}).missing_cards() == ()
    with pytest.raises(EnvironmentVariableError, match=r"AIU_WORLD_SIZE='9'.*shows 1 to 8 cards"):
        Settings.read({"FLEX_DEVICE": "MOCK", "AIU_WORLD_SIZE": "9"})


def test_local_rank_is_the_default_card_and_complains_only_when_used() -> None:
    assert Settings.read({"OPENSPYRE_CARDS": "2", "LOCAL_RANK": "1"}).default_card == 1
    too_far = Settings.read({"LOCAL_RANK": "1"})
    with pytest.raises(InvalidDevice, match=r"LOCAL_RANK=1 asks for card 1.*sees 1 .*OPENSPYRE_CARDS=2"):
        _ = too_far.default_card
    assert Settings.read({"OPENSPYRE_CARDS": "0", "LOCAL_RANK": "3"}).default_card == 0


def test_the_table_is_complete_and_speaks() -> None:
    rows = [switch_of(field) for field in fields(Settings)]
    assert len({row.variable for row in rows}) == len(rows)
    assert all(row.meaning and row.kind.accepted for row in rows)
    assert not {row.variable for row in rows} & {row.variable for row in RETIRED}


def test_a_switch_that_is_said_to_have_an_effect_is_read_by_somebody() -> None:
    top = Path(openspyre.__file__).parent
    sources = [path for room in (top, top.parent / "torch_spyre") for path in room.rglob("*.py")]
    text = "\n".join(path.read_text() for path in sources if not path.name.startswith("test_"))
    read = {field.name for field in fields(Settings) if re.search(rf"(settings|self|\))\.{field.name}\b", text)}
    assert {field.name for field in fields(Settings)} <= read


def test_variables_that_are_no_switches_are_told_with_the_reason() -> None:
    given = {
        "UNROLL_LOOPS": "1",
        "BUNDLE_SYMBOLIC_ARGS": "1",
        "DUMP_SPYRE_CODE": " ",
        "DTLOG_LEVEL": "info",
        "SENCORES": "4",
    }
    assert list(notes(given)) == ["UNROLL_LOOPS=1: it has no effect: loops are never unrolled"]
    assert list(notes({"SPYRE_VISIBLE_DEVICES": "0"})) == [
        "SPYRE_VISIBLE_DEVICES=0: it has no effect: it is called SPYRE_DEVICES"
    ]


def test_a_report_knows_where_a_value_came_from() -> None:
    report = {r.switch.variable: r for r in switches_in_force({"SENCORES": "4", "LOCAL_RANK": ""})}
    assert (report["SENCORES"].value, report["SENCORES"].from_environment) == (4, True)
    assert (report["LOCAL_RANK"].value, report["LOCAL_RANK"].from_environment) == (-1, False)


def test_the_cache_directory_is_private(tmp_path: Path) -> None:
    made = make_private_directory(tmp_path / "a" / "openspyre")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert make_private_directory(made) == made
    made.chmod(0o777)
    with pytest.raises(EnvironmentVariableError, match="nobody else may write"):
        make_private_directory(made)
