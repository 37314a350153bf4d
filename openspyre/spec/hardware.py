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


@dataclass(frozen=True, slots=True)
class HardwareOp:
    name: str
    shape: Shape
    unit: str = "sfp"
    inputs: int | None = 1
    constants: tuple[str, ...] = ()


def _ops(shape: Shape, names: str, **fields: object) -> list[HardwareOp]:
    return [HardwareOp(name, shape, **fields) for name in names.split()]  # type: ignore[arg-type]


_LIST: list[HardwareOp] = [
    *_ops(
        Shape.POINTWISE, "abs exp floor gelufwd log mish neg reciprocal relufwd relu6fwd rsqrt sigmoid silu sqrt tanh"
    ),
    *_ops(Shape.POINTWISE, "add sub mul realdiv maximum minimum", inputs=2),
    *_ops(Shape.POINTWISE, "equal notequal greaterthan greaterequal lesserthan lesserequal", inputs=2),
    *_ops(Shape.POINTWISE, "where3", inputs=3),
    *_ops(Shape.POINTWISE, "clip", constants=("clipMin", "clipMax")),
    *_ops(Shape.POINTWISE, "softplus", constants=("softplusBeta", "softplusThresh")),
    *_ops(Shape.POINTWISE, "layernormscale", constants=("eps",)),
    *_ops(Shape.POINTWISE, "layernormnorm", inputs=5),
    *_ops(Shape.REDUCTION, "sum max min absmax prod"),
    *_ops(Shape.REDUCTION, "mean", constants=("scaling_factor",)),
    *_ops(Shape.REDUCTION, "exx2", constants=("exx2scale", "useZeroMean")),
    *_ops(Shape.CONTRACTION, "batchmatmul batchmatmulfp8", unit="pt", inputs=2),
    *_ops(Shape.MOVEMENT, "identity ReStickifyOpHBM shuffle"),
    *_ops(Shape.CAST, "dl16tofp32 fp32todl16 fp8todl16 qfp8ch"),
    *_ops(Shape.SEARCH, "topkvalue topkindex"),
]
HARDWARE: dict[str, HardwareOp] = {op.name: op for op in _LIST}

_ANYWHERE = (DataFormats.SEN169_FP16,)
_IN_FP32 = frozenset(
    [
        "add",
        "sub",
        "mul",
        "where3",
        "realdiv",
        "relufwd",
        "reciprocal",
        "mean",
        "sum",
        "max",
        "min",
        "prod",
        "layernormscale",
        "abs",
        "neg",
        "exp",
        "sigmoid",
        "exx2",
        "layernormnorm",
        "sqrt",
        "rsqrt",
        "topkvalue",
        "topkindex",
        "floor",
        "maximum",
        "minimum",
        "equal",
        "notequal",
        "greaterthan",
        "greaterequal",
        "lesserthan",
        "lesserequal",
    ]
)
_MOVED = (
    DataFormats.SEN169_FP16,
    DataFormats.IEEE_FP32,
    DataFormats.SEN143_FP8,
    DataFormats.SEN152_FP8,
    DataFormats.IEEE_INT32,
    DataFormats.SENUINT32,
    DataFormats.SENINT16,
    DataFormats.SENINT8,
)


def formats_of_op(op: HardwareOp) -> tuple[DataFormats, ...]:
    """Formats in which an op takes and gives tensors."""
    if op.shape in (Shape.MOVEMENT, Shape.CAST):
        return _MOVED
    if op.name == "batchmatmulfp8":
        return (*_ANYWHERE, DataFormats.SEN143_FP8, DataFormats.SEN152_FP8)
    if op.name == "topkindex":
        return (*_ANYWHERE, DataFormats.IEEE_FP32, DataFormats.IEEE_INT32, DataFormats.SENUINT32)
    return (*_ANYWHERE, DataFormats.IEEE_FP32) if op.name in _IN_FP32 else _ANYWHERE
