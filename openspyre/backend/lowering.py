"""From a bundle to a program: one step per execution. What an op computes is traced from its row."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from openspyre.artifact.model import Bundle, Description, Role
from openspyre.backend import contract, gather, map_step, moments, reduce, relayout, scan, sort
from openspyre.backend.operands import Symbols, loops_of
from openspyre.program.model import Program, Step, Use
from openspyre.spec.errors import InternalError
from openspyre.spec.ops import TABLE, Kind

Lowering = Callable[[Description, Step], Step]
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


_USES = {Role.INPUT: Use.READ, Role.OUTPUT: Use.FRESH, Role.UPDATE: Use.SHARED, Role.CONSTANT: Use.READ}


def compile_bundle(bundle: Bundle) -> Program:
    """The program of a valid bundle, a step per execution. Its symbols are the arguments; the pool, if any, comes behind them."""
    templates = [template(description, repr(description.attributes)) for description in bundle.descriptions]
    return Program(
        name=bundle.name,
        symbols=tuple(buffer.name for buffer in bundle.arguments),
        scalars=tuple(scalar.name for scalar in bundle.scalars),
        body=_bound(bundle, templates),
        pool_bytes=bundle.pool_bytes,
        uses=tuple(_USES[buffer.role] for buffer in bundle.arguments),
    )


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
