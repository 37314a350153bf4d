"""CO_OPTIMIZING_LX_PLANNING of the documents: divisions are changed so that more stays in the scratchpads. The score is bytes, not time.

Of an op, its own division comes first. A map may move its slices to another dim, or take those of a product; a product takes those of
another product, or the batch by 8, 4 or 2 and the rows by the rest; a reduction that last one alone. The exact solver tries all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from openspyre.compiler.ir import Role
from openspyre.compiler.planner.space import Splits
from openspyre.compiler.timed.chain import Chain, Choice, Shared
from openspyre.compiler.timed.priced_op import PricedOp
from openspyre.spec.ops import TABLE, Kind

_MOST_MOVES = 6
_MOST_CHOICES = 4096  # more than so many at once are tried op by op


def co_optimised(chain: Chain) -> Choice:
    """Divisions with the fewest bytes through memory, of those that the documents try; the first of equals."""
    return _fewest_bytes(chain, [_documented(chain, number) for number in range(len(chain.ops))])


def co_optimised_over_all(chain: Chain) -> Choice:
    """The same over every legal division."""
    each = [list(dict.fromkeys([priced.given, *priced.divisions()])) for priced in chain.ops]
    return _fewest_bytes(chain, each)


def bytes_through_memory(chain: Chain, choice: Choice) -> int:
    """As the documents count: a temporary its write and its reads, an input its reads but one, an output its reads."""
    return sum(_traffic(tensor) for name, tensor in chain.tensors.items() if not chain.stay(choice, name).inside)


def _traffic(tensor: Shared) -> int:
    if not tensor.may_stay:
        return 0
    readers = len(tensor.users) - (0 if tensor.role is Role.INPUT else 1)
    return tensor.bytes * {Role.INPUT: readers - 1, Role.OUTPUT: readers}.get(tensor.role, readers + 1)


def _fewest_bytes(chain: Chain, each: Sequence[Sequence[Splits]]) -> Choice:
    given: Choice = {number: priced.given for number, priced in enumerate(chain.ops)}
    if prod(map(len, each)) <= _MOST_CHOICES:
        every = (dict(enumerate(chosen)) for chosen in product(*each))
        return min([given, *every], key=lambda choice: bytes_through_memory(chain, choice))
    best, fewest = given, bytes_through_memory(chain, given)
    for _ in range(2):
        for number, able in enumerate(each):
            for splits in able:
                then = {**best, number: splits}
                score = bytes_through_memory(chain, then)
                if score < fewest:
                    best, fewest = then, score
    return best


def _documented(chain: Chain, number: int) -> list[Splits]:
    priced = chain.ops[number]
    found = [priced.given]
    kind = TABLE[priced.op.row].kind
    if kind is Kind.POINTWISE:
        found += [*list(_moved(priced))[:_MOST_MOVES], *_of_products(chain, priced)]
    elif priced.is_matmul:
        found += [*_of_other_products(chain, number), *_factored(chain, priced)]
    elif kind is Kind.REDUCTION:
        found += _factored(chain, priced)
    return [splits for splits in dict.fromkeys(found) if priced.is_legal(splits)]


def _moved(priced: PricedOp) -> Iterator[Splits]:
    """A single divided dim hands its slices to another."""
    divided = [d for d, split in enumerate(priced.given) if split > 1]
    if len(divided) == 1:
        count = priced.given[divided[0]]
        for d in priced.kept:
            if d != divided[0]:
                yield tuple(count if other == d else 1 for other in range(len(priced.given)))


def _of_products(chain: Chain, priced: PricedOp) -> Iterator[Splits]:
    """Slices of a product's result, where the map has as many dims."""
    for other in chain.ops:
        if other.is_matmul:
            slices = [s for s, dim in zip(other.given, other.op.dims, strict=True) if not dim.reduced and dim.size > 1]
            if len(slices) == len(priced.kept):
                chosen = dict(zip(priced.kept, slices, strict=True))
                yield tuple(chosen.get(d, 1) for d in range(len(priced.given)))


def _of_other_products(chain: Chain, number: int) -> Iterator[Splits]:
    """By the roles that dims have, which products list in the same order."""
    priced = chain.ops[number]
    for place, other in enumerate(chain.ops):
        same = [dim.reduced for dim in other.op.dims] == [dim.reduced for dim in priced.op.dims]
        if other.is_matmul and place != number and same:
            own = zip(priced.op.dims, priced.given, other.given, strict=True)
            yield tuple(mine if dim.reduced else theirs for dim, mine, theirs in own)


def _factored(chain: Chain, priced: PricedOp) -> Iterator[Splits]:
    """The first two dims of the result that count: by the largest of 8, 4, 2 and by the rest of the cores."""
    kept = [d for d in priced.kept if not priced.op.dims[d].reduced]
    for batch in (8, 4, 2):
        if len(kept) > 1 and chain.machine.cores % batch == 0 and priced.op.dims[kept[0]].size % batch == 0:
            chosen = {kept[0]: batch, kept[1]: chain.machine.cores // batch}
            fixed = {d: priced.given[d] for d in priced.kept if priced.op.dims[d].reduced}
            yield tuple((fixed | chosen).get(d, 1) for d in range(len(priced.given)))
            return
