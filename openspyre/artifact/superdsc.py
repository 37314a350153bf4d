"""One SuperDSC as frozen data: what its documented fields say, and nothing else. The model of a file `sdsc_<i>.json`.

Dims go by their labels (mb, x, out, in, ...). Sizes count elements, padded to whole sticks where the op walks sticks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from openspyre.artifact.extensions.description import Description
from openspyre.spec.formats import STICK_BYTES, DataFormats
from openspyre.spec.origin import Change

PRESENT, BROADCAST, ONE_LANE = 1, -1, -2  # values of scale_


class Component(StrEnum):
    """Where a tensor lies."""

    MEMORY = "hbm"
    SCRATCHPAD = "lx"


class Indirection(StrEnum):
    NONE = "no_indirection"
    INDEX = "index_tensor"
    VALUE = "value_tensor"


@dataclass(frozen=True, slots=True)
class Axis:
    """A dim of the iteration space, divided into `split` equal slices.

    `valid`: how many of its elements are any, the rest being padding up to a whole stick. No field of the files says so: who reads
    them takes all for elements, and computes what nobody looks at.
    """

    label: str
    size: int
    split: int = 1
    valid: int | None = field(default=None, compare=False)

    @property
    def per_core(self) -> int:
        return self.size // self.split

    @property
    def elements(self) -> int:
        return self.size if self.valid is None else self.valid


@dataclass(frozen=True, slots=True)
class Mask:
    """Coordinates of a dim from `valid` on are read as the mask value."""

    label: str
    valid: int


@dataclass(frozen=True, slots=True)
class Constant:
    name: str
    format: DataFormats
    bits: int


@dataclass(frozen=True, slots=True)
class Stick:
    """What runs along a stick: a label and its elements, innermost first."""

    label: str
    size: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand. `order` has its dims from the innermost outwards, the stick dim where its sticks are counted."""

    name: str
    role: str
    format: DataFormats
    order: tuple[str, ...]
    sticks: tuple[Stick, ...]
    scales: tuple[tuple[str, int], ...]
    component: Component
    starts: tuple[int, ...]  # per core: a byte address, or the (negative) id of a symbol
    gaps: tuple[tuple[str, int], ...] = ()
    indirection: Indirection = Indirection.NONE
    indexed: str | None = None  # value tensor: the dim an index chooses along
    owners: tuple[tuple[tuple[str, int], ...], ...] = ()  # per core, its own slices (shuffle)

    @property
    def elems_per_stick(self) -> int:
        return self.format.elems_per_stick()

    @property
    def bytes_per_element(self) -> int:
        return STICK_BYTES // self.elems_per_stick

    @property
    def stick(self) -> str:
        """The dim that runs along its sticks; the last of several."""
        return self.sticks[-1].label

    def scale(self, label: str) -> int:
        """How the tensor meets a dim of the op."""
        for known, scale in self.scales:
            if known == label:
                return scale
        return BROADCAST

    def gap(self, label: str) -> int:
        for known, gap in self.gaps:
            if known == label:
                return gap
        return 0


@dataclass(frozen=True, slots=True)
class SourcePlace:
    file: str
    line: int
    function: str | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """`debug_handle_`: where the op came from. `ir_chain`: what it was called in torch's graphs and in the compiler, the earliest first."""

    id: str
    source: SourcePlace | None = None
    aten_op: str | None = None
    ir_chain: tuple[str, ...] = ()
    fused_from: tuple[Provenance, ...] = ()
    history: tuple[Change, ...] = ()
    module: str | None = None

    def __str__(self) -> str:
        place = f"{self.source.file}:{self.source.line}" if self.source else ""
        return " ".join(part for part in (self.aten_op or "", place) if part) or self.id


@dataclass(frozen=True)
class SuperDsc:
    """One op of the card: its dims, who computes which part, and every tensor with its place for each core."""

    name: str
    op: str
    unit: str
    format: DataFormats
    axes: tuple[Axis, ...]
    slices: tuple[tuple[int, ...], ...]  # per core, in the order of the axes
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]  # numbers of tensors
    outputs: tuple[int, ...]
    index: int | None = None
    constants: tuple[Constant, ...] = ()
    masks: tuple[Mask, ...] = ()
    provenance: Provenance | None = None
    extension: Description | None = (
        None  # what the documented fields cannot say of an op that the hardware does not have
    )

    @property
    def cores(self) -> int:
        return len(self.slices)

    @cached_property
    def axis(self) -> dict[str, Axis]:
        return {axis.label: axis for axis in self.axes}

    def constant(self, name: str) -> Constant | None:
        return next((constant for constant in self.constants if constant.name == name), None)

    @property
    def symbols(self) -> tuple[int, ...]:
        """Ids its addresses use, each once."""
        found = (start for tensor in self.tensors if tensor.component is Component.MEMORY for start in tensor.starts)
        return tuple(dict.fromkeys(start for start in found if start < 0))
