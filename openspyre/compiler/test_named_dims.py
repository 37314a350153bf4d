"""Names go where the elements go: worked out by hand, and beside torch-free views of numbered elements."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openspyre.compiler.ir import Access, Buffer, Dim, NamedDim, Role
from openspyre.compiler.named_dims import walked, written

MK = (NamedDim("M", 8, 12), NamedDim("K", 12, 1))


def dims(*size: int) -> tuple[Dim, ...]:
    return tuple(Dim(f"d{i}", n) for i, n in enumerate(size))


def names(access: Access, size: tuple[int, ...], named: tuple[NamedDim, ...]) -> list[str]:
    """Names per dim, those of a dim that walks through several joined."""
    parts = walked(access, dims(*size), named).parts
    return [" ".join(part.name for part in parts.get(d, ())) for d in range(len(size))]


@pytest.mark.parametrize(
    ("size", "strides", "found"),
    [
        ((8, 12), (12, 1), ["M", "K"]),
        ((12, 8), (1, 12), ["K", "M"]),  # transposed
        ((96,), (1,), ["M K"]),  # flat: both at once
        ((2, 4, 12), (48, 12, 1), ["M", "M", "K"]),  # M in two
        ((2, 48), (48, 1), ["M", "M K"]),
        ((8, 3, 12), (12, 0, 1), ["M", "", "K"]),  # broadcast
        ((8, 12), (-12, 1), ["M", "K"]),  # backwards
        ((1, 12), (12, 1), ["", "K"]),  # one row: nothing moves along M
        ((4, 12), (12, 1), ["", "K"]),  # a slice is not M
        ((4, 12), (24, 1), ["", "K"]),  # nor is every second row
        ((8,), (13,), [""]),  # a diagonal walks through none
        ((5, 12), (7, 1), ["", "K"]),
    ],
)
def test_views_of_a_named_tensor(size: tuple[int, ...], strides: tuple[int, ...], found: list[str]) -> None:
    assert names(Access("x", 0, strides, "float16"), size, MK) == found


def test_what_is_walked_through_in_part_is_told() -> None:
    found = walked(Access("x", 0, (12, 1), "float16"), dims(4, 12), MK)
    assert [named.name for named in found.partial] == ["M"]


def test_results_have_the_names_of_what_they_are_made_of() -> None:
    """A sum of M over the transposed tensor: K is left, and then K beside an unnamed dim."""
    read = Access("x", 0, (1, 12), "float16")
    parts = [(read, walked(read, dims(12, 8), MK).parts)]
    total = Buffer("y", "float16", (12,), (1,), Role.OUTPUT)
    assert list(written(Access("y", 0, (1, 0), "float16"), dims(12, 8), parts, total)) == [NamedDim("K", 12, 1)]
    spread = Buffer("y", "float16", (12, 5), (5, 1), Role.OUTPUT)
    assert list(written(Access("y", 0, (5, 0), "float16"), dims(12, 8), parts, spread)) == [NamedDim("K", 12, 5)]


def test_a_tensor_that_is_written_in_part_has_not_the_name_of_the_part() -> None:
    """As cat does: 8 rows into 24."""
    read = Access("x", 0, (12, 1), "float16")
    parts = [(read, walked(read, dims(8, 12), MK).parts)]
    longer = Buffer("y", "float16", (24, 12), (12, 1), Role.OUTPUT)
    assert list(written(Access("y", 0, (12, 1), "float16"), dims(8, 12), parts, longer)) == [NamedDim("K", 12, 1)]


@given(st.permutations(["A", "B", "C"]), st.integers(1, 2), st.data())
def test_any_order_and_any_merge_of_dims(order: list[str], cut: int, data: st.DataObject) -> None:
    """Of a tensor named A, B, C in any order of strides, dims walk through what numpy says changes along them."""
    sizes = {name: data.draw(st.integers(2, 4)) for name in order}
    shape = tuple(sizes[name] for name in order)
    strides = [prod(shape[i + 1 :]) for i in range(3)]
    named = tuple(NamedDim(name, sizes[name], stride) for name, stride in zip(order, strides, strict=True))
    size = (prod(shape[:cut]), prod(shape[cut:]))
    found = names(Access("x", 0, (size[1], 1), "float16"), size, named)
    for d, walked_names in enumerate(found):
        coordinates = np.unravel_index(np.arange(size[d]) * (size[1] if d == 0 else 1), shape)
        moving = [name for name, places in zip(order, coordinates, strict=True) if len(set(places.tolist())) > 1]
        assert walked_names == " ".join(moving)
