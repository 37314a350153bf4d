"""Mutants of bundles in the documented form: our own compiler's, the example's, and those of other front ends where their vectors are.

Fields of the model are changed and written as files, or the files themselves are; the tools must then refuse or run them.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from fuzz.documented_samples import ours
from fuzz.model_mutants import mutant
from fuzz.text_mutants import MUTATIONS
from openspyre.artifact.directory import EXECUTION_LIST
from openspyre.artifact.documented import DocumentedBundle, documented_texts, read_documented
from openspyre.program.footprint import footprints
from openspyre.spec.errors import IndexOutOfRange, InvalidArgument, SanitizerFinding

ROOT = Path(__file__).parents[1]
VECTORS = Path(os.environ.get("OPENSPYRE_FOREIGN_BUNDLES", ROOT.parent / "shared" / "foreign_bundles"))
MOST_BYTES = 64 << 20


@cache
def samples() -> tuple[tuple[str, DocumentedBundle, dict[str, str]], ...]:
    """Bundles of at most ten ops, with their files."""
    found = [(bundle.name, bundle, documented_texts(bundle)) for bundle in ours()]
    for directory in (ROOT / "examples" / "kernel_directory", *sorted(VECTORS.glob("*/*/launch_0/bundle"))):
        bundle = read_documented(directory)
        if len(list(bundle.function.executions())) <= 10:
            files = {path.name: path.read_text() for path in directory.iterdir()}
            found.append((str(directory.parent.parent.name), bundle, files))
    return tuple(found)


def files_of(rng: random.Random) -> tuple[str, dict[str, str]]:
    """What was done to a sample, and the files it leaves."""
    name, bundle, files = rng.choice(samples())
    if rng.random() < 0.5:
        file = rng.choice(sorted(bundle.ops))
        said, changed = mutant(rng, bundle.ops[file], rng.choice((1, 1, 2)))
        try:
            return f"{name}: {file}: {said}", documented_texts(replace(bundle, ops=bundle.ops | {file: changed}))
        except Exception as error:  # a model that cannot be written is no mutant
            return f"{name}: {said}: {error}", files
    files, mutation = dict(files), rng.choice(MUTATIONS)
    file = rng.choice(sorted(files) if rng.random() < 0.7 else [EXECUTION_LIST])
    files[file] = mutation(rng, files[file])
    return f"{name}: {mutation.__name__.strip('_')} {file}", files


def judge(seed: int, number: int) -> str:
    rng = random.Random(f"documented {seed} {number}")
    said, files = files_of(rng)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "bundle"
        directory.mkdir()
        for name, text in files.items():
            (directory / name).write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            return _judged(directory)
        except Exception as error:  # whatever it is, it is a finding, and the next mutant is tried
            return f"fault: {said}: {type(error).__name__}: {error}".replace("\n", " ")


def _judged(directory: Path) -> str:
    from openspyre.backend.superdsc import compile_documented
    from openspyre.tools.documented import ANY_BYTES, examine
    from openspyre.tools.run_documented import execute, prepare

    bundle, problems = examine(directory)
    json.dumps([str(problem) for problem in problems])
    if bundle is None or problems:
        return "refused"
    touched = footprints(compile_documented(bundle, [1 << 20] * bundle.arguments))
    sizes = [min(ANY_BYTES, max(128, touched[n].end if n in touched else 128)) for n in range(bundle.arguments)]
    if sum(sizes) > MOST_BYTES:
        return "too large"
    try:
        execute(prepare(bundle, {number: bytes(size) for number, size in enumerate(sizes)}, None, directory))
    except (IndexOutOfRange, InvalidArgument, SanitizerFinding):
        return "refused by the card"
    return "executed"
