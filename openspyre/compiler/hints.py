"""What the `spyre_hint` scopes around an op ask for, in terms of the op's own dims."""

from __future__ import annotations

from dataclasses import dataclass

from openspyre.compiler.ir import Op


@dataclass(frozen=True, slots=True)
class TileLevel:
    """A loop around an op that cuts named dim `name` into `count` tiles: the op's dim `dim`, None where it walks through none such."""

    hint: int
    name: str
    dim: int | None
    count: int


def tile_levels(op: Op) -> tuple[TileLevel, ...]:
    """The outermost first. Ops in the same scopes have levels with the same numbers."""
    return tuple(
        TileLevel(hint.number, hint.tiles[0], dim_called(op, hint.tiles[0]), hint.tiles[1])
        for hint in op.hints
        if hint.tiles is not None
    )


def asked_division(op: Op) -> dict[str, int]:
    """Cores per named dim, in the user's order; inner scopes override. A scope may hold other ops: names that this one lacks are theirs."""
    asked = {name: cores for hint in op.hints for name, cores in hint.work_div}
    return {name: cores for name, cores in asked.items() if dim_called(op, name) is not None}


def dim_called(op: Op, name: str) -> int | None:
    """The first dim of an op that walks through the named one."""
    return next((d for d, dim in enumerate(op.dims) if name in dim.named), None)
