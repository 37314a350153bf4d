"""What a SuperDSC calls an op: its row's artifact name, but for those whose name depends on where and what it works on."""

from __future__ import annotations

from openspyre.artifact.model import Description, Lanes
from openspyre.spec.formats import DataFormats
from openspyre.spec.ops import TABLE, Kind

RESTICKIFY = "ReStickifyOpHBM"
IDENTITY = "identity"
# Pairs of dtypes between which the documents have a cast; all others are an extension of ours.
CASTS: dict[tuple[str, str], str] = {
    ("float16", "bfloat16"): IDENTITY,
    ("bfloat16", "float16"): IDENTITY,
    ("float16", "bool"): IDENTITY,
    ("bool", "float16"): IDENTITY,
    ("float16", "float32"): "dl16tofp32",
    ("bfloat16", "float32"): "dl16tofp32",
    ("float32", "float16"): "fp32todl16",
    ("float32", "bfloat16"): "fp32todl16",
    ("float8_e4m3fn", "float16"): "fp8todl16",
}
OTHER_CAST = "openspyre.cast"


def op_func_name(description: Description, *, keeps_stick: bool) -> str:
    """`keeps_stick`: the output has the op's stick dim, which makes a reduction the nonstick function."""
    row = TABLE[description.row]
    if row.kind is Kind.REDUCTION and keeps_stick:
        return row.artifact + "nonstick"
    if _is_restickify(description):
        return RESTICKIFY
    return _cast_name(description) if row.artifact == IDENTITY and row.kind is Kind.POINTWISE else row.artifact


def is_documented(description: Description) -> bool:
    """Whether the public documents have this op; false for an extension of ours."""
    row = TABLE[description.row]
    if row.artifact == IDENTITY and row.kind is Kind.POINTWISE:
        return _cast_name(description) != OTHER_CAST
    return row.documented or _is_restickify(description)


def _cast_name(description: Description) -> str:
    target = description.outputs[0].dtype
    source = next((tensor.dtype for tensor in description.tensors[:1]), target)
    return IDENTITY if source == target else CASTS.get((source, target), OTHER_CAST)


def _is_restickify(description: Description) -> bool:
    """Hardware moves whole tensors between two stick dims; every other movement is an extension of ours."""
    if TABLE[description.row].kind is not Kind.MOVEMENT or len(description.tensors) != 2:
        return False
    source, target = description.tensors
    vectors = source.lanes is Lanes.VECTOR and target.lanes is Lanes.VECTOR
    return vectors and source.lane_dim != target.lane_dim and source.format == target.format


def data_format(description: Description) -> DataFormats:
    """The format an op is said to compute in: its first tensor's; integers that only move are called fp32."""
    found = description.tensors[0].format
    moved = TABLE[description.row].artifact == IDENTITY
    return DataFormats.IEEE_FP32 if moved and found is DataFormats.IEEE_INT32 else found
