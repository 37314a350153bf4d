"""Sorted rows of a flat buffer: values, and the places they had."""

from __future__ import annotations

from openspyre.artifact.extensions.description import Description
from openspyre.backend.extensions.flat import flat_nest
from openspyre.backend.extensions.operands import fold_of
from openspyre.program.model import Sort


def lower(description: Description) -> Sort:
    return Sort(*flat_nest(description).head, fold_of(description))
