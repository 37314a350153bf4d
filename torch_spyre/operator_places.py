"""Where the torch half knows operators: kernels the dispatcher got, lowerings, compositions, and what graphs do otherwise.

`openspyre ops --where` asks it, through the entry point group `openspyre.operators`. It tells what is registered, not what
should be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openspyre.tools.places import ROOT, Place, line_of, place_of, shown
from torch_spyre import _torch
from torch_spyre.ops import composed, eager
from torch_spyre.torch_seams import all_operators, kernel_of

# A line of the dispatcher's table: where the kernel of a backend was registered, and what it is to it.
_KERNEL = re.compile(r"registered at (?P<file>.+):(?P<line>\d+) \[(?P<kind>.+)\]")
_OF_TORCH = {
    "math kernel": "torch composes it of other operators",
    "default backend kernel": "torch makes it of another operator, often its out= form",
    "backend fallback": "CPU fallback",
}
_EAGER = "csrc/torch/operators/eager.cpp"


def places() -> list[Place]:
    _torch.ensure_configured()  # operators are registered when the device is first used
    return [*_kernels(), *_lowerings(), *_compositions(), *_of_graphs()]


def _kernels() -> Iterator[Place]:
    for operator in all_operators():
        namespace, _, name = operator.partition("::")
        found = _KERNEL.search(kernel_of(operator))
        if namespace in ("aten", "spyre") and found:
            name = name if namespace == "aten" else f"{namespace}.{name}"
            yield _kernel(name, found["kind"], found["file"], int(found["line"]))


def _kernel(name: str, kind: str, file: str, line: int) -> Place:
    """A C++ file names the operator on a line of its own, below the block that the dispatcher tells."""
    ours = "pytorch/" not in file and "site-packages/torch/" not in file
    if not ours:
        return Place(name, f"eager: {_OF_TORCH.get(kind, kind)}", _shown_of_torch(file), line)
    path = Path(file[file.rindex("csrc/") :]) if "csrc/" in file else Path(shown(file))
    what = _OF_TORCH.get(kind, "eager: kernel" if path.as_posix() != _EAGER else "eager: launches by key")
    bare = name.removeprefix("spyre.")
    return Place(name, what, path.as_posix(), line_of(ROOT / path, bare) or line)


def _shown_of_torch(file: str) -> str:
    return "torch:" + file.partition("pytorch/pytorch/")[2] if "pytorch/pytorch/" in file else file


def _lowerings() -> Iterator[Place]:
    for name, (binding, lowering) in eager.bindings().items():
        rows = ", ".join(row.name for row in binding.rows[:3])
        base = name.partition(".")[0]
        special = lowering.by_name.get(name) or lowering.by_name.get(base) or lowering.by_name.get(base.rstrip("_"))
        what = f"{'eager and graphs' if lowering.eager else 'graphs'}: lowering, row {rows}"
        yield place_of(name, what, special or lowering.compile_call)


def _compositions() -> Iterator[Place]:
    for overload, function in composed.table().items():
        yield place_of(plain_name(overload), "eager and graphs: composition", function)


def _of_graphs() -> Iterator[Place]:
    from torch_spyre.inductor.lowering import decomposition_overrides, random_operators  # loads Inductor
    from torch_spyre.inductor.lowering.graph_lowerings import GRAPH_LOWERINGS

    for target, spelling in GRAPH_LOWERINGS.items():
        yield place_of(target.removeprefix("aten.").removesuffix(".default"), "graphs: lowering", spelling)
    for overload, function in random_operators.RETOLD.items():
        yield place_of(plain_name(overload), "graphs: told by others", function)
    for overload, function in decomposition_overrides.OTHERWISE.items():
        yield place_of(plain_name(overload), "graphs: decomposition of ours", function)


def plain_name(overload: Any) -> str:
    name: str = overload.name().removeprefix("aten::")
    return name
