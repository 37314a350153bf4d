"""Chains to be tiled without a hint: whose tensors do not fit into the scratchpads together, and which the clock says are faster in a loop.

It begins with the largest tensors, lets loops grow around who writes them, along each of their dims, and tries counts of tiles. What is
gained must be more than the clock may err about the chain, with the loop or without it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from openspyre.clock.timing import Timing
from openspyre.compiler.ir import InScratchpad, Op, Program, Role
from openspyre.compiler.loops import listed
from openspyre.compiler.timed.loop_growth import Flow, grown, tiled_size
from openspyre.compiler.timed.regions import bytes_of, crossing, key_of, peak_bytes, region
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.machine import Machine
from openspyre.spec.sharing import Memo

_MOST_TILES = 64
_FEWER = 1.5  # counts that are tried are so much apart at least
_SMALL = 1 / 64  # of all scratchpads: what is smaller joins nobody
_MOST_OPS = 400  # of all candidates of a program that differ in more than names


@dataclass(frozen=True, slots=True)
class Gain:
    """What the clock says of some ops without a loop and with one of `count` tiles, and how far it may be off."""

    count: int
    before_us: float
    after_us: float
    error_us: float

    @property
    def us(self) -> float:
        return self.before_us - self.after_us

    @property
    def is_sure(self) -> bool:
        return self.us > self.error_us


@dataclass(frozen=True, slots=True)
class TiledChain:
    """Ops of a program by their numbers, each with the dim that one loop moves along. `large`: the tensor that did not fit, and its bytes."""

    dims: tuple[tuple[int, int], ...]
    gain: Gain
    large: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Judged:
    """A plan's time, how far the clock may be off, what it would take if all temporaries stayed, and how its sums are divided."""

    time_us: float
    error_us: float
    at_best_us: float
    sums: frozenset[tuple[str, tuple[tuple[int, int], ...]]]

    @property
    def could_gain(self) -> bool:
        """Whether tiles may gain enough at all."""
        return self.time_us - self.at_best_us > self.error_us

    @classmethod
    def of(cls, plan: Program, clock: Callable[[Program], Timing]) -> Judged:
        timing, at_best = clock(plan), clock(_all_inside(plan))
        sums = frozenset(found for op, _ in listed(plan.body) if (found := _sums(op))[1])
        return cls(timing.card_us, timing.band * timing.card_us, at_best.card_us, sums)


@dataclass(frozen=True, slots=True)
class Planner:
    """How candidates are judged: a program whose ops run in one loop, along a dim of each, with so many tiles; 1: without it.

    `fit`: whether a program can have all of some loops.
    """

    machine: Machine
    judged: Callable[[Program, Sequence[int], int], Judged]
    fit: Callable[[Program, Sequence[TiledChain]], bool]
    key: Hashable  # all that this depends on

    @property
    def room(self) -> int:
        """Bytes of all scratchpads."""
        return self.machine.cores * self.machine.scratchpad_planned_bytes_per_core


_known: Memo[Judged | None] = Memo(1 << 10)


def tiled_chains(program: Program, planner: Planner) -> list[TiledChain]:
    """Loops that pay, none of which share an op."""
    large = _large(program, planner.room)
    if not large:
        return []
    return _Search(program, planner, large).found()


def _large(program: Program, room: int) -> dict[str, int]:
    """Tensors that cannot all be in the scratchpads while they are needed, with their bytes, the largest first."""
    lives: dict[str, list[int]] = {}
    for number, op in enumerate(program.ops):
        for access in op.accesses:
            lives.setdefault(access.buffer, []).append(number)
    buffers = {buffer.name: buffer for buffer in program.buffers}
    sizes = {
        name: bytes_of(buffers[name])
        for name, uses in lives.items()
        if buffers[name].role not in (Role.CONSTANT, Role.UPDATE) and uses[-1] > uses[0] and not buffers[name].unset
    }
    if sum(sizes.values()) <= room:
        return {}
    live = [0] * (len(program.ops) + 1)
    for name, bytes_ in sizes.items():
        live[lives[name][0]] += bytes_
        live[lives[name][-1] + 1] -= bytes_
    live = list(accumulate(live))
    tight = {
        name: bytes_
        for name, bytes_ in sizes.items()
        if bytes_ > _SMALL * room and max(live[lives[name][0] : lives[name][-1] + 1]) > room
    }
    return dict(sorted(tight.items(), key=lambda item: (-item[1], lives[item[0]][0])))


class _Search:
    def __init__(self, program: Program, planner: Planner, large: dict[str, int]) -> None:
        self.program, self.planner, self.large = program, planner, large
        self.flow = Flow(program.ops, {buffer.name: buffer for buffer in program.buffers})
        self.taken: set[int] = set()
        self.tried: set[Hashable] = set()
        self.spent = 0

    def found(self) -> list[TiledChain]:
        """From the largest tensor on; those of a loop that did not pay are left to others only once somebody has taken a part of it."""
        chains: list[TiledChain] = []
        waiting, left = list(self.large), set(self.large)
        while waiting:
            name = waiting.pop(0)
            users = [*self.flow.writers[name], *self.flow.readers[name]]
            seed = next((n for n in users if n not in self.taken and self.flow.can_join(n)), None)
            if seed is None or name not in left:
                continue
            # Through all that is between the ops; if that does not pay, through large tensors alone.
            loops = list(self._loops(seed, name, self._is_ours))
            best = self._best(loops)
            if best is None:
                fewer = [dims for dims in self._loops(seed, name, self._is_large) if dims not in loops]
                loops, best = [*loops, *fewer], self._best(fewer)
            chain = None if best is None else TiledChain(tuple(best[0].items()), best[1], name, self.large[name])
            if chain is None or not self.planner.fit(self.program, [*chains, chain]):
                left -= {name}.union(*map(self._inside, loops))
                continue
            chains.append(chain)
            self.taken |= {number for number, _ in chain.dims}
            left = set(self.large) - {one for chain in chains for one in self._inside(dict(chain.dims))}
            waiting = [name for name in self.large if name in left]
        return chains

    # --- loops
    def _loops(self, seed: int, name: str, joins: Callable[[str], bool]) -> Iterator[dict[int, int]]:
        """Loops around an op along each dim in which it walks through a tensor."""
        op = self.flow.ops[seed]
        access = next(a for a in op.accesses if a.buffer == name)
        for dim, extent in enumerate(op.dims):
            if extent.size > 1 and not extent.reduced and access.strides[dim]:
                dims = grown(self.flow, seed, dim, joins, self.taken)
                if len(dims) > 1:
                    yield dims

    def _is_large(self, name: str) -> bool:
        return name in self.large

    def _is_ours(self, name: str) -> bool:
        return name in self.large or self.flow.buffers[name].role is Role.TEMP

    def _inside(self, dims: dict[int, int]) -> set[str]:
        """Large tensors that nobody outside a loop needs."""
        own = set(dims)
        return {n for n in self.large if own.issuperset([*self.flow.writers[n], *self.flow.readers[n]])}

    # --- gains
    def _best(self, loops: Sequence[dict[int, int]]) -> tuple[dict[int, int], Gain] | None:
        """The loop that gains most, if that is sure: each is tried with the fewest tiles that fit, the best with others."""
        tried = [(dims, gain) for dims in loops for gain in self._first_gains(dims)]
        if not tried:
            return None
        dims, gain = max(tried, key=lambda pair: pair[1].us)
        gain = self._with_other_counts(dims, gain)
        return (dims, gain) if gain.is_sure else None

    def _first_gains(self, dims: dict[int, int]) -> Iterator[Gain]:
        """With tiles that fit, and, where these are few, with one tile for each place of the dim: a batch of one is no batch."""
        program, counts = region(self.flow, dims), self._counts(dims)
        size = tiled_size(self.flow, dims)
        for count in dict.fromkeys([*counts[:1], *([size] if size in counts else [])]):
            if (gain := self._gain(dims, program, count)) is not None:
                yield gain

    def _with_other_counts(self, dims: dict[int, int], best: Gain) -> Gain:
        """As long as it gains, more tiles, then fewer."""
        program, counts = region(self.flow, dims), self._counts(dims)
        place = counts.index(best.count)
        for others in (counts[place + 1 :], counts[:place][::-1]):
            for count in others:
                gain = self._gain(dims, program, count)
                if gain is None or gain.after_us >= best.after_us:
                    break
                best = gain
        return best

    def _counts(self, dims: dict[int, int]) -> list[int]:
        """Numbers of tiles from the fewest with which the temporaries of a loop fit on."""
        peak = peak_bytes(region(self.flow, dims))
        return [n for n in _counts(tiled_size(self.flow, dims)) if n * self.planner.room >= peak]

    def _gain(self, dims: dict[int, int], program: Program, count: int) -> Gain | None:
        along = tuple(dims.values())
        before = self._judged(program, along, 1)
        if before is None or not before.could_gain:
            return None
        after = self._judged(program, along, count)
        if after is None or after.sums != before.sums:
            return None
        stays = self._could_stay_us(dims)
        return Gain(count, before.time_us - stays, after.time_us, max(before.error_us, after.error_us))

    def _judged(self, program: Program, along: tuple[int, ...], count: int) -> Judged | None:
        """Equal chains share it; what they cost together is limited, and does not depend on what was compiled before."""
        key = key_of(program, along if count > 1 else ()), self.planner.key, count
        if key not in self.tried:
            if self.spent + len(program.ops) > _MOST_OPS:
                return None
            self.tried.add(key)
            self.spent += len(program.ops)
        return _known.get(key, lambda: _of_tiles(self.planner, program, along, count))

    def _could_stay_us(self, dims: Iterable[int]) -> float:
        """What comes in or goes out through memory because of the loop, and might have stayed without it."""
        rate = self.planner.machine.rates.memory.gb_per_s * 1e3
        temps = [buffer for buffer in crossing(self.flow, list(dims)) if buffer.name not in self.large]
        sizes = [bytes_of(buffer) for buffer in temps]
        return sum(2 * bytes_ for bytes_ in sizes if bytes_ <= self.planner.room) / rate


def _counts(size: int) -> list[int]:
    found: list[int] = []
    for count in range(2, min(size, _MOST_TILES) + 1):
        if size % count == 0 and (not found or count >= _FEWER * found[-1]):
            found.append(count)
    return found


def _of_tiles(planner: Planner, program: Program, dims: Sequence[int], count: int) -> Judged | None:
    """None if such tiles cannot be had."""
    try:
        return planner.judged(program, dims, count)
    except InvalidArgument:
        return None


def _all_inside(plan: Program) -> Program:
    """As if there were room for everything."""
    buffers = [replace(b, place=InScratchpad(0)) if b.role is Role.TEMP else b for b in plan.buffers]
    return replace(plan, buffers=tuple(buffers))


def _sums(op: Op) -> tuple[str, tuple[tuple[int, int], ...]]:
    """How an op's sums are divided: bits hang on it."""
    return op.name, tuple((dim.size, dim.split) for dim in op.dims if dim.reduced)
