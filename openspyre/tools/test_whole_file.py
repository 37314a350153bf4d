"""A file that is written whole keeps what stands in its place until then, and what is no file stays what it is."""

import os
import threading
from pathlib import Path

import pytest

from openspyre.tools.whole_file import whole_file


def test_a_file_takes_its_place_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"before")
    with pytest.raises(KeyError), whole_file(path) as file:
        file.write(b"half")
        raise KeyError
    assert path.read_bytes() == b"before"
    with whole_file(path) as file:
        file.write(b"after")
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with whole_file(pipe) as file:
        file.write(b"through")
    reader.join()
    assert read == [b"through"]
    assert pipe.is_fifo()


def test_a_pipe_without_a_path_is_reached_by_its_number() -> None:
    reading, writing = os.pipe()
    with whole_file(f"/dev/fd/{writing}") as file:
        file.write(b"through")
    os.close(writing)
    assert os.read(reading, 100) == b"through"
    os.close(reading)


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with whole_file(tmp_path / "link") as file:
        file.write(b"there")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"there"


def test_others_read_it_as_the_umask_says_and_never_what_is_private(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        for private in (False, True):
            with whole_file(tmp_path / str(private), private=private):
                pass
    finally:
        os.umask(before)
    assert (tmp_path / "False").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "True").stat().st_mode & 0o777 == 0o600
