"""Changes one or a few facts of a frozen model, a bundle or a program: any field of any record, alone or wherever it stands.

Nothing here knows what the fields mean, so no field is forgotten; only values are chosen so that many mutants stay close to sound.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from openspyre.spec.errors import SpyreError
from openspyre.spec.formats import TENSOR_DTYPES, DataFormats, ElementArrangement
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops import TABLE

_NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    1 << 20,
    1 << 31,
    (1 << 40) - 1,
    1 << 40,
    1 << 56,
    1 << 62,
)
_ATTEMPTS = 1000  # a model of empty tuples may have nothing that could be another value
_FORMATS = [form for form in DataFormats if form.bits]


@dataclass(frozen=True, slots=True)
class Site:
    """A value somewhere in a model: the way to it, and the name of the innermost field on that way."""

    path: tuple[str | int, ...]
    field: str
    value: Any


def sites(model: Any, path: tuple[str | int, ...] = (), field: str = "") -> Iterator[Site]:
    yield Site(path, field, model)
    if isinstance(model, SpyreTensorLayout):
        return
    if is_dataclass(model):
        for each in fields(model):
            yield from sites(getattr(model, each.name), (*path, each.name), each.name)
    elif isinstance(model, tuple):
        for place, item in enumerate(model):
            yield from sites(item, (*path, place), field)


def with_value(model: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(model, tuple):
        return tuple(with_value(item, rest, value) if place == head else item for place, item in enumerate(model))
    return replace(model, **{str(head): with_value(getattr(model, str(head)), rest, value)})


def mutant(rng: random.Random, model: Any, changes: int = 1) -> tuple[str, Any]:
    """What was done, and the model it leaves."""
    done = []
    for _ in range(changes):
        said, model = _change(rng, model)
        done.append(said)
    return "; ".join(done), model


def _change(rng: random.Random, model: Any) -> tuple[str, Any]:
    known = [site for site in sites(model) if site.path]
    for _ in range(_ATTEMPTS):
        field = rng.choice(sorted({site.field for site in known}))
        site = rng.choice([site for site in known if site.field == field])
        value = _other(rng, site, known)
        if value is None or value == site.value:
            continue
        places = [site]
        if rng.random() < 0.4 and not is_dataclass(site.value):  # the same fact, wherever it is told
            places = [
                s
                for s in known
                if s.field == site.field and type(s.value) is type(site.value) and s.value == site.value
            ]
        for place in places:
            model = with_value(model, place.path, value)
        told = f"{'.'.join(map(str, site.path))}: {_brief(site.value)} -> {_brief(value)}"
        return told + (f" ({len(places)} places)" if len(places) > 1 else ""), model
    return "nothing left to change", model


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) < 120 else text[:117] + "..."


def _other(rng: random.Random, site: Site, known: list[Site]) -> Any:
    """Another value of the same kind; None if there is none."""
    value = site.value
    alike = [other.value for other in known if type(other.value) is type(value) and other.value != value]
    match value:
        case bool():
            return not value
        case Enum():
            return rng.choice([member for member in type(value) if member is not value])
        case int():
            return _other_number(rng, value, [n for n in alike if isinstance(n, int)])
        case str():
            return _other_text(rng, site, [text for text in alike if isinstance(text, str)])
        case float():
            return rng.choice((0.0, -1.0, 1e30, float("inf"), float("nan")))
        case SpyreTensorLayout():
            return _other_layout(rng, value, alike)
        case tuple():
            return _other_tuple(rng, value)
        case bytes():
            return value[:-1]
        case None:
            return {"bits_as": rng.choice(_FORMATS), "lane_dim": rng.randrange(3), "place": 0}.get(site.field)
    return rng.choice(alike) if alike else None


def _other_number(rng: random.Random, value: int, alike: list[int]) -> int:
    near = (value + 1, value - 1, value * 2, value // 2, -value, value + 64, value - 64, value + 128)
    return rng.choice(rng.choice((near, near, _NUMBERS, alike or near)))


def _other_text(rng: random.Random, site: Site, alike: list[str]) -> str | None:
    if "dtype" in site.field:
        return rng.choice(TENSOR_DTYPES)
    if site.field == "data_format":
        return rng.choice(_FORMATS).name
    if site.field == "row":
        kind = TABLE[site.value].kind
        return rng.choice([row.name for row in TABLE.values() if row.kind is kind or rng.random() < 0.2])
    return rng.choice(alike) if alike else None


def _other_layout(rng: random.Random, layout: SpyreTensorLayout, alike: list[Any]) -> SpyreTensorLayout | None:
    size, strides = layout.device_size, layout.stride_map
    form, arrangement = layout.device_dtype, layout.element_arrangement
    match rng.randrange(5):
        case 0:
            form = rng.choice(_FORMATS)
            size = [*size[:-1], form.elems_per_stick()] if rng.random() < 0.7 else size
        case 1:
            place = rng.randrange(len(size))
            size[place] = _other_number(rng, size[place], [])
        case 2:
            place = rng.randrange(len(strides))
            strides[place] = _other_number(rng, strides[place], [])
        case 3:
            arrangement = rng.choice(list(ElementArrangement))
        case _:
            return rng.choice(alike) if alike else None
    try:
        return SpyreTensorLayout(size, strides, form, arrangement)
    except SpyreError:
        return None


def _other_tuple(rng: random.Random, items: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Without one item, with one twice, with two swapped."""
    if not items:
        return None
    one, other = rng.randrange(len(items)), rng.randrange(len(items))
    match rng.randrange(3):
        case 0:
            return items[:one] + items[one + 1 :]
        case 1:
            return (*items[:one], items[one], *items[one:])
    swapped = list(items)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    return tuple(swapped)
