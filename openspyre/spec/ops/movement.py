"""Movement rows: elements go somewhere else, unchanged or converted."""

from openspyre.spec.ops.row import Kind, Row

MOVEMENT: tuple[Row, ...] = (
    Row(
        "relayout",
        Kind.MOVEMENT,
        "any view into any view of any layout: the general data movement of this card, where hardware has no single op",
        artifact="openspyre.relayout",
        aten=("clone", "cat", "cat.out", "roll"),
    ),
)
