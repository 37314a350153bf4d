"""Which core has which slices."""

from __future__ import annotations

from openspyre.compiler.planner.core_order import core_slices


def test_the_first_dim_goes_round_fastest() -> None:
    assert core_slices((2, 3)) == ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2))


def test_or_the_last_where_neighbours_add_up() -> None:
    assert core_slices((2, 1, 3), last_fastest=True) == (
        (0, 0, 0),
        (0, 0, 1),
        (0, 0, 2),
        (1, 0, 0),
        (1, 0, 1),
        (1, 0, 2),
    )


def test_slices_by_stride_and_modulo() -> None:
    """slice(dim) = core // stride mod split, strides growing from the first dim on."""
    splits = (4, 2, 3)
    for core, chosen in enumerate(core_slices(splits)):
        assert chosen == (core % 4, core // 4 % 2, core // 8 % 3)
