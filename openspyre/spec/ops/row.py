"""One op, one row: the record from which lowering, artifact names, card code, tests, benchmarks and the coverage page derive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from openspyre.spec.ops.expression import Value


class Kind(StrEnum):
    """The shape of an op's iteration space."""

    POINTWISE = "pointwise"  # every output element from the same element of each operand
    REDUCTION = "reduction"  # some dims are folded
    ROWS = "rows"  # a composite along dims: reductions and maps over one row
    MOMENTS = "moments"  # two sums along a row, side by side in one stick
    CONTRACTION = "contraction"  # sums of products
    MOVEMENT = "movement"  # elements go somewhere else, unchanged or converted
    INDEXED = "indexed"  # elements found through an index tensor
    CREATION = "creation"  # elements from numbers and their own places
    RANDOM = "random"  # elements from a seed, an offset and their own places
    SCAN = "scan"  # every element from all before it in its row
    SORT = "sort"  # rows in order
    SEARCH = (
        "search"  # the largest of a row, rank by rank: a dim counts the ranks, which the operand does not move along
    )


class Unit(StrEnum):
    SFP = "sfp"  # the vector unit
    PT = "pt"  # the matrix unit


class Promotion(StrEnum):
    """torch's ways from operand dtypes to the dtype an op computes in and returns."""

    DEFAULT = "default"
    INT_TO_FLOAT = "int_to_float"  # integers become the default float type
    COMPARE = "compare"  # computes in the common type, returns bool
    BOOL = "bool"  # operands as truth values, returns bool
    SUM = "sum"  # integers and bool are summed as int64


class Indexing(StrEnum):
    """What an op does where its index points."""

    READ = "read"
    WRITE = "write"
    ADD = "add"


class Fold(StrEnum):
    """How a reduction combines: ascending along dims, lanes folded in halves (contract N6)."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    ANY = "any"
    ALL = "all"
    ARG_MAX = "arg_max"
    ARG_MIN = "arg_min"


class OpClass(StrEnum):
    """Whose op a row is."""

    HARDWARE = "hardware"  # one op of the card, by a documented name
    COMPOSITE = "composite"  # a sequence of the card's ops: gone before layouts are chosen
    EXTENSION = "extension"  # this card's alone; on hardware the host would do it


class Precision(StrEnum):
    """What the ops of a composite round to."""

    OWN = "own"  # the format of its result
    FP32 = "fp32"  # fp32: operands are widened first, the result is rounded last


@dataclass(frozen=True, slots=True)
class Samples:
    """Where tests and benchmarks draw operands from: (low, high) per operand, the last one repeated; `whole` for integers."""

    low: float = -4.0
    high: float = 4.0
    whole: bool = False
    nonzero: bool = False


@dataclass(frozen=True, slots=True)
class OnTruths:
    """The op of the hardware that a row is of truth values, 0.0 and 1.0 there, and the numbers it takes behind them."""

    artifact: str
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """Everything about one op. `artifact` is its opFuncName; `documented` False marks an extension of ours."""

    name: str
    kind: Kind
    summary: str
    artifact: str
    documented: bool = False
    composite: Precision | None = None  # its body is a sequence of other rows
    order: tuple[int, ...] | None = None  # its operands in the order of the hardware's op, if that is another
    on_truths: OnTruths | None = None
    as_given: bool = False  # the operand itself, in the format of the result
    undecided: bool = False  # a movement: layouts will say which op of the hardware it is, if any
    kept_where: str | None = None  # of a triangle: the row that compares `apart` with the diagonal
    pairs: bool = False  # its two operands lie side by side in one stick, one tensor to the hardware
    mixes_formats: bool = False  # operands may be fp32 beside 16 bits; the result is as the first
    unit: Unit = Unit.SFP
    aten: tuple[str, ...] = ()
    operands: int = 1
    scalars: tuple[str, ...] = ()  # parameters supplied at launch, after the operands
    constants: tuple[str, ...] = ()  # their names in the artifact's constantInfo_
    checked: tuple[
        str, ...
    ] = ()  # "Scalar min": aten numbers that torch refuses where the dtype does not hold them, as all `scalars`
    orders: bool = False  # compares, bounds or copies integers: int64's two ends may stand for the card's
    divides: bool = False  # the second operand is a divisor: of integers no 0
    sign_matters: tuple[str, ...] = ()  # aten numbers whose negative values are another case
    fixed: tuple[tuple[str, object], ...] = ()  # aten arguments that must have this value for the row to apply
    promotion: Promotion = Promotion.DEFAULT
    body: Callable[..., Value] | None = None  # pointwise; for reductions the map before the fold
    widened: Callable[..., Value] | None = None  # of 16-bit operands: other rows in fp32, where only those compute it
    fold: Fold | None = None
    finish: Callable[..., Value] | None = (
        None  # from the total, and fp32(1 / folded elements) if it takes two, to the result
    )
    of_nothing: float | None = None  # a reduction over no elements; None where torch has no answer either
    indexing: Indexing | None = None
    by_element: bool = False  # indexed: one element at a time, all operands in flat buffers
    integers: bool = True  # takes integer dtypes
    floats: bool = True
    ulps: int = 1  # error bound in units of the result's last place against the exact result
    samples: Samples = field(default_factory=Samples)

    @property
    def op_class(self) -> OpClass:
        if self.composite is not None or self.widened is not None:
            return OpClass.COMPOSITE
        return OpClass.HARDWARE if self.documented else OpClass.EXTENSION

    @property
    def compares(self) -> bool:
        return self.promotion is Promotion.COMPARE

    @property
    def by_view(self) -> bool:
        """Elements are found through host views of the buffers, not along sticks."""
        return self.kind is Kind.MOVEMENT or self.by_element
