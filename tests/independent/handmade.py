"""Small bundles for tests, with the documented fields and no others."""

import json
from pathlib import Path
from typing import Any

SEGMENT = 1 << 34


def tensor(role: str, order: str, scale: list[int], start: int | list[int], **fields: Any) -> dict[str, Any]:
    """One tensor; `order` is its dims outwards, `start` one address for all cores or one for each."""
    return {"role": role, "order": order.split(), "scale": scale, "start": start} | fields


def write(
    path: Path,
    name: str,
    sizes: dict[str, int],
    splits: dict[str, int],
    roles: dict[str, tuple[str, str, int]],
    tensors: list[dict[str, Any]],
    constants: list[tuple[str, str, int]] = (),
    masks: dict[str, list[list[int]]] | None = None,
) -> None:
    """roles: name -> (dims outwards, stick dim, elements in a stick). The last tensor is the result."""
    slices = {str(c): s for c, s in enumerate(_mixed_radix(sizes, splits))}
    labels = [f"Tensor{i}-idx{i}" for i in range(len(tensors))]
    dsc = {
        "N_": {"name_": "n"} | {f"{dim}_": size for dim, size in sizes.items()},
        "coordinateMasking_": masks or {},
        "primaryDsInfo_": {
            role: {"layoutDimOrder_": order.split(), "stickDimOrder_": [stick], "stickSize_": [size]}
            for role, (order, stick, size) in roles.items()
        },
        "scheduleTree_": [_node(i, t, len(slices), roles) for i, t in enumerate(tensors)],
        "labeledDs_": [_label(i, t) for i, t in enumerate(tensors)],
        "constantInfo_": {str(i): _constant(*c) for i, c in enumerate(constants)} or "{}",
        "computeOp_": [{"opFuncName": name, "inputLabeledDs": labels[:-1], "outputLabeledDs": labels[-1:]}],
    }
    path.write_text(json.dumps({f"0_{name}": {"coreIdToWkSlice_": slices, "dscs_": [{name: dsc}]}}))


def program(directory: Path, body: str = 'sdscbundle.sdsc_execute () {sdsc_filename="sdsc_0.json"}') -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "bundle.mlir").write_text(f"module {{ func.func @sdsc_bundle() {{ {body} return }} }}")
    return directory


def _mixed_radix(sizes: dict[str, int], splits: dict[str, int]) -> list[dict[str, int]]:
    """The first dim runs fastest."""
    slices: list[dict[str, int]] = [{}]
    for dim in sizes:
        slices = [s | {dim: i} for i in range(splits.get(dim, 1)) for s in slices]
    return slices


def _node(i: int, t: dict[str, Any], cores: int, roles: dict[str, tuple[str, str, int]]) -> dict[str, Any]:
    starts = t["start"] if isinstance(t["start"], list) else [t["start"]] * cores
    return {
        "name_": f"allocate-Tensor{i}",
        "ldsIdx_": i,
        "component_": t.get("component", "hbm"),
        "layoutDimOrder_": t["order"],
        "maxDimSizes_": [-1] * len(t["order"]),
        "indirectAllocType_": "no_indirection",
        "startAddressCoreCorelet_": {"data_": {f"[{c}, 0, 0]": str(a) for c, a in enumerate(starts)}},
        "backGapCore_": {dim: {"-1": str(gap)} for dim, gap in t.get("gap", {}).items()},
        "coordinates_": {"coordInfo": {roles[t["role"]][1]: {"elemArr": 2, "folds": {}}}, "coreIdToWkSlice_": {}},
    }


def _label(i: int, t: dict[str, Any]) -> dict[str, Any]:
    names = {"ldsIdx_": i, "dsName_": f"Tensor{i}", "dsType_": t["role"]}
    return names | {"scale_": t["scale"], "dataFormat_": t.get("format", "SEN169_FP16")}


def _constant(name: str, layout: str, bits: int) -> dict[str, Any]:
    return {"name_": name, "dataFormat_": layout, "data_": {"data_": {"[0, 0, 0]": [bits]}}}
