"""Movement rows: elements go somewhere else, unchanged or converted. Which row it is follows from what hardware can do."""

from __future__ import annotations

from openspyre.spec.ops.row import Kind, Row

_IDENTITY = Row(
    "identity",
    Kind.MOVEMENT,
    "whole sticks to other places: copies, slices, pieces of a concatenation",
    artifact="identity",
    documented=True,
)
_RESTICKIFY = Row(
    "restickify",
    Kind.MOVEMENT,
    "the same elements with another dim along the sticks",
    artifact="ReStickifyOpHBM",
    documented=True,
)
_RELAYOUT = Row(
    "relayout",
    Kind.MOVEMENT,
    "any view into any view of any layout: the general data movement of this card, where hardware has no single op",
    artifact="openspyre.relayout",
    undecided=True,
    aten=("clone", "cat", "cat.out"),
)
_SHUFFLE = Row(
    "shuffle",
    Kind.MOVEMENT,
    "slices in the scratchpads from one division over the cores to another",
    artifact="shuffle",
    documented=True,
)
MOVEMENT: tuple[Row, ...] = (_RELAYOUT, _IDENTITY, _RESTICKIFY, _SHUFFLE)


def movement_row(lane_dims: tuple[int | None, int | None], *, along_sticks: bool, same_format: bool) -> Row:
    """The row of a movement: `lane_dims` run along the sticks of source and target, if both accesses are `along_sticks`."""
    source, target = lane_dims
    if not along_sticks or not same_format:
        return _RELAYOUT
    if source == target:
        return _IDENTITY
    return _RELAYOUT if source is None or target is None else _RESTICKIFY
