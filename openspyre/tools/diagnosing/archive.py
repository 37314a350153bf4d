"""One archive: written beside its place and moved there whole, readable for its user alone, of bounded size."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from openspyre.spec.errors import InvalidArgument
from openspyre.tools.diagnosing.discretion import Discretion
from openspyre.tools.whole_file import whole_file

MOST_LETTERS = 64 << 20  # of all texts together
_ABOUT = """What this archive holds, for whoever looks into a fault of openspyre:

{files}
It holds no weights and no values of tensors. Of the environment it has the switches of this stack alone. Directories are cut from
paths, and values of variables that look like secrets are cut from every text. Look through it before you send it.
{left_out}"""


def write_archive(path: Path, texts: Mapping[str, str]) -> Path:
    """Texts by name, as discreet as they must be; InvalidArgument if it cannot be written there."""
    discretion = Discretion.of()
    if path.is_dir():
        raise InvalidArgument(f"{path} is a directory; name the file that the report becomes")
    kept, left_out, room = {}, [], MOST_LETTERS
    for name, text in texts.items():
        if len(text) > room:
            left_out.append(name)
            continue
        room -= len(text)
        kept[discretion.text(name)] = discretion.text(text)
    told = f"Left out, because there was too much: {', '.join(left_out)}\n" if left_out else ""
    kept["README.txt"] = _ABOUT.format(files="".join(f"  {name}\n" for name in kept), left_out=told)
    try:
        _write(path, kept)
    except OSError as error:
        raise InvalidArgument(f"cannot write the report {path}: {error.strerror or error}") from None
    return path


def _write(path: Path, texts: Mapping[str, str]) -> None:
    with whole_file(path, private=True) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
