"""Writes the tables of the documents from the tables of the code: `python docs/generate.py`, or `--check` to compare.

A document keeps its own words; only what stands between `<!-- generated: NAME -->` and `<!-- end -->` is written here.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path

from openspyre.spec.environment import Settings, switch_of
from openspyre.spec.errors import SpyreError
from openspyre.spec.formats import DTYPES, TENSOR_DTYPES

DOCS = Path(__file__).parent
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in lines)


def switches(has_effect: bool) -> str:
    defaults = Settings.read({})
    return table(
        ("Variable", "Default", "Accepted", "Meaning"),
        (
            (f"`{row.variable}`", _shown(getattr(defaults, field.name)), row.kind.accepted, row.meaning)
            for field in fields(Settings)
            for row in [switch_of(field)]
            if row.has_effect is has_effect
        ),
    )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "`1`" if value else "`0`"
    if value is None or value == "":
        return "not set"
    return f"`{value:g}`" if isinstance(value, float) else f"`{str(value).replace(str(Path.home()), '~')}`"


def seams() -> str:
    from torch_spyre.torch_seams import SEAMS

    return table(
        ("Symbol", "How", "Why", "Can go when"),
        (
            (
                f"`{seam.symbol}`",
                "replaced" if seam.replaced else "added" if seam.added else "used",
                seam.why,
                seam.remove_when,
            )
            for seam in SEAMS
        ),
    )


def formats() -> str:
    return table(
        ("torch dtype", "on the host", "on the card", "elements in a stick"),
        (
            (f"`{name}`", DTYPES[name].host.name, DTYPES[name].device.name, str(DTYPES[name].device.elems_per_stick))
            for name in TENSOR_DTYPES
        ),
    )


def errors() -> str:
    import torch_spyre.ops.fallbacks
    import torch_spyre.torch_seams  # noqa: F401 (both define errors of their own)

    def below(parent: type[SpyreError]) -> Iterable[type[SpyreError]]:
        for child in parent.__subclasses__():
            yield child
            yield from below(child)

    return table(
        ("Error", "Also a", "Meaning"),
        (
            (f"`{error.__module__}.{error.__name__}`", _builtin(error), " ".join((error.__doc__ or "").split()))
            for error in (SpyreError, *below(SpyreError))
            if error.__module__.split(".")[0] in ("openspyre", "torch_spyre")
        ),
    )


def _builtin(error: type[SpyreError]) -> str:
    kinds = [kind.__name__ for kind in error.__mro__ if kind.__module__ == "builtins"]
    return f"`{next(kind for kind in kinds if kind not in _TOO_GENERAL)}`" if set(kinds) - _TOO_GENERAL else "`RuntimeError`"


_TOO_GENERAL = {"RuntimeError", "Exception", "BaseException", "ArithmeticError", "object"}
PARTS: dict[str, Callable[[], str]] = {
    "switches": lambda: switches(has_effect=True),
    "switches_without_effect": lambda: switches(has_effect=False),
    "seams": seams,
    "formats": formats,
    "errors": errors,
}


def renewed(text: str) -> str:
    """The document with its generated parts written anew."""
    return _PART.sub(lambda part: part[1] + PARTS[part[2]]() + part[3], text)


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--check", action="store_true", help="write nothing; fail if a document is stale")
    check = arguments.parse_args().check
    stale = []
    for document in sorted(DOCS.glob("*.md")):
        before = document.read_text()
        after = renewed(before)
        if before != after:
            stale.append(document.name)
            if not check:
                document.write_text(after)
    if stale:
        print(f"{'stale, run `python docs/generate.py`' if check else 'written'}: {', '.join(stale)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
