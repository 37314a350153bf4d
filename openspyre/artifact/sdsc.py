"""A description as the JSON of its file `sdsc_<i>.json`: documented fields, derived, and ours under `openspyre_`."""

from __future__ import annotations

from openspyre.artifact.allocation import allocate_node, labeled_ds
from openspyre.artifact.constants import constants, masked_axes
from openspyre.artifact.extension import EXTENSION, op_extension
from openspyre.artifact.geometry import Geometry, geometry, index_tensor, is_reduction
from openspyre.artifact.json_types import Json
from openspyre.artifact.model import Description
from openspyre.artifact.names import data_format, op_func_name
from openspyre.spec.ops import TABLE


def sdsc_json(description: Description, index: int, first_symbol: int) -> dict[str, Json]:
    """The whole file. `first_symbol` is the (negative) id of the first address it uses."""
    shape = geometry(description)
    opfunc = op_func_name(description, keeps_stick=shape.keeps_stick)
    cores = range(shape.cores)
    time: Json = {"factor_": 1, "label_": "time"}
    return {
        f"{index}_{opfunc}": {
            "sdscFoldProps_": [time],
            "sdscFolds_": {
                "dim_prop_func": [{"Affine": {"alpha_": 1, "beta_": 0}}],
                "dim_prop_attr": [time],
                "data_": {"[0]": "0"},
            },
            "coreFoldProp_": {"factor_": shape.cores, "label_": "core"},
            "coreletFoldProp_": {"factor_": 1, "label_": "corelet"},
            "numCoresUsed_": shape.cores,
            "coreIdToDsc_": {str(core): 0 for core in cores},
            "numWkSlicesPerDim_": {axis.label: axis.split for axis in shape.axes},
            "coreIdToWkSlice_": {str(core): dict(shape.slices[core]) for core in cores},
            "coreIdToDscSchedule": {str(core): [[-1, 0, 0, 0]] for core in cores},
            "dscs_": [{opfunc: _dsc(description, shape, opfunc, first_symbol)}],
            EXTENSION: op_extension(description),
        }
    }


def symbol_count(description: Description) -> int:
    """Addresses an execution supplies: one per tensor and distinct place of a core's slice in it."""
    return sum(len(set(tensor.core_bytes)) for tensor in geometry(description).tensors)


def _dsc(description: Description, shape: Geometry, opfunc: str, first_symbol: int) -> dict[str, Json]:
    symbol = first_symbol
    nodes: list[Json] = []
    for index, tensor in enumerate(shape.tensors):
        nodes.append(allocate_node(index, description, shape, symbol))
        symbol -= len(set(tensor.core_bytes))
    per_core: dict[str, Json] = {"name_": "core"} | {f"{axis.label}_": axis.per_core for axis in shape.axes}
    masked = masked_axes(description, shape)
    return {
        "numCoresUsed_": shape.cores,
        "numCoreletsUsed_": 1,
        "coreIdsUsed_": list(range(shape.cores)),
        "N_": {"name_": "n"} | {f"{axis.label}_": axis.size for axis in shape.axes},
        "coordinateMasking_": {axis.label: [[axis.unpadded, axis.size - axis.unpadded]] for axis in masked},
        "maskingConstId_": 0 if masked else -1,
        "dataStageParam_": {"0": {"ss_": per_core, "el_": dict(per_core)}},
        "primaryDsInfo_": {
            role: {
                "layoutDimOrder_": list(tensor.order),
                "stickDimOrder_": [tensor.stick],
                "stickSize_": [_stick_size(description, shape, role)],
            }
            for role, tensor in shape.role_orders.items()
        },
        "scheduleTree_": nodes,
        "labeledDs_": [labeled_ds(index, description, shape) for index in range(len(description.tensors))],
        "constantInfo_": constants(description, shape),
        "computeOp_": [_compute_op(description, opfunc)],
    }


def _stick_size(description: Description, shape: Geometry, role: str) -> int:
    index = next(i for i, tensor in enumerate(shape.tensors) if tensor.role == role)
    return description.tensors[index].elems_per_stick


def _compute_op(description: Description, opfunc: str) -> dict[str, Json]:
    tensors = description.tensors
    outputs = len(description.outputs)
    # A reduction lists its accumulator, the output, among the inputs.
    listed = len(tensors) if is_reduction(description) else len(tensors) - outputs
    indices = index_tensor(description)
    op: dict[str, Json] = {
        "exUnit": TABLE[description.row].unit.value,
        "opFuncName": opfunc,
        "attributes_": {"dataFormat_": data_format(description).name, "fidelity_": "regular"},
        "location": "Inner",
        "inputLabeledDs": [f"Tensor{i}-idx{i}" for i in range(listed) if i != indices],
        "outputLabeledDs": [f"Tensor{i}-idx{i}" for i in range(len(tensors) - outputs, len(tensors))],
    }
    if indices is not None:
        op["indirectAccessIndexLabeledDs"] = [f"Tensor{indices}-idx{indices}"]
    return op
