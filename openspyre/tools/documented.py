"""Documented bundles for the tools: read, checked by every rule, and lowered, so that `verify` and `run` say the same."""

from __future__ import annotations

from pathlib import Path

from openspyre.artifact.directory import InvalidBundle
from openspyre.artifact.documented import DocumentedBundle, parse_documented
from openspyre.artifact.documented_check import check_documented
from openspyre.artifact.fields import Problem
from openspyre.artifact.manifest import FILE as MANIFEST
from openspyre.program.footprint import footprints
from openspyre.program.model import Program
from openspyre.spec.environment import Settings

ANY_BYTES = 1 << 40  # bytes an argument is taken to have as long as nobody has said


def depends_on_size(end: int) -> bool:
    """Whether a program reaches as far as it does only because nobody said how large an argument is: it is indexed."""
    return end > ANY_BYTES // 2


def compiled_for(bundle: DocumentedBundle, sizes: list[int]) -> Program:
    """The program for arguments of these sizes. A pool that nobody sized is as large as what is written into it."""
    from openspyre.backend.superdsc import compile_documented

    program = compile_documented(bundle, sizes)
    if not bundle.has_pool or sizes[0] != ANY_BYTES:
        return program
    pool = footprints(program).get(0)
    if pool is None or not depends_on_size(pool.end):
        return program
    return compile_documented(bundle, [max((end for _, end in pool.writes), default=0), *sizes[1:]])


def is_documented(directory: Path) -> bool:
    """Whether there is no manifest: documented fields are then all there is."""
    return not (directory / MANIFEST).exists()


def examine(directory: Path) -> tuple[DocumentedBundle | None, list[Problem]]:
    """The bundle, if its files state one, and everything that is wrong with it."""
    problems: list[Problem] = []
    bundle = parse_documented(directory, problems)
    if bundle is None or problems:
        return None, problems
    problems += check_documented(bundle, Settings.read().machine)
    if not problems:
        problems += _lowering_problems(bundle)
    return bundle, problems


def read(directory: Path) -> DocumentedBundle:
    """A bundle without problems; InvalidBundle lists them."""
    bundle, problems = examine(directory)
    if bundle is None or problems:
        raise InvalidBundle(str(directory), problems)
    return bundle


def _lowering_problems(bundle: DocumentedBundle) -> list[Problem]:
    """What only shows when an op becomes steps. Every file once: other executions differ in their addresses alone."""
    from openspyre.backend.superdsc import lowering_problems

    return [
        Problem(file, "", found, "an op that the card can walk") for file, found in lowering_problems(bundle, ANY_BYTES)
    ]
