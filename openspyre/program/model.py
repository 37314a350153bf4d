"""A card's program as frozen data: a tree of counted loops and steps, which are affine loop nests over device memory, cut into
slices for the cores.

Twin of `csrc/card/program/program.h`, whose comments define what each field does; a `Dim` is its `Loop`. Enumerations and limits stand here
alone: C++ has them from `csrc/generate.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops.expression import Code
from openspyre.spec.ops.row import Fold

MAX_DIMS, MAX_OPERANDS = 10, 8
LANE_UNIT, MAX_LANES = 32, 1024  # a block has a multiple of so many lanes, and at most so many
ROW_SCALAR = 128  # names of row scalars begin here
MAX_ROWS, MAX_ROW_SCALARS, MAX_STAGE_CONSTANTS = 24, 16, 64


class OperandKind(StrEnum):
    """Where an operand's values come from. An output is a vector, or a splat: then lane 0 is stored, one element per point."""

    VECTOR = "vector"  # a block's lanes are sticks, `tile_stride` elements apart
    SPLAT = "splat"  # the one value at lane 0 serves all lanes
    IOTA = "iota"  # no memory: offset + sum(index * stride) + lane * tile_stride, an int32
    SCALAR = "scalar"  # number `symbol` of the launch: 32 bits as a register has them
    STRIDED = "strided"  # a block's lanes are `tile_stride` elements apart, across the sticks of a tensor

    @property
    def in_memory(self) -> bool:
        return self in (OperandKind.VECTOR, OperandKind.SPLAT, OperandKind.STRIDED)


class Space(StrEnum):
    """Where an operand lies. Scratchpads: offsets count from their first byte, indices from the core's first."""

    MEMORY = "memory"
    SCRATCHPAD = "scratchpad"


class Use(StrEnum):
    """What the memory of a symbol is to whoever launches the program."""

    READ = "read"  # never written
    FRESH = "fresh"  # a result: no other symbol is in its memory
    SHARED = "shared"  # written, and may be the memory of another symbol as well
    SCRATCH = "scratch"  # nobody looks at it before or after the launch, and no other symbol is in its memory


@dataclass(frozen=True, slots=True)
class Dim:
    """Of a step's nest: `extent` passes in `split` slices, each a core's."""

    extent: int
    split: int = 1
    reduced: bool = False


@dataclass(frozen=True, slots=True)
class LaneBlock:
    lanes: int
    extent: int
    block_dim: int  # -1: a single block
    reduced: bool = False
    store_padding: bool = False


@dataclass(frozen=True, slots=True)
class Operand:
    """`dtype` and `data_format` (by name) say how an element is written."""

    kind: OperandKind
    symbol: int
    offset: int
    strides: tuple[int, ...]
    tile_stride: int = 0
    dtype: str = "float16"
    data_format: str = "SEN169_FP16"
    space: Space = Space.MEMORY
    owner: int = -1  # of the scratchpad; -1: the core that runs the step
    advance: tuple[int, ...] = ()  # elements per iteration of each repeat around the step, outermost first


@dataclass(frozen=True, slots=True)
class View:
    """A strided view in host coordinates of a whole buffer: one side of a relayout."""

    dtype: str
    layout: SpyreTensorLayout
    buffer_dtype: str
    buffer_size: tuple[int, ...]
    buffer_stride: tuple[int, ...]
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowStage:
    """One stage over a row: a map (combine None) of row registers and row scalars (128 + s), or a reduction of one row."""

    rows: tuple[int, ...]
    code: Code
    target: int
    combine: Fold | None = None


Head = tuple[str, tuple[Dim, ...], LaneBlock, tuple[Operand, ...], tuple[Operand, ...]]


@dataclass(frozen=True, slots=True)
class LoopNest:
    """What every step has but a relayout: dims, and operands that move along them."""

    name: str
    dims: tuple[Dim, ...]
    lane: LaneBlock
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    # The core of each slice, first dim fastest; empty: slice i is core i's.
    cores: tuple[int, ...] = field(default=(), kw_only=True)

    @property
    def head(self) -> Head:
        """What comes before the fields of its own in every step: `Map(*nest.head, code)`."""
        return self.name, self.dims, self.lane, self.inputs, self.outputs


@dataclass(frozen=True, slots=True)
class Map(LoopNest):
    """Code over inputs, stored to outputs."""

    code: Code


@dataclass(frozen=True, slots=True)
class Reduce(LoopNest):
    """`code` gives one register, `combine` folds it over reduced dims and lanes, `finish` maps the total."""

    code: Code
    combine: Fold
    finish: Code


@dataclass(frozen=True, slots=True)
class Rows(LoopNest):
    """Stages of map and reduce over one row, fp32 in between."""

    stages: tuple[RowStage, ...]
    results: tuple[int, ...]  # row register, or 128 + row scalar, of each output


@dataclass(frozen=True, slots=True)
class Contract(LoopNest):
    """outputs[0][.., n] = sum over k of inputs[0][.., k] * inputs[1][.., k, n].

    The second operand has a row of sticks along n for every k, or one along k for every n, `b_row_stride` elements apart.
    `a_code`, `b_code`: what elements of an operand go through before they are multiplied, one float in, one out.
    """

    k_extent: int
    k_lanes: int
    b_row_stride: int
    b_along_k: bool = False
    a_code: Code | None = None
    b_code: Code | None = None


@dataclass(frozen=True, slots=True)
class Gather(LoopNest):
    """Rows of a table, inputs[0], by an index tensor, inputs[1]."""

    code: Code
    index_stride: int
    index_bound: int


@dataclass(frozen=True, slots=True)
class Scatter(LoopNest):
    """The reverse: inputs[0] set, or added (`accumulate`), where inputs[1] says."""

    code: Code
    index_stride: int
    index_bound: int
    accumulate: bool


@dataclass(frozen=True, slots=True)
class Scan(LoopNest):
    """Running sum or product of rows of elements one behind the other, read and written as splats. Dims: rows, elements of a row."""

    combine: Fold


@dataclass(frozen=True, slots=True)
class Sort(LoopNest):
    """Rows as a scan's; a third dim counts the elements kept, largest (max) or smallest (min) first: values, and int32 places."""

    combine: Fold


@dataclass(frozen=True, slots=True)
class Relayout:
    """Elements from one view to another, any layouts: a copy of the DMA's. Its operands tell where the two buffers begin."""

    name: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    source: View
    target: View


Step = Map | Reduce | Rows | Contract | Relayout | Gather | Scatter | Scan | Sort


@dataclass(frozen=True, slots=True)
class Repeat:
    """A counted loop: its body runs `count` times, each time with the operands in memory moved by their `advance`."""

    count: int
    body: tuple[Node, ...]


Node = Step | Repeat


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    symbols: tuple[str, ...]  # buffer names, in the order of a launch's addresses
    scalars: tuple[str, ...]
    body: tuple[Node, ...]
    pool_bytes: int = 0  # temporaries, given by the launch as the last symbol if not 0
    whole_sticks: bool = False  # steps do not know which lanes are elements: lanes nobody wrote may be computed with
    uses: tuple[Use, ...] = ()  # of each symbol; empty: nobody has said, all may be shared. The pool is scratch.

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step once, in the order of the text, those in repeats too."""
        return tuple(_listed(self.body))

    def use(self, symbol: int) -> Use:
        if symbol == len(self.symbols):
            return Use.SCRATCH
        return self.uses[symbol] if self.uses else Use.SHARED


def _listed(body: tuple[Node, ...]) -> Iterator[Step]:
    for node in body:
        match node:
            case Repeat(_, inner):
                yield from _listed(inner)
            case step:
                yield step
