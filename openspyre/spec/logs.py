"""Loggers "spyre", "spyre.device", ...: Python's own, silent unless asked.

TORCH_LOGS is the way to ask, and wins over the older variables. torch refuses names it does not know, so whoever loads
us into torch moves our entries from there to OPENSPYRE_LOGS with `split_torch_logs`; child processes inherit both.
`torch_spyre.x` is the documents' later spelling of `spyre.x`, with levels of its own.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from openspyre.spec.environment import Settings
from openspyre.spec.errors import EnvironmentVariableError, InvalidArgument

ROOT = "spyre"
FORMAT = "[%(levelname)s] [%(name)s] %(message)s"
OFF = logging.CRITICAL + 10
LEVELS = {name: getattr(logging, name) for name in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")} | {"OFF": OFF}
_NAME = re.compile(r"spyre(\.\w+)*")
_PACKAGE = "torch_spyre"
_PACKAGE_NAME = re.compile(r"torch_spyre(\.\w+)*")
_PACKAGE_LEVELS = {"+": logging.DEBUG, "": logging.INFO, "-": logging.ERROR}
# Where our loggers are called otherwise than the documents' packages.
_INDUCTOR = (f"{ROOT}.inductor", f"{ROOT}.compiler")
_LOGGERS = {
    f"{_PACKAGE}.inductor": _INDUCTOR,
    f"{_PACKAGE}.inductor.passes": (f"{ROOT}.compiler",),
    f"{_PACKAGE}.runtime": (f"{ROOT}.device",),
}

_passes: frozenset[str] = frozenset()  # of the compiler, whose results are logged, as folded names
followers: list[Callable[[], None]] = []  # called when a level has changed: for those who keep what a logger wants


@dataclass(frozen=True, slots=True)
class LogConfiguration:
    """What is switched on: a level for each logger that has one of its own, and the file, if any."""

    levels: dict[str, str]
    file: Path | None


def split_torch_logs(text: str) -> tuple[str, str]:
    """A TORCH_LOGS value in two: what torch understands, and our entries."""
    ours: list[str] = []
    others: list[str] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name = entry.lstrip("+-").split(":")[0]
        (ours if name.partition(".")[0] in (ROOT, _PACKAGE) else others).append(entry)
    return ",".join(others), ",".join(ours)


def parse_entries(text: str, variable: str = "TORCH_LOGS") -> dict[str, int]:
    """Logger -> level of entries `spyre.x:LEVEL`, `spyre.x` and `+spyre.x` (INFO), `-spyre.x` (off);
    `torch_spyre.x` (INFO), `+torch_spyre.x` (DEBUG), `-torch_spyre.x` (ERROR)."""
    levels: dict[str, int] = {}
    for entry in filter(None, text.split(",")):
        name, colon, level = entry.strip().partition(":")
        sign, name = (name[0], name[1:]) if name[:1] in ("+", "-") else ("", name)
        if _PACKAGE_NAME.fullmatch(name) and not colon:
            levels |= dict.fromkeys(_loggers(name), _PACKAGE_LEVELS[sign])
            continue
        known = not colon or (not sign and level.upper() in LEVELS)
        if not known or not _NAME.fullmatch(name):
            raise EnvironmentVariableError(
                variable,
                entry,
                f"expected spyre[.part]:LEVEL with LEVEL one of {', '.join(LEVELS)}, +spyre[.part], -spyre[.part], "
                "or torch_spyre[.part] with + (DEBUG), - (ERROR) or no sign (INFO)",
            )
        levels[name] = LEVELS[level.upper()] if colon else OFF if sign == "-" else logging.INFO
    return levels


def _loggers(package: str) -> tuple[str, ...]:
    """Our loggers of a package of the documents."""
    return _LOGGERS.get(package, (ROOT + package.removeprefix(_PACKAGE),))


def configure(settings: Settings) -> None:
    """Applies the switches; with none set, nothing is printed and nothing is opened."""
    root = logging.getLogger(ROOT)
    if not root.handlers:
        root.addHandler(logging.NullHandler())  # else Python prints a library's warnings to stderr by itself
    levels: dict[str, int] = {}
    if settings.debug:
        levels[ROOT] = logging.DEBUG
    if settings.inductor_log:
        levels |= dict.fromkeys(_INDUCTOR, LEVELS[settings.inductor_log_level])
    levels |= parse_entries(settings.logs, "OPENSPYRE_LOGS")
    levels |= parse_entries(split_torch_logs(settings.torch_logs)[1])
    for name, level in levels.items():
        _set_level(name, level)
    if settings.log_passes:
        set_log_passes(settings.log_passes)
    if settings.log_file is not None and levels:
        try:
            set_log_file(settings.log_file)
        except OSError as problem:
            accepted = f"the log cannot be written there: {problem.strerror}"
            raise EnvironmentVariableError("SPYRE_LOG_FILE", str(settings.log_file), accepted) from None


def set_log_level(name: str, level: str | int) -> None:
    """Sets one logger's level and makes sure that its messages are seen."""
    value = LEVELS.get(level.upper()) if isinstance(level, str) else level
    if value is None:
        raise InvalidArgument(f"no log level {level!r}; there are {', '.join(LEVELS)}")
    _set_level(name, value)


def enable(name: str = ROOT) -> None:
    """Messages of a logger and its children from INFO up."""
    _set_level(name, logging.INFO)


def disable(name: str = ROOT) -> None:
    _set_level(name, OFF)


def set_log_passes(names: str | Iterable[str]) -> None:
    """What these passes of the compiler return is logged by spyre.compiler at DEBUG: names, in a list or separated by commas, or "all"."""
    global _passes
    _passes = frozenset(map(_folded, names.split(",") if isinstance(names, str) else names)) - {""}


def get_log_passes() -> frozenset[str]:
    return _passes


def logs_pass(name: str) -> bool:
    return bool(_passes) and bool(_passes & {_folded(name), "all", "1"})


def unknown_log_passes(known: Iterable[str]) -> list[str]:
    return sorted(_passes - {"all", "1", *map(_folded, known)})


def _folded(name: str) -> str:
    """`divide_work` is DivideWork."""
    return name.strip().replace("_", "").casefold()


def set_log_file(path: str | Path | None) -> None:
    """Sends the log to a file instead of stderr; None sends it back."""
    handler = logging.StreamHandler(sys.stderr) if path is None else logging.FileHandler(path)
    _replace_handler(handler)


def get_effective_config() -> LogConfiguration:
    loggers = {name: logging.getLogger(name) for name in logging.root.manager.loggerDict if _NAME.fullmatch(name)}
    names = {value: name for name, value in LEVELS.items()}
    levels = {
        name: names.get(logger.level, str(logger.level)) for name, logger in sorted(loggers.items()) if logger.level
    }
    files = [Path(h.baseFilename) for h in logging.getLogger(ROOT).handlers if isinstance(h, logging.FileHandler)]
    return LogConfiguration(levels, files[0] if files else None)


def _set_level(name: str, level: int) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"{name!r} is no logger of ours; those are spyre, spyre.device, spyre.inductor, ...")
    logging.getLogger(name).setLevel(level)
    root = logging.getLogger(ROOT)
    if level < OFF and not any(isinstance(handler, logging.StreamHandler) for handler in root.handlers):
        _replace_handler(logging.StreamHandler(sys.stderr))
    for follow in followers:
        follow()


def _replace_handler(handler: logging.Handler) -> None:
    root = logging.getLogger(ROOT)
    for old in [h for h in root.handlers if isinstance(h, logging.StreamHandler)]:
        root.removeHandler(old)
        if isinstance(old, logging.FileHandler):
            old.close()
    handler.setFormatter(logging.Formatter(FORMAT))
    root.addHandler(handler)
    root.propagate = False  # the application's own handlers would print each message a second time
