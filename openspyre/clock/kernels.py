"""What the clock prices: one kernel as counted work, whoever counted it. Bytes are totals over all cores unless named otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """How a pointwise kernel meets its operands."""

    UNARY = "unary"
    FUNCTION = "function"  # one input, more work per element: gelu
    BINARY = "binary"
    COPY = "copy"
    ALONG_COLUMNS = "x + b[1, C]"
    ALONG_ROWS = "x + b[R, 1]"


@dataclass(frozen=True, slots=True)
class Runs:
    """How a core's part lies in memory: runs of so many bytes, so far apart. Zero: in one piece."""

    bytes: int = 0
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A map over elements. `scratchpad_bytes`: what it reads and writes there; `columns`: elements of a row."""

    form: Form
    read_bytes: int
    written_bytes: int
    cores: int
    runs: Runs = Runs()
    columns: int = 4096
    scratchpad_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Reduction:
    """Rows to one value each, or (`over_rows`) rows to one row. `sticks`: read, in memory or (`resident`) in scratchpads."""

    read_bytes: int
    written_bytes: int
    rows: int
    sticks: int
    cores: int
    stride: int = 0
    over_rows: bool = False
    resident: bool = False
    tiles: int = 1
    spilled: bool = False  # partial sums of the tiles go through memory


@dataclass(frozen=True, slots=True)
class Softmax:
    """max, sub, exp, sum, realdiv of rows in one launch, `tiles` one after the other."""

    rows: int
    columns: int
    cores: int
    tiles: int = 1
    runs: Runs = Runs()

    @property
    def bytes(self) -> int:
        return 2 * self.rows * self.columns


@dataclass(frozen=True, slots=True)
class Chain:
    """`ops` adds of one shape in a row, in one launch or (`separate`) in one each; `resident`: its middle may stay in scratchpads."""

    ops: int
    tensor_bytes: int
    cores: int
    runs: Runs = Runs()
    resident: bool = False
    separate: bool = False


class Move(StrEnum):
    RESTICKIFY = "restickify"
    CAT_COLUMNS = "cat of columns"
    CAT_ROWS = "cat of rows"
    OUTER = "outer transpose"


@dataclass(frozen=True, slots=True)
class Layout:
    """Elements to other places. `bytes`: read and written; `depth`: of [R, D, C] to [D, R, C]."""

    move: Move
    rows: int
    columns: int
    bytes: int
    runs: Runs = Runs()
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Division:
    """Over how many cores each dim of a matmul is divided."""

    b: int = 1
    m: int = 1
    n: int = 1
    k: int = 1

    @property
    def cores(self) -> int:
        return self.b * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Matmul:
    """[B, M, K] @ [B, K, N], or (`shared`) @ [K, N]. `resident`: operands not in memory.

    No division: the average over all of a batched product. Not `recorded`: the division is assumed, not told.
    """

    b: int
    m: int
    n: int
    k: int
    division: Division | None
    cores: int
    shared: bool = False
    first_resident: bool = False
    second_resident: bool = False
    result_resident: bool = False
    recorded: bool = True
    three_dims: bool = False  # both operands, though the batch may be 1
    # Of the first and the second operand: a matrix of the batch behind the other, not stick by stick. None: nobody told.
    plain: tuple[bool, bool] | None = None

    @property
    def batched(self) -> bool:
        return (self.b > 1 or self.three_dims) and not self.shared

    @property
    def macs(self) -> int:
        return self.b * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class Gather:
    """Rows by an index tensor: whole runs of a table, from where nobody can foretell."""

    read_bytes: int
    written_bytes: int
    rows: int
    cores: int


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Scratchpad to scratchpad over the rings."""

    bytes: int
    runs: int
    split: int
    cores: int


@dataclass(frozen=True, slots=True)
class Norm:
    """A step of a layer norm, or another op of the vector unit that nobody has measured alone."""

    read_bytes: int
    written_bytes: int
    sticks: int
    cores: int
    scratchpad_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """An op the hardware does not have: operands to the host, the CPU, results back. So the documents do."""

    down: tuple[int, ...]  # bytes of each operand
    up: tuple[int, ...]  # bytes of each result


Kernel = Pointwise | Reduction | Softmax | Chain | Layout | Matmul | Gather | Shuffle | Norm | RoundTrip
