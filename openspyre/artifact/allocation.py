"""The parts of a SuperDSC that speak of one tensor: its allocate node and its labelled data structure."""

from __future__ import annotations

from openspyre.artifact.extension import EXTENSION, tensor_extension
from openspyre.artifact.geometry import Axis, Geometry, TensorGeometry, index_tensor, indirect_tensor
from openspyre.artifact.json_types import Json
from openspyre.artifact.model import Description, Tensor
from openspyre.spec.formats import DataFormats


def allocate_node(index: int, description: Description, shape: Geometry, first_symbol: int) -> dict[str, Json]:
    """Where each core finds its slice. Addresses are symbols: negative ids that an execution gives a value."""
    tensor, facts = shape.tensors[index], description.tensors[index]
    symbols = symbol_ids(tensor, first_symbol)
    node: dict[str, Json] = {
        "nodeType_": "allocate",
        "name_": f"allocate-Tensor{index}_hbm",
        "prev_": "",
        "ldsIdx_": index,
        "component_": "hbm",
        "isStartAddrSymbolic_": 1,
        "layoutDimOrder_": list(tensor.order),
        **_indirection(index, description, shape),
        "startAddressCoreCorelet_": {
            "dim_prop_func": [{"Map": {}}, {"Const": {}}, {"Const": {}}],
            "dim_prop_attr": [
                {"factor_": shape.cores, "label_": "core"},
                {"factor_": 1, "label_": "corelet"},
                {"factor_": 1, "label_": "time"},
            ],
            "data_": {f"[{core}, 0, 0]": str(symbols[byte]) for core, byte in enumerate(tensor.core_bytes)},
        },
    }
    if tensor.gaps:
        node["backGapCore_"] = {label: {"-1": str(gap)} for label, gap in tensor.gaps.items()}
    node["coordinates_"] = {
        "coordInfo": {axis.label: _folds(axis, tensor, facts) for axis in shape.axes if axis.label in tensor.scales},
        "coreIdToWkSlice_": {},
    }
    return node


def _indirection(index: int, description: Description, shape: Geometry) -> dict[str, Json]:
    """Whether the tensor holds indices or is found through them; its dim behind the index is then a page of one."""
    order = shape.tensors[index].order
    indices = index_tensor(description)
    if indices is None or index not in (indices, indirect_tensor(description)):
        return {"maxDimSizes_": [-1 for _ in order], "indirectAllocType_": "no_indirection"}
    if index == indices:
        found: dict[str, Json] = {"maxDimSizes_": [-1 for _ in order], "indirectAllocType_": "index_tensor"}
        return found | {"indexTensorType_": "index"}
    page = shape.axes[len(description.dims) - 1].label
    return {
        "maxDimSizes_": [1 if label == page else -1 for label in order],
        "indirectAllocType_": "value_tensor",
        "relatedIndirectAccessAlloc_": f"allocate-Tensor{indices}_hbm",
    }


def symbol_ids(tensor: TensorGeometry, first_symbol: int) -> dict[int, int]:
    """The symbol of each distinct byte at which a core's slice begins."""
    distinct = dict.fromkeys(tensor.core_bytes)
    return {byte: first_symbol - place for place, byte in enumerate(distinct)}


def _folds(axis: Axis, tensor: TensorGeometry, facts: Tensor) -> dict[str, Json]:
    """How core, corelet, row and element index add up to a coordinate of this dim."""
    lanes = facts.elems_per_stick
    scale = tensor.scales[axis.label]
    size, slices = (axis.per_core, axis.split) if scale == 1 else (1, 1)
    if scale == -2:
        alphas, factors = [lanes, 0, 0, lanes, 0], [slices, 1, 1, 1, lanes]
    elif axis.label == tensor.stick and scale == 1:
        alphas, factors = [size, 0, 0, lanes, 1], [slices, 1, 1, size // lanes, lanes]
    else:
        alphas, factors = [size, 0, 0, 1], [slices, 1, 1, size]
    arrays = len(factors) - 3
    names = ["core_fold", "corelet_fold", "row_fold", *(f"elem_arr_{i}" for i in reversed(range(arrays)))]
    return {
        "spatial": 3,
        "temporal": 0,
        "elemArr": arrays,
        "padding": "nopad",
        "folds": {
            "dim_prop_func": [{"Affine": {"alpha_": alpha, "beta_": 0}} for alpha in alphas],
            "dim_prop_attr": [{"factor_": factor, "label_": name} for factor, name in zip(factors, names, strict=True)],
        },
    }


def labeled_ds(index: int, description: Description, shape: Geometry) -> dict[str, Json]:
    tensor, facts = shape.tensors[index], description.tensors[index]
    present: Json = {"isPresent": 1}
    is_index = index == index_tensor(description)
    order = shape.role_orders[tensor.role].order
    return {
        "ldsIdx_": index,
        "dsName_": f"Tensor{index}",
        "dsType_": tensor.role,
        "scale_": [tensor.scales[label] for label in order],
        "wordLength": facts.bytes_per_element,
        "dataFormat_": DataFormats.SENUINT32.name if is_index else facts.format.name,
        "memOrg_": {"hbm": present} if is_index else {"hbm": present, "lx": present},
        EXTENSION: tensor_extension(facts),
    }
