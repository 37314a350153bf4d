"""Texts on disk, found by key: private to the user, written whole or not at all, bounded. A damaged entry is a miss."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from openspyre.spec.environment import Settings, make_private_directory
from openspyre.spec.errors import CacheWarning

LIMIT_BYTES = 1 << 30
_KEEPS_BETWEEN_LOOKS = 64
_keeps = 0
_told: set[Path] = set()


@dataclass(frozen=True, slots=True)
class TextCache:
    """A directory of texts. Beyond `limit_bytes`, those not used for longest go."""

    directory: Path
    suffix: str
    limit_bytes: int = LIMIT_BYTES

    @classmethod
    def of(cls, settings: Settings, suffix: str) -> TextCache:
        """A directory of its own in the user's cache; an error that names OPENSPYRE_CACHE_DIR if others may write there."""
        with suppress(OSError):  # whoever keeps something there is told
            make_private_directory(settings.cache_dir)
        return cls(settings.cache_dir / f"{suffix}s", suffix)

    def find(self, key: str) -> str | None:
        path = self._path(key)
        try:
            head, _, text = path.read_text(encoding="utf-8").partition("\n")
            if head != _digest(key, text):
                return None
            os.utime(path)
        except (OSError, UnicodeDecodeError):
            return None
        return text

    def keep(self, key: str, text: str) -> None:
        """A cache that cannot be written, or a disk that is full, is no reason to fail: it is told once."""
        global _keeps
        try:
            make_private_directory(self.directory)
            self._write(self._path(key), f"{_digest(key, text)}\n{text}")
            if _keeps % _KEEPS_BETWEEN_LOOKS == 0:
                self.forget_oldest()
            _keeps += 1
        except OSError as error:
            _tell_once(self.directory, error.strerror or str(error))

    def _write(self, path: Path, text: str) -> None:
        """Whole or not at all, and nothing stays of what was cut short."""
        file = tempfile.NamedTemporaryFile("w", dir=self.directory, delete=False, encoding="utf-8")  # noqa: SIM115
        try:
            with file:
                file.write(text)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise

    def clear(self) -> int:
        """Removes every entry; how many there were."""
        entries = list(self.directory.glob(f"*.{self.suffix}"))
        for entry in entries:
            entry.unlink(missing_ok=True)
        return len(entries)

    def forget_oldest(self) -> None:
        """Down to the limit; another process may do the same at the same time."""
        entries = sorted(((status.st_mtime_ns, status.st_size, path) for path, status in self._entries()), reverse=True)
        total = 0
        for _, size, path in entries:
            total += size
            if total > self.limit_bytes:
                path.unlink(missing_ok=True)

    def _entries(self) -> list[tuple[Path, os.stat_result]]:
        found = []
        for path in self.directory.glob(f"*.{self.suffix}"):
            try:
                found.append((path, path.stat()))
            except OSError:
                continue
        return found

    def _path(self, key: str) -> Path:
        return self.directory / f"{hashlib.sha256(key.encode()).hexdigest()}.{self.suffix}"


def _tell_once(directory: Path, why: str) -> None:
    if directory in _told:
        return
    _told.add(directory)
    warnings.warn(
        f"the cache {directory} cannot be written ({why}), so programs are compiled anew in every process; "
        "set OPENSPYRE_CACHE_DIR to a directory of yours with room in it",
        CacheWarning,
        stacklevel=3,
    )


def _digest(key: str, text: str) -> str:
    """Of the key as well: an entry that was copied to another's place is damaged, too."""
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()
