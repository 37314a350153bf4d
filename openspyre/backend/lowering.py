"""From a bundle to a program: one step per execution. What an op computes is traced from its row."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache

from openspyre.artifact.model import Bundle, Description
from openspyre.backend import contract, gather, map_step, moments, reduce, relayout, scan, sort
from openspyre.backend.fusion import Fused, fused
from openspyre.backend.operands import Symbols, loops_of
from openspyre.program.model import Program, Step
from openspyre.spec.errors import InternalError
from openspyre.spec.ops import TABLE, Kind

Lowering = Callable[[Description, Step], Step]
Refused = Callable[[Sequence[str]], None]
_LOWERINGS: dict[Kind, Lowering] = {
    Kind.POINTWISE: map_step.lower,
    Kind.REDUCTION: reduce.lower,
    Kind.MOMENTS: moments.lower,
    Kind.CONTRACTION: contract.lower,
    Kind.MOVEMENT: relayout.lower,
    Kind.CREATION: map_step.lower,
    Kind.RANDOM: map_step.lower,
    Kind.INDEXED: gather.lower,
    Kind.SCAN: scan.lower,
    Kind.SORT: sort.lower,
}


_log = logging.getLogger("spyre.compiler")


def compile_bundle(bundle: Bundle, *, fuse: bool = True, refused: Refused | None = None) -> Program:
    """The program of a valid bundle. Its symbols are the arguments; the pool, if any, comes behind them.

    A program that fusion made wrong is not taken: the one without fusion is, and `refused` is told why.
    """
    templates = [template(description, repr(description.attributes)) for description in bundle.descriptions]
    found = _checked(fused(bundle, templates), bundle.name, refused) if fuse else None
    return Program(
        name=bundle.name,
        symbols=tuple(buffer.name for buffer in bundle.arguments),
        scalars=tuple(scalar.name for scalar in bundle.scalars),
        steps=_bound(bundle, templates) if found is None else found.steps,
        pool_bytes=bundle.pool_bytes if found is None else found.pool_bytes,
    )


def _checked(found: Fused | None, name: str, refused: Refused | None) -> Fused | None:
    if found is None or not found.problems:
        return found
    _log.warning("program %r runs without fusion, which made it wrong: %s", name, "; ".join(found.problems))
    if refused is not None:
        refused(found.problems)
    return None


def _bound(bundle: Bundle, templates: list[Step]) -> tuple[Step, ...]:
    symbols = Symbols.of(bundle)
    return tuple(symbols.bind(templates[execution.description], execution) for execution in bundle.executions)


@lru_cache(maxsize=1024)
def template(description: Description, attributes: str) -> Step:
    """The step of a description, its symbols being numbers of tensors and scalar slots.

    Attributes that compare equal may differ in kind (1, 1.0, True): their text is part of the key.
    """
    kind = TABLE[description.row].kind
    if kind not in _LOWERINGS:
        raise InternalError(f"the back end cannot lower {description.row!r}: no way for {kind} ops")
    return _LOWERINGS[kind](description, loops_of(description))
