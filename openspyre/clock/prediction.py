"""What the clock answers: a time with its parts, what bounds it, and how far to trust it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Resource(StrEnum):
    MEMORY = "memory"
    CORE_STREAM = "core stream"  # what one core reads of an operand
    ARRAY = "array"  # the PT
    VECTOR = "vector"  # the SFP with its scratchpad ports
    RING = "ring"
    PARTIAL_SUMS = "partial sums"
    FIXED = "fixed"
    HOST_LINK = "host link"
    CPU = "cpu"


class KernelClass(StrEnum):
    """Kernels whose errors are alike."""

    POINTWISE = "pointwise"
    COPY = "copy and broadcast"
    REDUCTION = "reduction"
    SOFTMAX = "softmax"
    CHAIN = "chain"
    LAYOUT = "layout move"
    MATMUL = "matmul"
    MATMUL_UNKNOWN = "matmul, division unknown"
    BATCHED = "bmm"
    NORM = "norm"
    GATHER = "gather"
    SHUFFLE = "shuffle"
    SMALL = "small kernel"
    EXTENSION = "extension"
    LAUNCH = "launch"


@dataclass(frozen=True, slots=True)
class Band:
    """Error of a class on shapes held out of the fit, as shares of the measured time. `measured`: by a scoreboard, not by guess."""

    median: float
    p90: float
    measured: bool


@dataclass(frozen=True, slots=True)
class Part:
    resource: Resource
    us: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """One kernel's time. Overlapped parts are as long as each would take alone; `serial` ones come on top."""

    kernel_class: KernelClass
    time_us: float
    parts: tuple[Part, ...]
    serial: tuple[Part, ...]
    band: Band

    @property
    def bound(self) -> Resource:
        """What takes longest."""
        return max((*self.parts, *self.serial), key=lambda part: part.us).resource

    @property
    def low_us(self) -> float:
        return self.time_us * (1 - self.band.p90)

    @property
    def high_us(self) -> float:
        return self.time_us * (1 + self.band.p90)

    def part(self, resource: Resource) -> float:
        """How long one resource is busy: its longest overlapped part, and what comes on top."""
        longest = max((part.us for part in self.parts if part.resource is resource), default=0.0)
        return longest + sum(part.us for part in self.serial if part.resource is resource)


def settled(us: float) -> float:
    """A time to nine digits: libraries differ in the last bit of a power, and the same kernel takes the same time everywhere."""
    return float(f"{us:.9g}")


def overlapped(parts: tuple[Part, ...], power: float) -> float:
    """(sum of t^p)^(1/p): resources that work at the same time; the larger the power, the nearer to the longest alone."""
    longest = max((part.us for part in parts), default=0.0)
    if longest <= 0:
        return 0.0
    total: float = sum((part.us / longest) ** power for part in parts)
    return float(longest * total ** (1 / power))
