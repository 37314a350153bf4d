"""THE op table. `TABLE` maps a name to its row; everything about an op is in its row and nowhere else."""

from openspyre.spec.ops.attention import ATTENTION
from openspyre.spec.ops.contraction import CONTRACTIONS
from openspyre.spec.ops.creation import CREATION
from openspyre.spec.ops.indexed import INDEXED
from openspyre.spec.ops.movement import MOVEMENT
from openspyre.spec.ops.ordered import ORDERED
from openspyre.spec.ops.pointwise import POINTWISE
from openspyre.spec.ops.random import RANDOM
from openspyre.spec.ops.reduction import REDUCTIONS
from openspyre.spec.ops.row import Fold, Indexing, Kind, OpClass, Precision, Promotion, Row, Samples, Unit
from openspyre.spec.ops.rows import ROWS

ALL_ROWS = (
    *POINTWISE,
    *REDUCTIONS,
    *ROWS,
    *ATTENTION,
    *CONTRACTIONS,
    *MOVEMENT,
    *CREATION,
    *RANDOM,
    *INDEXED,
    *ORDERED,
)
TABLE: dict[str, Row] = {row.name: row for row in ALL_ROWS}

__all__ = [
    "ALL_ROWS",
    "TABLE",
    "Fold",
    "Indexing",
    "Kind",
    "OpClass",
    "Precision",
    "Promotion",
    "Row",
    "Samples",
    "Unit",
]
