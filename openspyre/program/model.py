"""A card's program as frozen data: steps that are affine loop nests over device memory, cut into slices for the cores.

Twin of `csrc/card/program.h`, whose comments define what each field does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from openspyre.spec.layout import SpyreTensorLayout
from openspyre.spec.ops.expression import Code

MAX_LOOPS, MAX_OPERANDS = 10, 8
ROW_SCALAR = 128  # names of row scalars begin here
MAX_ROWS, MAX_ROW_SCALARS, MAX_STAGE_CONSTANTS = 24, 16, 64


class OperandKind(StrEnum):
    VECTOR = "vector"
    SPLAT = "splat"
    IOTA = "iota"
    SCALAR = "scalar"
    STRIDED = "strided"

    @property
    def in_memory(self) -> bool:
        return self in (OperandKind.VECTOR, OperandKind.SPLAT, OperandKind.STRIDED)


class Space(StrEnum):
    MEMORY = "memory"
    SCRATCHPAD = "scratchpad"


class Use(StrEnum):
    """What the memory of a symbol is to whoever launches the program."""

    READ = "read"  # never written
    FRESH = "fresh"  # a result: no other symbol is in its memory
    SHARED = "shared"  # written, and may be the memory of another symbol as well
    SCRATCH = "scratch"  # nobody looks at it before or after the launch, and no other symbol is in its memory


class StepKind(StrEnum):
    MAP = "map"
    REDUCE = "reduce"
    ROWS = "rows"
    CONTRACT = "contract"
    RELAYOUT = "relayout"
    GATHER = "gather"
    SCATTER = "scatter"
    SCAN = "scan"
    SORT = "sort"


class Combine(StrEnum):
    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    ANY = "any"
    ALL = "all"
    ARG_MAX = "arg_max"
    ARG_MIN = "arg_min"


@dataclass(frozen=True, slots=True)
class Loop:
    extent: int
    split: int = 1
    reduced: bool = False


@dataclass(frozen=True, slots=True)
class LaneBlock:
    lanes: int
    extent: int
    block_loop: int  # -1: a single block
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


@dataclass(frozen=True, slots=True)
class View:
    """A strided view in host coordinates of a whole buffer: operands of a relayout."""

    symbol: int
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
    combine: Combine | None = None


@dataclass(frozen=True, slots=True)
class Contraction:
    """The second operand has a row of sticks along n for every k, or one along k for every n, `b_row_stride` elements apart.

    `a_code`, `b_code`: what elements of an operand go through before they are multiplied, one float in, one out.
    """

    k_extent: int
    k_lanes: int
    b_row_stride: int
    b_along_k: bool = False
    a_code: Code | None = None
    b_code: Code | None = None


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    kind: StepKind
    loops: tuple[Loop, ...] = ()
    lane: LaneBlock | None = None
    inputs: tuple[Operand, ...] = ()
    outputs: tuple[Operand, ...] = ()
    code: Code | None = None
    finish: Code | None = None
    combine: Combine | None = None
    stages: tuple[RowStage, ...] = ()
    row_results: tuple[int, ...] = ()  # row register, or 128 + row scalar, of each output
    contraction: Contraction | None = None
    views: tuple[View, ...] = ()  # relayout: source, target
    index_stride: int = 0
    index_bound: int = 0
    accumulate: bool = False
    cores: tuple[int, ...] = ()  # the core of each slice, first loop fastest; empty: slice i is core i's


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    symbols: tuple[str, ...]  # buffer names, in the order of a launch's addresses
    scalars: tuple[str, ...]
    steps: tuple[Step, ...]
    pool_bytes: int = 0  # temporaries, given by the launch as the last symbol if not 0
    whole_sticks: bool = False  # steps do not know which lanes are elements: lanes nobody wrote may be computed with
    uses: tuple[Use, ...] = ()  # of each symbol; empty: nobody has said, all may be shared. The pool is scratch.

    def use(self, symbol: int) -> Use:
        if symbol == len(self.symbols):
            return Use.SCRATCH
        return self.uses[symbol] if self.uses else Use.SHARED
