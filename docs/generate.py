"""Writes the tables of the documents from the tables of the code: `python docs/generate.py`, or `--check` to compare.

A document keeps its own words; only what stands between `<!-- generated: NAME -->` and `<!-- end -->` is written here.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from openspyre.spec.errors import SpyreError
from openspyre.spec.formats import DTYPES, TENSOR_DTYPES
from openspyre.tools.switches import markdown

DOCS = Path(__file__).parent
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in lines)


def switches() -> str:
    return "".join(f"{line}\n" for line in markdown())


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
    """The builtin kind a user would catch; RuntimeError, which all of them are, if there is none closer."""
    general = (RuntimeError, *RuntimeError.__mro__, ArithmeticError)
    kinds = [kind for kind in error.__mro__ if kind.__module__ == "builtins" and kind not in general]
    return f"`{(kinds or [RuntimeError])[0].__name__}`"


PARTS: dict[str, Callable[[], str]] = {
    "switches": switches,
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
