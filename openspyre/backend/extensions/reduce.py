"""Reductions: a map, a fold over the reduced dims, a finish."""

from __future__ import annotations

from inspect import signature
from math import prod

import numpy as np

from openspyre.artifact.extensions.description import Description
from openspyre.backend.extensions.map_step import Body, code_of, storing
from openspyre.backend.extensions.operands import fold_of, nest_of
from openspyre.program.model import Reduce
from openspyre.spec.ops import TABLE, Fold, Row
from openspyre.spec.ops.expression import Lane, Value, constant, trace

_INDEX_FOLDS = (Fold.ARG_MAX, Fold.ARG_MIN)
_TRUTH_FOLDS = (Fold.ANY, Fold.ALL)


def lower(description: Description) -> Reduce:
    row, fold = TABLE[description.row], fold_of(description)
    code = code_of(_before(row), description)
    total = Lane.BOOL if fold in _TRUTH_FOLDS else code.result_lanes[0]
    # The card's registers: the total, and the index of an arg reduction.
    finish = trace(storing(_after(row, description), description), (total, Lane.INT))
    return Reduce(*nest_of(description).head, code, fold, finish)


def _before(row: Row) -> Body:
    body = row.body
    if body is None:
        return lambda *operands: operands[0]
    return lambda *operands: body(*operands[: row.operands])


def _after(row: Row, description: Description) -> Body:
    """A mean's finish also takes fp32(1 / n), a constant of the shape."""
    finish = row.finish
    if row.fold in _INDEX_FOLDS:
        both = len(description.outputs) == 2
        return lambda total, index: (total, index) if both else index
    if finish is None:
        return lambda total, index: total
    takes_share = len(signature(finish).parameters) > 1
    count = prod(dim.size for dim in description.dims if dim.reduced)
    share = float(np.float32(1 / count)) if count else float("nan")

    def finished(total: Value, index: Value) -> Value:
        shares = (constant(total, share, Lane.FLOAT),) if takes_share else ()
        return finish(total, *shares)

    return finished
