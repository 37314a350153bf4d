"""`exx2`: mean and mean of squares along a row, as two folds of one step."""

from __future__ import annotations

from math import prod

import numpy as np

from openspyre.artifact.extensions.description import Description
from openspyre.backend.extensions.operands import nest_of
from openspyre.program.model import ROW_SCALAR, Rows, RowStage
from openspyre.spec.ops.expression import Lane, trace
from openspyre.spec.ops.row import Fold


def lower(description: Description) -> Rows:
    """Row 0 is x, row 1 its squares; row scalars 0 and 1 are what is stored."""
    share = float(np.float32(1 / prod(dim.size for dim in description.dims if dim.reduced)))
    finish = trace(lambda total: total * share, (Lane.FLOAT,))
    stages = (
        RowStage((0,), finish, 0, Fold.SUM),
        RowStage((0,), trace(lambda x: x * x, (Lane.FLOAT,)), 1),
        RowStage((1,), finish, 1, Fold.SUM),
    )
    return Rows(*nest_of(description).head, stages, (ROW_SCALAR, ROW_SCALAR + 1))
