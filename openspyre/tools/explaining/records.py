"""What an explanation says, as frozen data: executions, what lies in scratchpads, launches, totals with their two bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from openspyre.spec.errors import InvalidArgument
from openspyre.spec.machine import Machine
from openspyre.tools.explaining.lines import lines_of

if TYPE_CHECKING:
    from openspyre.tools.explaining.comparing import Comparison


@dataclass(frozen=True, slots=True)
class Dim:
    """A dim of the iteration space, cut into so many slices."""

    label: str
    size: int
    slices: int


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of an execution: what it is called, where it lies (`memory` or `scratchpad`), its bytes in one run."""

    name: str
    place: str
    written: bool
    bytes: int


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution. Bytes and work are of all its runs on all cores; each operand counts once a run."""

    number: int
    name: str
    op: str
    kernel_class: str
    runs: int
    dims: tuple[Dim, ...]
    cores: int
    operands: tuple[Operand, ...]
    memory_read_bytes: int
    memory_written_bytes: int
    scratchpad_bytes: int
    ring_bytes: int
    host_link_bytes: int
    macs: int  # of the PT arrays
    vector_elements: int  # of the SFPs
    start_us: float  # after the first execution of its launch began
    time_us: float
    low_us: float
    high_us: float
    band_is_measured: bool
    bound: str
    parts_us: dict[str, float]  # how long each resource would be busy if it worked alone, one run
    share: float  # of all executions of all launches
    source: str
    modules: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()  # what it was called in torch's graphs and in the compiler
    history: tuple[str, ...] = ()  # what passes did to it

    @property
    def memory_bytes(self) -> int:
        return self.memory_read_bytes + self.memory_written_bytes

    @property
    def division(self) -> str:
        """`mb 4, out 8`: only dims that are cut."""
        return ", ".join(f"{dim.label} {dim.slices}" for dim in self.dims if dim.slices > 1) or "-"


@dataclass(frozen=True, slots=True)
class Resident:
    """A tensor in the scratchpads: bytes [first, end) of each core, from the execution that writes it to its last reader."""

    name: str
    first: int
    end: int
    written_by: int
    last_read_by: int


@dataclass(frozen=True, slots=True)
class KeptOut:
    """A tensor that goes from execution to execution through memory, and why. `written_by` None: it comes from outside."""

    name: str
    place: str
    bytes: int
    written_by: int | None
    read_by: tuple[int, ...]
    why: str

    @property
    def first_why(self) -> str:
        return self.why.split("; ", 1)[0]


@dataclass(frozen=True, slots=True)
class Tiled:
    """Ops that run in a loop without a hint. `large`: a tensor of theirs for which the scratchpads have no room together with the others.

    Times are of these ops alone, without the loop and with it; `error_us`: how far the clock may be off.
    """

    ops: tuple[str, ...]
    executions: tuple[int, ...]
    tiles: int
    large: str
    large_bytes: int
    before_us: float
    after_us: float
    error_us: float


@dataclass(frozen=True, slots=True)
class Launch:
    """`kept_out`: largest first. `tiled`: what the clock asked to be tiled. `edges`: from the execution that writes to one that reads. `data_bytes`: what comes from outside or leaves it, once. `peak_macs_us`: its products at the peak of the arrays."""

    name: str
    executions: tuple[Execution, ...]
    residents: tuple[Resident, ...]
    kept_out: tuple[KeptOut, ...]
    edges: tuple[tuple[int, int], ...]
    card_us: float
    round_trips_us: float
    launch_us: float
    band: float
    published_us: float  # by the published formula, a second model
    data_bytes: int
    peak_macs_us: float
    tiled: tuple[Tiled, ...] = ()


@dataclass(frozen=True, slots=True)
class Fallback:
    """An operator between the launches that the CPU computes, all its calls together."""

    name: str
    calls: int
    bytes: int
    time_us: float


@dataclass(frozen=True, slots=True)
class Saving:
    """Something that could be better, with what it is worth by the clock."""

    us: float
    share: float
    text: str


@dataclass(frozen=True, slots=True)
class Totals:
    card_us: float
    low_us: float
    high_us: float
    round_trips_us: float
    launches_us: float
    published_us: float
    memory_bytes: int
    scratchpad_bytes: int
    ring_bytes: int
    macs: int
    vector_elements: int
    data_bytes: int
    data_once_us: float  # through memory, at its peak on paper
    peak_macs_us: float  # at the peak on paper

    @property
    def bound_us(self) -> float:
        return max(self.data_once_us, self.peak_macs_us)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Launches in order on a machine. Printable; `note` says what of the machine is only supposed."""

    launches: tuple[Launch, ...]
    machine: Machine
    note: str = ""
    savings: tuple[Saving, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()

    @property
    def executions(self) -> Iterator[Execution]:
        return (execution for launch in self.launches for execution in launch.executions)

    @property
    def totals(self) -> Totals:
        card = sum(launch.card_us for launch in self.launches)
        off = sum(launch.card_us * launch.band for launch in self.launches)
        data = sum(launch.data_bytes for launch in self.launches)
        found = list(self.executions)
        return Totals(
            card,
            card - off,
            card + off,
            sum(launch.round_trips_us for launch in self.launches) + sum(f.time_us for f in self.fallbacks),
            sum(launch.launch_us for launch in self.launches),
            sum(launch.published_us for launch in self.launches),
            sum(execution.memory_bytes for execution in found),
            sum(execution.scratchpad_bytes for execution in found),
            sum(execution.ring_bytes for execution in found),
            sum(execution.macs for execution in found),
            sum(execution.vector_elements for execution in found),
            data,
            data / self.machine.device_memory_bytes_per_second * 1e6,
            sum(launch.peak_macs_us for launch in self.launches),
        )

    def record(self) -> dict[str, object]:
        """Everything, as JSON has it."""
        machine = {
            "cores": self.machine.cores,
            "scratchpad_bytes_per_core": self.machine.scratchpad_bytes_per_core,
            "device_memory_bytes_per_second": self.machine.device_memory_bytes_per_second,
            "fp16_flops_per_second": self.machine.fp16_flops_per_second,
        }
        launches = [asdict(launch) for launch in self.launches]
        savings = [asdict(saving) for saving in self.savings]
        totals = asdict(self.totals)
        lines = lines_of({execution.source for execution in self.executions})
        return {
            "machine": machine,
            "note": self.note,
            "totals": totals,
            "launches": launches,
            "savings": savings,
            "fallbacks": [asdict(fallback) for fallback in self.fallbacks],
            "lines": lines,
        }

    def json(self) -> str:
        return json.dumps(self.record(), indent=2, allow_nan=False)

    def __str__(self) -> str:
        from openspyre.tools.explaining.text import render  # it shows what is here

        return "\n".join(render(self))

    def against(self, other: Explanation) -> Comparison:
        """Two plans side by side."""
        from openspyre.tools.explaining.comparing import compare

        return compare(self, other)

    def html(self, path: str | Path) -> None:
        """Writes one page that needs nothing else: table with search, cores and scratchpads over time, roofline."""
        from openspyre.tools.explaining.page import page

        try:
            Path(path).write_text(page(self), encoding="utf-8")
        except OSError as error:
            raise InvalidArgument(f"the page cannot be written to {path}: {error.strerror}") from error
