"""The step of an extension op, from its record. What the op computes is traced from its row."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from openspyre.artifact.extensions.description import Description
from openspyre.backend.extensions import contract, gather, map_step, moments, reduce, relayout, scan, sort
from openspyre.program.model import Step
from openspyre.spec.errors import InternalError
from openspyre.spec.ops import TABLE, Kind

Lowering = Callable[[Description], Step]
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


@lru_cache(maxsize=1024)
def template(description: Description, attributes: str) -> Step:
    """The step of a description, its symbols being numbers of tensors.

    Attributes that compare equal may differ in kind (1, 1.0, True): their text is part of the key.
    """
    kind = TABLE[description.row].kind
    if kind not in _LOWERINGS:
        raise InternalError(f"the back end cannot lower {description.row!r}: no way for {kind} ops")
    return _LOWERINGS[kind](description)
