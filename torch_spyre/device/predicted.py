"""`torch.spyre.predicted_time()`: what the launches of any code would take on a real card, by the clock. Eager too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from openspyre.card.cards import settings_in_force
from openspyre.clock import ClassTime, KernelClass, predict
from openspyre.clock.bands import BANDS
from openspyre.clock.kernels import Form, Kernel, Layout, Move, Pointwise, RoundTrip
from openspyre.clock.transfers import from_card_us, launch, to_card_us
from openspyre.spec.formats import STICK_BYTES
from openspyre.spec.machine import Machine
from openspyre.tools.explaining.text import bytes_, table, us
from torch_spyre import _torch

_HOST = KernelClass.EXTENSION.value


@dataclass(frozen=True, slots=True)
class PredictedLaunch:
    """A launch: of an operator, a graph, a kernel, or of the copy within the card that torch asked for. `classes`: the longest first."""

    name: str
    classes: tuple[ClassTime, ...]

    @property
    def time_us(self) -> float:
        """On the card."""
        return sum(time.us for time in self.classes if time.kernel_class != _HOST)

    @property
    def off_us(self) -> float:
        """Nine of ten are off by this at most."""
        return sum(time.us * time.off for time in self.classes if time.kernel_class != _HOST)

    @property
    def round_trips_us(self) -> float:
        """Ops inside that a real card does not have: to the CPU and back."""
        return sum(time.us for time in self.classes if time.kernel_class == _HOST)

    @property
    def kernel_class(self) -> str:
        """The class that takes longest on the card."""
        on_card = [time.kernel_class for time in self.classes if time.kernel_class != _HOST]
        return next(iter(on_card), _HOST if self.classes else "")


@dataclass(frozen=True, slots=True)
class PredictedCopy:
    """A copy over the host link."""

    to_card: bool
    bytes: int
    time_us: float


@dataclass(frozen=True, slots=True)
class PredictedFallback:
    """An operator that ran on the CPU, with its operands' way there and its results' way back."""

    name: str
    bytes_to_host: int
    bytes_to_card: int
    time_us: float


Predicted = PredictedLaunch | PredictedCopy | PredictedFallback


class PredictedTime:
    """What `with torch.spyre.predicted_time() as predicted:` gives; `print(predicted)` tells all.

    Each of several at work, nested or in other threads, has its own record. It can be read while it is still open.
    """

    def __init__(self, all_threads: bool) -> None:
        self._recorder = _torch.Recorder(all_threads)
        self._entered = self._exited = False
        self._closed: tuple[Predicted, ...] | None = None  # what it says once nothing is added any more

    def __enter__(self) -> PredictedTime:
        if self._entered:
            raise RuntimeError("predicted_time() records once: make another one for another block")
        _torch.ensure_configured()
        self._entered = True
        self._recorder.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._recorder.stop()
        self._exited = True

    @property
    def records(self) -> tuple[Predicted, ...]:
        """All of it, in order."""
        if self._closed is not None:
            return self._closed
        machine = settings_in_force().machine
        found = tuple(_predicted(machine, *record) for record in self._recorder.records())
        self._closed = found if self._exited else None
        return found

    @property
    def launches(self) -> tuple[PredictedLaunch, ...]:
        return tuple(record for record in self.records if isinstance(record, PredictedLaunch))

    @property
    def copies(self) -> tuple[PredictedCopy, ...]:
        return tuple(record for record in self.records if isinstance(record, PredictedCopy))

    @property
    def fallbacks(self) -> tuple[PredictedFallback, ...]:
        return tuple(record for record in self.records if isinstance(record, PredictedFallback))

    @property
    def total_us(self) -> float:
        """What the card would be busy with the launches. Copies, round trips to the CPU and the host's own time stand apart."""
        return sum(one.time_us for one in self.launches)

    @property
    def low_us(self) -> float:
        return self.total_us - sum(one.off_us for one in self.launches)

    @property
    def high_us(self) -> float:
        return self.total_us + sum(one.off_us for one in self.launches)

    @property
    def copies_us(self) -> float:
        return sum(copy.time_us for copy in self.copies)

    @property
    def round_trips_us(self) -> float:
        """CPU fallbacks, and ops inside launches that a real card does not have."""
        return sum(one.round_trips_us for one in self.launches) + sum(one.time_us for one in self.fallbacks)

    @property
    def host_us(self) -> float:
        """What the runtime of a real card spends on so many launches, on the host."""
        return len(self.launches) * launch(settings_in_force().machine).time_us

    def __str__(self) -> str:
        return "\n".join(_told(self))

    def __repr__(self) -> str:
        return f"<predicted_time: {us(self.total_us)}, {len(self.launches)} launches>"


@lru_cache(maxsize=4096)
def _predicted(
    machine: Machine,
    what: str,
    name: str,
    classes: tuple[tuple[str, float, float], ...],
    down: int,
    up: int,
    turned: bool,
) -> Predicted:
    match what:
        case "launch":
            return PredictedLaunch(name, tuple(ClassTime(*time) for time in classes))
        case "within card":
            return PredictedLaunch("copy within the card", _within(down, turned, machine))
        case "fallback":
            return PredictedFallback(name, down, up, predict(RoundTrip((down,), (up,)), machine).time_us)
        case "to card":
            return PredictedCopy(True, up, to_card_us(up, machine))
    return PredictedCopy(False, down, from_card_us(down, machine))


def _within(bytes_: int, turned: bool, machine: Machine) -> tuple[ClassTime, ...]:
    """Our card's DMA does it; on a real one it is a kernel."""
    whole = -(-bytes_ // STICK_BYTES) * STICK_BYTES
    if turned:
        kernel: Kernel = Layout(Move.RESTICKIFY, whole // STICK_BYTES, STICK_BYTES // 2, 2 * whole)
    else:
        kernel = Pointwise(Form.COPY, whole, whole, min(machine.cores, max(1, whole // STICK_BYTES)))
    found = predict(kernel, machine)
    return (ClassTime(found.kernel_class.value, found.time_us, found.band.p90),)


_HEAD = ("launch", "times", "class", "each", "all", "+-", "share")
_MOST = 20
_RIGHT = frozenset(["times", "each", "all", "+-", "share"])


def _told(predicted: PredictedTime) -> Iterator[str]:
    launches, copies = predicted.launches, predicted.copies
    if launches:
        total, off = sum(one.time_us for one in launches), sum(one.off_us for one in launches)
        band = f"nine of ten between {us(total - off)} and {us(total + off)}"
        yield f"{us(total)} on the card, {band}; {len(launches)} launch(es)"
        yield from (f"  {line}" for line in table(_HEAD, _rows(launches, total), _RIGHT))
    else:
        yield "nothing was launched on the card"
    up, down = (sum(copy.bytes for copy in copies if copy.to_card is way) for way in (True, False))
    if copies:
        moved = " and ".join(f"{bytes_(n)} {way}" for n, way in ((up, "to the card"), (down, "from it")) if n)
        yield f"apart from that {len(copies)} copies over the host link, {moved}: {us(predicted.copies_us)}"
    trips = {one.name for one in predicted.fallbacks} | {one.name for one in launches if one.round_trips_us}
    if trips:
        band = f"+- {BANDS[KernelClass.EXTENSION].p90:.0%}"
        yield f"apart from that round trips to the CPU, {', '.join(sorted(trips))}: {us(predicted.round_trips_us)} {band}"
    if launches:
        yield f"apart from that {us(predicted.host_us)} of the host's time, as a real card's runtime takes it for so many launches"


def _rows(launches: tuple[PredictedLaunch, ...], total: float) -> list[tuple[str, ...]]:
    """Launches of one name together, those that take longest first."""
    alike: dict[str, list[PredictedLaunch]] = {}
    for one in launches:
        alike.setdefault(one.name, []).append(one)
    rows = sorted(alike.items(), key=lambda item: -_sum(item[1]))
    told = [_row(name, group, total) for name, group in rows[:_MOST]]
    rest = [one for _, group in rows[_MOST:] for one in group]
    return [*told, _row(f"{len(rows) - _MOST} others", rest, total)] if rest else told


def _sum(launches: list[PredictedLaunch]) -> float:
    return sum(one.time_us for one in launches)


def _row(name: str, group: list[PredictedLaunch], total: float) -> tuple[str, ...]:
    whole, off = _sum(group), sum(one.off_us for one in group)
    low, high = min(one.time_us for one in group), max(one.time_us for one in group)
    each = us(low) if low == high else f"{us(low)} to {us(high)}"
    band = f"{off / whole:.0%}" if whole else "-"
    share = f"{whole / total:.1%}" if total else "-"
    return name, str(len(group)), _classes(group, whole), each, us(whole), band, share


def _classes(group: list[PredictedLaunch], whole: float) -> str:
    """`matmul`, or `matmul 71%, pointwise 20%`."""
    kinds: dict[str, float] = {}
    for one in group:
        for time in one.classes:
            if time.kernel_class != _HOST:
                kinds[time.kernel_class] = kinds.get(time.kernel_class, 0.0) + time.us
    if len(kinds) < 2 or not whole:
        return group[0].kernel_class
    told = [f"{kind} {taken / whole:.0%}" for kind, taken in sorted(kinds.items(), key=lambda item: -item[1])]
    return ", ".join(told[:3]) + (", ..." if len(told) > 3 else "")
