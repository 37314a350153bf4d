"""Second pass: products of matrices, divided as a model of their time says. The model is the documents'; times are microseconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import inf, log2, prod

from openspyre.compiler.planner.space import Space, SpaceKind, Splits, divisors

_MACS_PER_US = 1_536_000  # of one core
_BYTES_PER_US = 204_800  # of memory


@dataclass(frozen=True, slots=True)
class Shape:
    """A product in elements, n and k padded to whole sticks. `shared`: one second operand serves the whole batch."""

    batch: int
    m: int
    n: int
    k: int
    shared: bool


@dataclass(frozen=True, slots=True)
class Division:
    """Slices of each dim; of the batch, of all its dims together."""

    batch: int = 1
    m: int = 1
    n: int = 1
    k: int = 1

    @property
    def cores(self) -> int:
        return self.batch * self.m * self.n * self.k


def cost(shape: Shape, division: Division, cores: int) -> float:
    """What a division would take; infinite if there are not enough cores."""
    used = division.cores
    if used > cores:
        return inf
    rows, columns = shape.m // division.m, shape.n // division.n
    macs = shape.batch * shape.m * shape.n * shape.k
    results = shape.batch * shape.m * shape.n
    fill: float = min(1.0, (max(1.0, rows / 8) / 5) ** 0.25)
    compute = macs / used / (_MACS_PER_US * fill)
    weights = shape.k * shape.n * (1 if shape.shared else shape.batch)
    fan = max(division.m, division.n) if shape.shared else division.n
    moved = 2 * (shape.batch * shape.m * shape.k + weights + results)
    memory: float = moved / _BYTES_PER_US * max(1.0, (fan / 8) ** 0.75)
    per_core = results / (division.batch * division.m * division.n)
    sums = (division.k - 1) * per_core * (1e-3 if shape.shared else 1e-4)
    return compute + memory + sums + _penalties(shape, division, cores, rows, columns)


def _penalties(shape: Shape, division: Division, cores: int, rows: int, columns: int) -> float:
    wanted_m = max(4, min(cores // 2, max(1, shape.m // 32)))
    found = 10 * _over(wanted_m / division.m)  # lanes of m left idle
    found += 30 * _over(16 / rows)  # tiles of few rows
    found += 25 * _over(columns / 512)  # tiles of many columns
    deep = _over(shape.k / shape.n)
    if shape.shared:
        if rows >= 16:
            found += 5 * _over(4096 / shape.n) * _over(columns / 128)
        if division.n > 1:
            found += 10 * deep * log2(division.n)
    else:
        if division.n > 1 and rows >= 16:
            found += 20 * deep * log2(division.n)
        found += 10 * log2(division.batch)
    return found + 150 * _over(cores / division.cores)  # cores left idle


def _over(ratio: float) -> float:
    """How often a ratio doubles 1; 0 below."""
    return max(0.0, log2(ratio))


@dataclass(frozen=True, slots=True)
class Roles:
    """Which symbols of a space are which dims of a product."""

    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    shared: bool

    def shape(self, space: Space) -> Shape:
        symbols = space.symbols
        lanes = symbols[self.n].lanes
        batch = prod(symbols[s].size for s in self.batch)
        return Shape(
            batch, symbols[self.m].size, symbols[self.n].units * lanes, symbols[self.k].units * lanes, self.shared
        )


def roles_of(space: Space) -> Roles | None:
    """None where the model does not apply: the default distribution then divides."""
    sticks = [s for s in space.outputs if space.symbols[s].is_stick]
    rows = [s for s in space.outputs if not space.symbols[s].is_stick]
    if space.kind is not SpaceKind.MATMUL or len(sticks) != 1 or len(space.reductions) != 1:
        return None
    of_one = [s for s in rows if sum(s in tensor.moves for tensor in space.reads) == 1]
    moving = [s for s in of_one if space.write_strides[s]]
    if not of_one or not moving:
        return None
    m = min(moving, key=lambda s: space.write_strides[s])
    batch = tuple(s for s in rows if s != m)
    return Roles(batch, m, sticks[0], space.reductions[0], shared=len(of_one) > 1 or not batch)


def divide_matmul(space: Space, default: Splits, cores: int) -> Splits | None:
    """The cheapest division, the first of equals; None where the default distribution is to stand."""
    roles = roles_of(space)
    if roles is None:
        return None
    shape = roles.shape(space)
    best, lowest = default, inf
    for chosen, division in _divisions(space, roles, cores):
        price = cost(shape, division, cores)
        if price < lowest:
            best, lowest = space.splits(chosen), price
    return best if prod(best) >= prod(default) else None


def _divisions(space: Space, roles: Roles, cores: int) -> Iterator[tuple[dict[int, int], Division]]:
    """Ascending, the batch outermost, then m, n, k."""
    order = (*roles.batch, roles.m, roles.n, roles.k)
    each = [divisors(space.symbols[symbol].units, cores) for symbol in order]
    for splits in product(*each):
        if prod(splits) <= cores:
            division = Division(prod(splits[:-3]), *splits[-3:])
            yield dict(zip(order, splits, strict=True)), division
