"""Running sums and products along rows of a flat buffer."""

from __future__ import annotations

from openspyre.artifact.extensions.description import Description
from openspyre.backend.extensions.flat import flat_nest
from openspyre.backend.extensions.operands import fold_of
from openspyre.program.model import Scan


def lower(description: Description) -> Scan:
    return Scan(*flat_nest(description).head, fold_of(description))
