"""Reductions: a map, a fold over the reduced dims, a finish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from math import prod

import numpy as np

from openspyre.artifact.model import Description
from openspyre.backend.map_step import code_of, storing
from openspyre.program.model import Combine, Step, StepKind
from openspyre.spec.errors import InternalError
from openspyre.spec.ops import TABLE, Fold
from openspyre.spec.ops.expression import Lane, Value, constant, trace

_INDEX_FOLDS = (Fold.ARG_MAX, Fold.ARG_MIN)


def lower(description: Description, step: Step) -> Step:
    row = TABLE[description.row]
    if row.fold is None:
        raise InternalError(f"the op table says no fold for the reduction {description.row!r}")
    code = code_of(row.body or _unchanged, description)
    total = Lane.INT if row.fold in _INDEX_FOLDS else code.result_lanes[0]
    finish = trace(storing(_finish(row.finish, description), description), (total,))
    return replace(step, kind=StepKind.REDUCE, code=code, combine=Combine(row.fold.value), finish=finish)


def _unchanged(value: Value) -> Value:
    return value


def _finish(finish: Callable[..., Value] | None, description: Description) -> Callable[..., Value]:
    """A mean's finish also takes fp32(1 / n), a constant of the shape."""
    if finish is None:
        return _unchanged
    if len(signature(finish).parameters) < 2:
        return finish
    count = prod(dim.size for dim in description.dims if dim.reduced)
    share = float(np.float32(1 / count)) if count else float("inf")
    return lambda total: finish(total, constant(total, share, Lane.FLOAT))
