import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openspyre.spec import logs
from openspyre.spec.environment import Settings
from openspyre.spec.errors import EnvironmentVariableError, InvalidArgument


@pytest.fixture(autouse=True)
def untouched_loggers() -> Iterator[None]:
    def reset() -> None:
        for name in [n for n in logging.root.manager.loggerDict if n == "spyre" or n.startswith("spyre.")]:
            logger = logging.getLogger(name)
            logger.setLevel(logging.NOTSET)
            for handler in list(logger.handlers):
                logger.removeHandler(handler)
                handler.close()
            logger.propagate = True

    reset()
    yield
    reset()


@pytest.mark.parametrize(
    ("text", "others", "ours"),
    [
        ("+spyre.device", "", "+spyre.device"),
        ("+dynamo, spyre.inductor:DEBUG ,-aot", "+dynamo,-aot", "spyre.inductor:DEBUG"),
        ("spyreccl,torch_spyreccl", "spyreccl,torch_spyreccl", ""),
        ("+torch_spyre,aot,-torch_spyre.runtime", "aot", "+torch_spyre,-torch_spyre.runtime"),
        ("", "", ""),
    ],
)
def test_torch_gets_its_own_entries_and_we_get_ours(text: str, others: str, ours: str) -> None:
    assert logs.split_torch_logs(text) == (others, ours)


def test_entries_name_loggers_and_levels() -> None:
    text = "spyre:WARNING,spyre.inductor.x:debug,+spyre.device,spyre.memory,-spyre.dma"
    assert logs.parse_entries(text) == {
        "spyre": logging.WARNING,
        "spyre.inductor.x": logging.DEBUG,
        "spyre.device": logging.INFO,
        "spyre.memory": logging.INFO,
        "spyre.dma": logs.OFF,
    }


def test_entries_in_the_later_spelling_have_levels_of_their_own() -> None:
    assert logs.parse_entries(
        "torch_spyre,+torch_spyre.runtime,-torch_spyre.inductor,+torch_spyre.inductor.passes"
    ) == {
        "spyre": logging.INFO,
        "spyre.device": logging.DEBUG,
        "spyre.inductor": logging.ERROR,
        "spyre.compiler": logging.DEBUG,
    }
    assert logs.parse_entries("+torch_spyre.inductor.codegen") == {"spyre.inductor.codegen": logging.DEBUG}


def test_those_who_follow_learn_of_a_change() -> None:
    seen: list[int] = []
    logs.followers.append(lambda: seen.append(logging.getLogger("spyre.dma").getEffectiveLevel()))
    try:
        logs.set_log_level("spyre", "DEBUG")
        logs.disable("spyre.dma")
    finally:
        logs.followers.pop()
    assert seen == [logging.DEBUG, logs.OFF]


@pytest.mark.parametrize(
    "entry", ["torch_spyre:DEBUG", "torch_spyre.", "spyre:LOUD", "spyre.:INFO", "+spyre:INFO", "spyre..x", "spyre:"]
)
def test_a_nonsense_entry_is_named(entry: str) -> None:
    with pytest.raises(EnvironmentVariableError, match=r"^TORCH_LOGS=.*expected spyre\[\.part\]:LEVEL"):
        logs.configure(Settings.read({"TORCH_LOGS": f"+dynamo,{entry}"}))


def test_it_is_silent_by_default() -> None:
    program = (
        "import logging\nfrom openspyre.spec import logs\nfrom openspyre.spec.environment import Settings\n"
        "assert not logging.getLogger('spyre').handlers\nlogs.configure(Settings())\n"
        "logging.getLogger('spyre.device').error('nobody asked')"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == run.stderr == ""


def test_messages_have_the_documented_form(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Settings.read({"TORCH_LOGS": "spyre.device:INFO"}))
    logging.getLogger("spyre.device.memory").info("allocated %d bytes", 128)
    logging.getLogger("spyre.device").debug("too fine")
    assert capsys.readouterr().err == "[INFO] [spyre.device.memory] allocated 128 bytes\n"


def test_torch_logs_wins_over_the_older_names() -> None:
    environ = {"SPYRE_INDUCTOR_LOG": "1", "SPYRE_INDUCTOR_LOG_LEVEL": "WARNING", "TORCH_SPYRE_DEBUG": "1"}
    logs.configure(Settings.read(environ))
    assert logs.get_effective_config().levels == {
        "spyre": "DEBUG",
        "spyre.compiler": "WARNING",
        "spyre.inductor": "WARNING",
    }
    logs.configure(Settings.read(environ | {"TORCH_LOGS": "-spyre,spyre.inductor:ERROR"}))
    assert logs.get_effective_config().levels == {
        "spyre": "OFF",
        "spyre.compiler": "WARNING",
        "spyre.inductor": "ERROR",
    }


def test_the_log_can_go_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spyre.log"
    logs.configure(Settings.read({"SPYRE_LOG_FILE": str(path)}))
    assert not path.exists()
    logs.configure(Settings.read({"SPYRE_LOG_FILE": str(path), "TORCH_LOGS": "+spyre"}))
    logging.getLogger("spyre.stream").warning("late")
    assert path.read_text() == "[WARNING] [spyre.stream] late\n"
    assert logs.get_effective_config().file == path
    logs.set_log_file(None)
    logging.getLogger("spyre").info("back")
    assert capsys.readouterr().err == "[INFO] [spyre] back\n"


def test_a_file_that_cannot_be_written_is_told_with_its_variable(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "spyre.log"
    words = f"SPYRE_LOG_FILE='{path}' is not valid: the log cannot be written there: No such file or directory"
    with pytest.raises(EnvironmentVariableError, match=re.escape(words)):
        logs.configure(Settings.read({"SPYRE_LOG_FILE": str(path), "TORCH_LOGS": "+spyre"}))


def test_levels_are_switched_at_run_time(capsys: pytest.CaptureFixture[str]) -> None:
    logs.enable("spyre.dma")
    logging.getLogger("spyre.dma").info("on")
    logs.disable("spyre.dma")
    logging.getLogger("spyre.dma").critical("off")
    logs.set_log_level("spyre.dma", "debug")
    logging.getLogger("spyre.dma").debug("fine")
    assert capsys.readouterr().err == "[INFO] [spyre.dma] on\n[DEBUG] [spyre.dma] fine\n"
    with pytest.raises(InvalidArgument, match="no log level 'LOUD'"):
        logs.set_log_level("spyre", "LOUD")
    with pytest.raises(InvalidArgument, match="no logger of ours"):
        logs.enable("torch")
