"""First pass: splits without which one core would reach further into a tensor than it can."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

from openspyre.compiler.planner.constraints import Constraints, Undividable
from openspyre.compiler.planner.space import Coordinate, Space, Splits, Tensor, divisors

_log = logging.getLogger("spyre.compiler.planner")


def committed_splits(space: Space, constraints: Constraints, cores: int, limit: int) -> dict[int, int]:
    """Splits by symbol that later passes keep: those above 1 that spans ask for, and all pins."""
    commits: dict[int, int] = {}
    for tensor in space.tensors:
        if tensor.span(space.splits(commits)) > limit:
            _shrink(space, tensor, commits, cores, limit)
    commits = {symbol: split for symbol, split in commits.items() if split > 1}
    for symbol in constraints.blocked & commits.keys():
        _log.warning(
            "%s: dim %r is split %d ways, although it should stay whole: a core would reach too far into a tensor",
            space.op, space.symbols[symbol].name, commits[symbol],
        )  # fmt: skip
    for symbol, split in constraints.pinned.items():
        if commits.get(symbol, split) != split:
            raise Undividable(
                f"{space.op}: dim {space.symbols[symbol].name!r} must be split {split} ways, but a core would reach more than "
                f"{limit} bytes of a tensor unless it is split {commits[symbol]} ways; make the tensor smaller"
            )
    if len([symbol for symbol in commits if space.symbols[symbol].reduces]) > 1:
        raise Undividable(
            f"{space.op}: two dims that are summed would have to be split to keep a core within {limit} bytes of a tensor; "
            "sum over one of them first"
        )
    return commits | constraints.pinned


def _shrink(space: Space, tensor: Tensor, commits: dict[int, int], cores: int, limit: int) -> None:
    for coordinate in tensor.coordinates:
        best: Mapping[int, int] | None = None
        best_span = 0
        for chosen in _choices(space, coordinate, commits, cores):
            span = tensor.span(space.splits(commits | chosen))
            within, best_within = span <= limit, best is not None and best_span <= limit
            better = span > best_span if within and best_within else within or (not best_within and span < best_span)
            if best is None or better:
                best, best_span = chosen, span
        if best is None:
            _log.warning("%s: no division of tensor %r fits the cores that are left", space.op, tensor.name)
            return
        commits.update(best)
        if best_span <= limit or coordinate.extent(space.splits(commits)) > 1:
            return


def _choices(space: Space, coordinate: Coordinate, commits: Mapping[int, int], cores: int) -> Iterator[dict[int, int]]:
    """Splits of a coordinate's symbols, none below what is committed, that the cores suffice for."""
    symbols = [term.symbol for term in coordinate.terms if space.symbols[term.symbol].divisible]
    others = prod(split for symbol, split in commits.items() if symbol not in symbols)
    each = [
        [n for n in divisors(space.symbols[symbol].units, cores) if n >= commits.get(symbol, 1)] for symbol in symbols
    ]
    for splits in product(*each):
        if others * prod(splits) <= cores:
            yield dict(zip(symbols, splits, strict=True))


def check_spans(space: Space, splits: Splits, limit: int) -> None:
    """Last of all: nobody reaches too far."""
    span, name = space.widest(splits)
    if span > limit:
        raise Undividable(
            f"{space.op}: a core would reach {span} bytes of tensor {name!r} with the splits {describe(space, splits)}, the "
            f"limit is {limit}; make the tensor smaller, or cut the op into parts"
        )


def describe(space: Space, splits: Splits) -> str:
    return ", ".join(f"{symbol.name} {split}" for symbol, split in zip(space.symbols, splits, strict=True))
