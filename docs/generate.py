"""Writes the tables of the documents from the tables of the code: `python docs/generate.py`, or `--check` to compare.

A document keeps its own words; only what stands between `<!-- generated: NAME -->` and `<!-- end -->` is written here.
"""

import argparse
import ast
import importlib
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from openspyre.clock.bands import BANDS
from openspyre.spec.errors import SpyreError
from openspyre.spec.formats import DTYPES, TENSOR_DTYPES
from openspyre.spec.machine import SPYRE
from openspyre.spec.ops import TABLE, Kind, Row
from openspyre.tools.switches import markdown, retired_markdown

DOCS = Path(__file__).parent
OPERATOR_TESTS = Path(__file__).parent.parent / "tests" / "ops"
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in lines)


def switches() -> str:
    return "".join(f"{line}\n" for line in markdown())


def retired() -> str:
    return "".join(f"{line}\n" for line in retired_markdown())


def seams() -> str:
    from torch_spyre.torch_seams import SEAMS

    return table(
        ("Symbol", "How", "Why", "Can go when"),
        (
            (
                f"`{seam.symbol}`",
                next((how for how in ("replaced", "extended", "added") if getattr(seam, how)), "used"),
                seam.why,
                seam.remove_when,
            )
            for seam in SEAMS
        ),
    )


def library_seams() -> str:
    from torch_spyre.library_seams import LIBRARY_SEAMS

    return table(
        ("Symbol", "How", "Why", "Can go when"),
        (
            (f"`{seam.module}.{seam.symbol}`", "hooked" if seam.hooked else "replaced", seam.why, seam.remove_when)
            for seam in LIBRARY_SEAMS
        ),
    )


def formats() -> str:
    return table(
        ("torch dtype", "on the host", "on the card", "elements in a stick"),
        (
            (f"`{name}`", DTYPES[name].host.name, DTYPES[name].device.name, str(DTYPES[name].device.elems_per_stick()))
            for name in TENSOR_DTYPES
        ),
    )


def errors() -> str:
    for room in ("openspyre.artifact.directory", "torch_spyre.ops.fallbacks", "torch_spyre.torch_seams"):
        importlib.import_module(room)  # rooms that define errors of their own

    def below(parent: type[SpyreError]) -> Iterable[type[SpyreError]]:
        for child in parent.__subclasses__():
            yield child
            yield from below(child)

    return table(
        ("Error", "Also a", "Meaning"),
        (
            (f"`{error.__module__}.{error.__name__}`", _builtin(error), " ".join((error.__doc__ or "").split()))
            # The catalogue in its own order, then the other rooms by name: what was imported first plays no part.
            for error in sorted(
                (SpyreError, *below(SpyreError)),
                key=lambda error: "" if error.__module__ == SpyreError.__module__ else error.__module__,
            )
            if error.__module__.split(".")[0] in ("openspyre", "torch_spyre")
        ),
    )


def _builtin(error: type[SpyreError]) -> str:
    """The builtin kind a user would catch; RuntimeError, which all of them are, if there is none closer."""
    general = (RuntimeError, *RuntimeError.__mro__, ArithmeticError)
    kinds = [kind for kind in error.__mro__ if kind.__module__ == "builtins" and kind not in general]
    return f"`{(kinds or [RuntimeError])[0].__name__}`"


def operations() -> str:
    """A table per kind of row; what the documents know first."""
    parts = []
    for kind in Kind:
        rows = [row for row in TABLE.values() if row.kind is kind]
        if rows:
            parts.append(f"### {kind.value.capitalize()}\n\n{_operations_of(rows)}")
    return "\n" + "\n".join(parts) + "\n"


def _operations_of(rows: list[Row]) -> str:
    return table(
        ("op", "computes", "artifact", "origin", "dtypes", "aten"),
        (
            (
                f"`{row.name}`",
                row.summary,
                f"`{row.artifact}`",
                "documented" if row.documented else "extension",
                " and ".join(kind for kind, taken in (("floats", row.floats), ("integers", row.integers)) if taken),
                ", ".join(f"`{name}`" for name in row.aten) or "inside programs",
            )
            for row in sorted(rows, key=lambda row: (not row.documented, row.name))
        ),
    )


def summary() -> str:
    rows = list(TABLE.values())
    counted = [
        (kind.value, [row for row in rows if row.kind is kind]) for kind in Kind if any(r.kind is kind for r in rows)
    ]
    return table(
        ("kind", "ops", "documented", "extensions"),
        (
            (name, str(len(of_kind)), str(known := sum(row.documented for row in of_kind)), str(len(of_kind) - known))
            for name, of_kind in (*counted, ("all", rows))
        ),
    )


def core_operators() -> str:
    """PyTorch's core operators, by what its dispatcher finds for the device."""
    import torch

    from torch_spyre.constants import DEVICE_NAME

    torch.empty(0, device=DEVICE_NAME)  # the first use registers the kernels
    found: dict[str, list[str]] = {"on the card": [], "composed": [], "on the CPU": []}
    for name in sorted(_core_names()):
        found[_way_of(name, torch._C._dispatch_has_kernel_for_dispatch_key)].append(name)
    total = sum(map(len, found.values()))
    text = f"{len(found['on the card'])} of {total} have a kernel of the device. {len(found['composed'])} are composed by torch of "
    text += f"other operators. {len(found['on the CPU'])} have neither and fall back:\n\n"
    return f"\n{text}{', '.join(f'`{name}`' for name in found['on the CPU'])}.\n\n"


def _core_names() -> Iterable[str]:
    import torch

    # Of the registry, not of torch.ops: that knows only the operators somebody has asked for.
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, full = name.partition("::")
        packet, _, overload = full.partition(".")
        if (
            namespace == "aten"
            and torch.Tag.core in getattr(getattr(torch.ops.aten, packet), overload or "default").tags
        ):
            yield full


def _way_of(name: str, has_kernel: Callable[[str, str], bool]) -> str:
    if has_kernel(f"aten::{name}", "PrivateUse1"):
        return "on the card"
    composites = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    return "composed" if any(has_kernel(f"aten::{name}", key) for key in composites) else "on the CPU"


def fallbacks() -> str:
    """What the operator tests list as left to the CPU, with their reasons."""
    rows = [
        (f"`{path.stem.removeprefix('test_')}`", name, reason)
        for path in sorted(OPERATOR_TESTS.glob("test_*.py"))
        for name, reason in _listed_fallbacks(ast.parse(path.read_text()))
    ]
    return table(("kind", "what", "why"), rows)


def _listed_fallbacks(module: ast.Module) -> Iterable[tuple[str, str]]:
    for node in module.body:
        named = isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "FALLS_BACK" for t in node.targets
        )
        if named and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                yield ast.literal_eval(key), ast.literal_eval(value.elts[-1])


def passes() -> str:
    from openspyre.spec.environment import Settings
    from openspyre.tools.opt_passes import as_record, rooms_of

    records = [as_record(step, room) for room, steps in rooms_of(Settings()).items() for step in steps]
    return table(
        ("pass", "room", "what it does", "options"),
        (
            (
                f"`{record['pass']}`",
                record["room"],
                record["purpose"],
                ", ".join(f"`{name}={value}`" for name, value in record["options"].items()),
            )
            for record in records
        ),
    )


def example() -> str:
    from pipeline_example import worked

    return "\n" + "\n\n".join(worked()) + "\n\n"


def clock_constants() -> str:
    return table(
        ("Constant", "Value", "Unit", "Grade", "Build", "What it is"),
        (
            (f"`{group}.{name}`", f"{value:.6g}", evidence.unit, evidence.grade, evidence.build, evidence.says)
            for group, name, value, evidence in SPYRE.rates.constants()
        ),
    )


def clock_bands() -> str:
    return table(
        ("Class", "Median", "90 of 100", "From"),
        (
            (
                kind,
                f"{band.median:.0%}",
                f"{band.p90:.0%}",
                "the scoreboard" if band.measured else "set by hand, see below",
            )
            for kind, band in BANDS.items()
        ),
    )


PARTS: dict[str, Callable[[], str]] = {
    "switches": switches,
    "retired": retired,
    "seams": seams,
    "library_seams": library_seams,
    "formats": formats,
    "errors": errors,
    "operations": operations,
    "summary": summary,
    "core": core_operators,
    "fallbacks": fallbacks,
    "passes": passes,
    "example": example,
    "clock_constants": clock_constants,
    "clock_bands": clock_bands,
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
