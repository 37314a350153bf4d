"""The hardware's ops by their documented names (opFuncName): the unit that computes them, what they take, which constants they need."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from openspyre.spec.formats import DataFormats


class Shape(StrEnum):
    """What an op does with its iteration space; decides the rules on sticks."""

    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    CONTRACTION = "contraction"
    MOVEMENT = "movement"
    CAST = "cast"
    SEARCH = "search"


_NARROW = (DataFormats.SEN169_FP16,)
_WIDE = (*_NARROW, DataFormats.IEEE_FP32)
_MOVED = (
    *_WIDE,
    DataFormats.SEN143_FP8,
    DataFormats.SEN152_FP8,
    DataFormats.IEEE_INT32,
    DataFormats.SENUINT32,
    DataFormats.SENINT16,
    DataFormats.SENINT8,
)


@dataclass(frozen=True, slots=True)
class HardwareOp:
    name: str
    shape: Shape
    unit: str = "sfp"
    inputs: int | None = 1
    constants: tuple[str, ...] = ()
    formats: tuple[DataFormats, ...] = _WIDE  # in which it takes and gives tensors
    gives_truth: bool = False  # 0.0 or 1.0, whatever it compares
    keeps_truth: bool = False  # 0.0 or 1.0 of tensors that have nothing else
    padding: float | None = None  # what elements behind the end of a dim count as, where they would matter


def _ops(shape: Shape, names: str, **fields: object) -> list[HardwareOp]:
    return [HardwareOp(name, shape, **fields) for name in names.split()]  # type: ignore[arg-type]


_INFINITY = float("inf")
_LIST: list[HardwareOp] = [
    *_ops(Shape.POINTWISE, "abs floor neg reciprocal relufwd rsqrt sigmoid sqrt"),
    *_ops(Shape.POINTWISE, "exp", padding=-_INFINITY),
    *_ops(Shape.POINTWISE, "gelufwd log mish relu6fwd silu tanh", formats=_NARROW),
    *_ops(Shape.POINTWISE, "add sub realdiv", inputs=2),
    *_ops(Shape.POINTWISE, "mul maximum minimum", inputs=2, keeps_truth=True),
    *_ops(
        Shape.POINTWISE,
        "equal notequal greaterthan greaterequal lesserthan lesserequal",
        inputs=2,
        gives_truth=True,
    ),
    *_ops(Shape.POINTWISE, "where3", inputs=3, keeps_truth=True),
    *_ops(Shape.POINTWISE, "clip", constants=("clipMin", "clipMax"), formats=_NARROW),
    *_ops(Shape.POINTWISE, "softplus", constants=("softplusBeta", "softplusThresh"), formats=_NARROW),
    *_ops(Shape.POINTWISE, "layernormscale", constants=("eps",)),
    *_ops(Shape.POINTWISE, "layernormnorm", inputs=5),
    *_ops(Shape.REDUCTION, "sum", padding=0.0),
    *_ops(Shape.REDUCTION, "max", padding=-_INFINITY, keeps_truth=True),
    *_ops(Shape.REDUCTION, "min", padding=_INFINITY, keeps_truth=True),
    *_ops(Shape.REDUCTION, "absmax", padding=0.0, formats=_NARROW),
    *_ops(Shape.REDUCTION, "prod", padding=1.0),
    *_ops(Shape.REDUCTION, "mean", constants=("scaling_factor",), padding=0.0),
    *_ops(Shape.REDUCTION, "exx2", constants=("exx2scale", "useZeroMean"), padding=0.0),
    *_ops(Shape.CONTRACTION, "batchmatmul", unit="pt", inputs=2, formats=_NARROW, padding=0.0),
    *_ops(
        Shape.CONTRACTION,
        "batchmatmulfp8",
        unit="pt",
        inputs=2,
        formats=(*_NARROW, DataFormats.SEN143_FP8, DataFormats.SEN152_FP8),
        padding=0.0,
    ),
    *_ops(Shape.MOVEMENT, "identity", formats=_MOVED, keeps_truth=True),
    *_ops(Shape.MOVEMENT, "ReStickifyOpHBM shuffle", formats=_MOVED),
    *_ops(Shape.CAST, "dl16tofp32 fp32todl16 fp8todl16 qfp8ch", formats=_MOVED),
    *_ops(Shape.SEARCH, "topkvalue"),
    *_ops(Shape.SEARCH, "topkindex", formats=(*_WIDE, DataFormats.IEEE_INT32, DataFormats.SENUINT32)),
]
MOST_RANKS = 128  # that topkvalue and topkindex find
HARDWARE: dict[str, HardwareOp] = {op.name: op for op in _LIST}
