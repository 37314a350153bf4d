"""sdsc_<i>.json as tensors and one operation; only fields that the documents name are read."""

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import BundleError
from .formats import FORMATS, Format

BROADCAST, LANE_ZERO = -1, -2  # scale_ of a dim the tensor does not walk: absent, or one lane for the whole stick
MASK = "samv-maskvalue"

Slices = dict[int, dict[str, int]]


@dataclass(frozen=True)
class Tensor:
    """Where a tensor's elements lie. `order` goes outwards; a stick dim stands in it for its sticks."""

    name: str
    format: Format
    component: str
    order: tuple[str, ...]
    sticks: dict[str, int]
    scale: dict[str, int]
    starts: dict[int, int]
    gaps: dict[str, dict[int, int]]
    lanes: dict[str, np.ndarray]
    own: Slices
    index: str | None
    indexed: str | None

    def walks(self, dim: str) -> bool:
        return self.scale.get(dim) not in (None, BROADCAST, LANE_ZERO)

    def gap(self, dim: str, core: int) -> int:
        gaps = self.gaps.get(dim, {})
        return gaps.get(core, gaps.get(-1, 0))


class Constants(dict[str, float]):
    """By name: the numbers that other fields give them are not reliable."""

    def __missing__(self, name: str) -> float:
        raise BundleError(f"there is no constant {name!r} among {sorted(self)}")


@dataclass(frozen=True)
class Operation:
    file: Path
    name: str
    sizes: dict[str, int]
    slices: Slices
    inputs: tuple[Tensor, ...]  # a reduction lists its result here too, after what it reduces
    output: Tensor
    indices: dict[str, Tensor]
    masks: dict[str, list[list[int]]]
    constants: Constants

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(self.sizes)

    def axis(self, dim: str) -> int:
        """The axis of a dim in arrays of all cores; axis 0 is the core."""
        return 1 + self.dims.index(dim)

    def owners(self, tensor: Tensor) -> Slices:
        return tensor.own or self.slices

    def per_core(self, tensor: Tensor, dim: str) -> int:
        parts = 1 + max(slices.get(dim, 0) for slices in self.owners(tensor).values())
        if self.sizes[dim] % parts:
            raise BundleError(f"{dim}, {self.sizes[dim]} long, is divided into {parts} parts")
        return self.sizes[dim] // parts

    @property
    def reduced(self) -> tuple[str, ...]:
        """The dims that the result does not walk."""
        return tuple(dim for dim in self.dims if not self.output.walks(dim))


def load(path: Path) -> dict[str, Any]:
    try:
        ((_, top),) = json.loads(path.read_text()).items()
    except (OSError, ValueError, AttributeError) as problem:
        raise BundleError(f"{path}: not one SuperDSC: {problem!r}") from problem
    return top


def read(path: Path, top: dict[str, Any], symbols: dict[int, int]) -> Operation:
    """The operation in a file, with the symbols that its execution binds in place of its addresses."""
    try:
        ((_, dsc),) = top["dscs_"][0].items()
        compute = dsc["computeOp_"][0]
        tensors = _tensors(path, dsc, symbols)
        (written,) = _named(compute["outputLabeledDs"])
        listed = _named(compute["inputLabeledDs"])
        related = _named(compute.get("indirectAccessIndexLabeledDs", []))
        return Operation(
            file=path,
            name=compute["opFuncName"],
            sizes={k[:-1]: v for k, v in dsc["N_"].items() if k not in ("name_", "paddingSizes_")},
            slices={int(core): slices for core, slices in top["coreIdToWkSlice_"].items()},
            inputs=tuple(tensors[name] for name in listed),
            output=tensors[written],
            indices={name: tensors[name] for name in related},
            masks={
                dim: [pairs] if isinstance(pairs[0], int) else pairs for dim, pairs in dsc["coordinateMasking_"].items()
            },
            constants=_constants(dsc["constantInfo_"]),
        )
    except (KeyError, IndexError, TypeError, ValueError) as problem:
        raise BundleError(f"{path}: not as documented: {problem!r}") from problem


def _named(labels: list[str]) -> list[str]:
    return [label.rsplit("-idx", 1)[0] for label in labels]


def _tensors(path: Path, dsc: dict[str, Any], symbols: dict[int, int]) -> dict[str, Tensor]:
    labels = {label["ldsIdx_"]: label for label in dsc["labeledDs_"]}
    names = {node["name_"]: labels[node["ldsIdx_"]]["dsName_"] for node in dsc["scheduleTree_"]}
    made = (_tensor(path, dsc, node, labels[node["ldsIdx_"]], names, symbols) for node in dsc["scheduleTree_"])
    return {tensor.name: tensor for tensor in made}


def _tensor(
    path: Path,
    dsc: dict[str, Any],
    node: dict[str, Any],
    label: dict[str, Any],
    names: dict[str, str],
    symbols: dict[int, int],
) -> Tensor:
    role = dsc["primaryDsInfo_"][label["dsType_"]]
    if label["dataFormat_"] not in FORMATS:
        raise BundleError(f"{path}: {label['dsName_']} has format {label['dataFormat_']}, which has no codes here")
    indirect = node["indirectAllocType_"] == "value_tensor"
    order = tuple(node["layoutDimOrder_"])
    coordinates = node["coordinates_"]
    sticks = dict(zip(role["stickDimOrder_"], role["stickSize_"], strict=True))
    return Tensor(
        name=label["dsName_"],
        format=FORMATS[label["dataFormat_"]],
        component=node["component_"],
        order=order,
        sticks=sticks,
        scale=dict(zip(role["layoutDimOrder_"], label["scale_"], strict=True)),
        starts={core: _start(path, value, symbols) for core, value in _by_core(node)},
        gaps={dim: {int(c): int(g) for c, g in gaps.items()} for dim, gaps in node.get("backGapCore_", {}).items()},
        lanes=_lanes(coordinates["coordInfo"], sticks),
        own={int(core): slices for core, slices in coordinates.get("coreIdToWkSlice_", {}).items()},
        index=names[node["relatedIndirectAccessAlloc_"]] if indirect else None,
        indexed=order[node["maxDimSizes_"].index(1)] if indirect else None,
    )


def _by_core(node: dict[str, Any]) -> list[tuple[int, int]]:
    return [(ast.literal_eval(key)[0], int(v)) for key, v in node["startAddressCoreCorelet_"]["data_"].items()]


def _start(path: Path, value: int, symbols: dict[int, int]) -> int:
    if value >= 0:
        return value
    if value not in symbols:
        raise BundleError(f"{path}: address symbol {value} is not among the symbol_ids of its execution")
    return symbols[value]


def _lanes(info: dict[str, Any], sticks: dict[str, int]) -> dict[str, np.ndarray]:
    """For dims that lie out of order in their stick: the lane of each element, from the element folds."""
    lanes = {}
    for dim, size in sticks.items() if len(sticks) == 1 else ():
        folds = info[dim]["folds"]
        if info[dim]["elemArr"] <= 2:
            continue
        steps = [f["Affine"]["alpha_"] for f in folds["dim_prop_func"]][4:]
        factors = [f["factor_"] for f in folds["dim_prop_attr"]][4:]
        grid = np.indices(factors).reshape(len(factors), -1)
        element = np.tensordot(steps, grid, 1)
        if sorted(element) != list(range(size)):
            raise ValueError(f"the folds of {dim} do not fill a stick of {size}")
        lanes[dim] = np.argsort(element)
    return lanes


def _constants(info: dict[str, Any] | str) -> Constants:
    constants = Constants()
    for constant in json.loads(info).values() if isinstance(info, str) else info.values():
        layout = FORMATS.get(constant["dataFormat_"], FORMATS["SEN169_FP16"])
        bits = next(iter(constant["data_"]["data_"].values()))[0]
        constants[constant["name_"]] = layout.decode(np.array([bits], dtype=layout.word))[0].item()
    return constants
