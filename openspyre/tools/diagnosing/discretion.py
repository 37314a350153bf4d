"""What leaves the machine in a report: variables of a list, files without their directories, and no secrets wherever they stand."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from openspyre.spec.environment import Settings, switch_of
from openspyre.spec.retired import RETIRED

HIDDEN = "<hidden>"
_OTHERS = (
    "CUDA_VISIBLE_DEVICES", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "PYTHONHASHSEED", "RANK", "TORCHDYNAMO_VERBOSE",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TORCH_COMPILE_DEBUG", "TORCH_DEVICE_BACKEND_AUTOLOAD", "WORLD_SIZE",
)  # fmt: skip
ALLOWED = frozenset(
    [switch_of(row).variable for row in fields(Settings)] + [row.variable for row in RETIRED] + list(_OTHERS)
)
_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASS|PWD$|KEY|CREDENTIAL|AUTH|COOKIE|PRIVATE|SESSION|DSN|CONN|WEBHOOK", re.IGNORECASE
)
_RANDOM = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_+=.\-]{20,}")
_SHAPES = re.compile(
    r"(?:sk|pk|rk|ghp|gho|ghs|hf|glpat|xox[abps])[-_][A-Za-z0-9_\-]{10,}|AKIA[0-9A-Z]{16}|(?<=://)[^/\s:@]{1,200}:[^/\s@]{1,200}(?=@)"
)
# A path between quotes may have blanks in it; one without quotes ends at the first.
_QUOTED = re.compile(r"""(["'])(?:~|/)[^"'\n]*/([^"'/\n]*)\1""")
_BARE = re.compile(r"""(?<![\w.~/<])(?:~|/[^\s/"'`,;:()<>|]+)(?:/[^\s/"'`,;:()<>|]+)*/([^\s/"'`,;:()<>|]*)""")
_SHORTEST = 6  # letters: what is shorter stands in too many words


@dataclass(frozen=True, slots=True)
class Discretion:
    """Rewrites texts. `secrets`: values that must not stand in any of them."""

    secrets: tuple[str, ...]

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Discretion:
        found = {
            value
            for name, value in environ.items()
            if name not in ALLOWED
            and len(value) >= _SHORTEST
            and (_SECRET_NAME.search(name) or _RANDOM.fullmatch(value))
        }
        return cls(tuple(sorted(found, key=len, reverse=True)))

    def text(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        text = _SHAPES.sub(HIDDEN, text)
        text = _QUOTED.sub(r"\1.../\2\1", text)
        return _BARE.sub(r".../\1", text)


def variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Those of the list that are set."""
    return {name: environ[name] for name in sorted(ALLOWED) if environ.get(name)}
