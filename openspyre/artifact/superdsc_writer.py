"""A `SuperDsc` as the JSON of its file `sdsc_<i>.json`: every documented field, derived from the model and nothing else."""

from __future__ import annotations

from math import prod

from openspyre.artifact.extensions.record import EXTENSION, extension_json
from openspyre.artifact.json_types import Json
from openspyre.artifact.superdsc import (
    ONE_LANE,
    PRESENT,
    Axis,
    Component,
    Constant,
    Indirection,
    Provenance,
    SourcePlace,
    SuperDsc,
    Tensor,
)

_TIME: Json = {"factor_": 1, "label_": "time"}
_CORELET: Json = {"factor_": 1, "label_": "corelet"}


def superdsc_json(op: SuperDsc) -> dict[str, Json]:
    cores = range(op.cores)
    ours: dict[str, Json] = {} if op.extension is None else {EXTENSION: extension_json(op.extension)}
    return {
        op.name: {
            "debug_handle_": handle_json(op.provenance),
            "sdscFoldProps_": [_TIME],
            "sdscFolds_": {
                "dim_prop_func": [{"Affine": {"alpha_": 1, "beta_": 0}}],
                "dim_prop_attr": [_TIME],
                "data_": {"[0]": "0"},
            },
            "coreFoldProp_": {"factor_": op.cores, "label_": "core"},
            "coreletFoldProp_": _CORELET,
            "numCoresUsed_": op.cores,
            "coreIdToDsc_": {str(core): 0 for core in cores},
            "numWkSlicesPerDim_": {axis.label: axis.split for axis in op.axes},
            "coreIdToWkSlice_": {
                str(core): {axis.label: index for axis, index in zip(op.axes, op.slices[core], strict=True)}
                for core in cores
            },
            "coreIdToDscSchedule": {str(core): [[-1, 0, 0, 0]] for core in cores},
            "dscs_": [{op.op: _dsc(op)}],
            **ours,
        }
    }


def handle_json(found: Provenance | None) -> Json:
    """Function and module are ours; a reader leaves out what it does not know."""
    if found is None:
        return None
    handle: dict[str, Json] = {
        "id": found.id,
        "source": None if found.source is None else _source(found.source),
        "aten_op": found.aten_op,
        "ir_chain": list(found.ir_chain),
        "fused_from": [handle_json(part) for part in found.fused_from],
        "transform_history": [
            {"kind": change.kind, "pass_name": change.pass_name, "reason": change.reason} for change in found.history
        ],
    }
    return handle if found.module is None else handle | {"module": found.module}


def _source(place: SourcePlace) -> Json:
    source: dict[str, Json] = {
        "file": place.file,
        "start_line": place.line,
        "start_col": 0,
        "end_line": None,
        "end_col": None,
    }
    return source if place.function is None else source | {"function": place.function}


def _dsc(op: SuperDsc) -> dict[str, Json]:
    return {
        "numCoresUsed_": op.cores,
        "numCoreletsUsed_": 1,
        "coreIdsUsed_": list(range(op.cores)),
        "N_": {"name_": "n"} | {f"{axis.label}_": axis.size for axis in op.axes},
        "coordinateMasking_": {mask.label: [[mask.valid, op.axis[mask.label].size - mask.valid]] for mask in op.masks},
        "maskingConstId_": _mask_constant(op),
        "dataStageParam_": {"0": {"ss_": _stage(op), "el_": _stage(op)}},
        "primaryDsInfo_": _roles(op),
        "scheduleTree_": [_node(op, number) for number in range(len(op.tensors))],
        "labeledDs_": [_labelled(op, number) for number in range(len(op.tensors))],
        "constantInfo_": {str(i): _constant(c, op.cores) for i, c in enumerate(op.constants)} if op.constants else "{}",
        "computeOp_": [_compute(op)],
    }


def _mask_constant(op: SuperDsc) -> int:
    """The number of the mask's value among the constants."""
    if not op.masks:
        return -1
    return next((i for i, constant in enumerate(op.constants) if constant.name == "samv-maskvalue"), 0)


def _stage(op: SuperDsc) -> dict[str, Json]:
    empty: dict[str, Json] = {
        name: {}
        for name in (
            "symbolicDimInfo_",
            "maxSymbolicVolume_",
            "coreletSplit_",
            "rowSplit_",
            "peSfpSplit_",
            "paddingSizes_",
        )
    }
    return {"name_": "core"} | {f"{axis.label}_": axis.per_core for axis in op.axes} | empty


def _roles(op: SuperDsc) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for tensor in op.tensors:
        found.setdefault(
            tensor.role,
            {
                "layoutDimOrder_": [label for label, _ in tensor.scales],
                "stickDimOrder_": [stick.label for stick in tensor.sticks],
                "stickSize_": [stick.size for stick in tensor.sticks],
            },
        )
    return found


def _node(op: SuperDsc, number: int) -> dict[str, Json]:
    """Where each core finds its slice: bytes of a scratchpad, or symbols that the execution gives an address."""
    tensor = op.tensors[number]
    in_memory = tensor.component is Component.MEMORY
    node: dict[str, Json] = {
        "nodeType_": "allocate",
        "name_": f"allocate-{tensor.name}_{tensor.component}",
        "prev_": "",
        "ldsIdx_": number,
        "component_": tensor.component.value,
    }
    if in_memory and min(tensor.starts) < 0:
        node["isStartAddrSymbolic_"] = 1
    node |= {
        "layoutDimOrder_": list(tensor.order),
        "maxDimSizes_": [1 if label == tensor.indexed else -1 for label in tensor.order],
        "indirectAllocType_": tensor.indirection.value,
    }
    if tensor.indirection is Indirection.VALUE and op.index is not None:
        index = op.tensors[op.index]
        node["relatedIndirectAccessAlloc_"] = f"allocate-{index.name}_{index.component}"
    if tensor.indirection is Indirection.INDEX:
        chosen = next((t for t in op.tensors if t.indirection is Indirection.VALUE), tensor)
        node["relatedIndirectAccessAlloc_"] = f"allocate-{chosen.name}_{chosen.component}"
        node["indexTensorType_"] = "index"
    node["startAddressCoreCorelet_"] = {
        "dim_prop_func": [{"Map": {}}, {"Const": {}}, {"Const": {}}],
        "dim_prop_attr": [{"factor_": op.cores, "label_": "core"}, _CORELET, _TIME],
        "data_": {f"[{core}, 0, 0]": str(start) for core, start in enumerate(tensor.starts)},
    }
    if tensor.gaps:
        cores = ["-1"] if in_memory else [str(core) for core in range(op.cores)]
        node["backGapCore_"] = {label: {core: str(gap) for core in cores} for label, gap in tensor.gaps}
    node["coordinates_"] = {
        "coordInfo": {label: _folds(op.axis[label], tensor) for label in tensor.order},
        "coreIdToWkSlice_": {str(core): dict(own) for core, own in enumerate(tensor.owners)},
    }
    return node


def _folds(axis: Axis, tensor: Tensor) -> dict[str, Json]:
    """How core, corelet, row and element index add up to a coordinate of this dim."""
    lanes = tensor.elems_per_stick
    scale = tensor.scale(axis.label)
    slices = 1 + max((dict(own).get(axis.label, 0) for own in tensor.owners), default=axis.split - 1)
    size, slices = (axis.size // slices, slices) if scale == PRESENT else (1, 1)
    along = prod(stick.size for stick in tensor.sticks if stick.label == axis.label)
    if scale == ONE_LANE:
        alphas, factors = [lanes, 0, 0, lanes, 0], [slices, 1, 1, 1, lanes]
    elif along > 1 and scale == PRESENT:
        alphas, factors = [size, 0, 0, along, 1], [slices, 1, 1, size // along, along]
    else:
        alphas, factors = [size, 0, 0, 1], [slices, 1, 1, size]
    arrays = len(factors) - 3
    names = ["core_fold", "corelet_fold", "row_fold", *(f"elem_arr_{i}" for i in reversed(range(arrays)))]
    return {
        "spatial": 3,
        "temporal": 0,
        "elemArr": arrays if len(tensor.sticks) == 1 else 3,
        "padding": "nopad",
        "folds": {
            "dim_prop_func": [{"Affine": {"alpha_": alpha, "beta_": 0}} for alpha in alphas],
            "dim_prop_attr": [{"factor_": factor, "label_": name} for factor, name in zip(factors, names, strict=True)],
        },
    }


def _labelled(op: SuperDsc, number: int) -> dict[str, Json]:
    tensor = op.tensors[number]
    present: Json = {"isPresent": 1}
    places: dict[str, Json] = {"hbm": present, "lx": present}
    if tensor.indirection is Indirection.INDEX:
        places = {"hbm": present}
    elif tensor.component is Component.SCRATCHPAD:
        places = {"lx": present}
    return {
        "ldsIdx_": number,
        "dsName_": tensor.name,
        "dsType_": tensor.role,
        "scale_": [scale for _, scale in tensor.scales],
        "wordLength": tensor.bytes_per_element,
        "dataFormat_": tensor.format.name,
        "memOrg_": places,
    }


def _constant(found: Constant, cores: int) -> dict[str, Json]:
    return {
        "dataFormat_": found.format.name,
        "name_": found.name,
        "data_": {
            "dim_prop_func": [{"Const": {}}, {"Const": {}}, {"Map": {}}],
            "dim_prop_attr": [{"factor_": cores, "label_": "core"}, _CORELET, _TIME],
            "data_": {"[0, 0, 0]": [found.bits]},
        },
    }


def _compute(op: SuperDsc) -> dict[str, Json]:
    def reference(number: int) -> str:
        return f"{op.tensors[number].name}-idx{number}"

    found: dict[str, Json] = {
        "exUnit": op.unit,
        "opFuncName": op.op,
        "attributes_": {"dataFormat_": op.format.name, "fidelity_": "regular"},
        "location": "Inner",
        "inputLabeledDs": [reference(number) for number in op.inputs],
        "outputLabeledDs": [reference(number) for number in op.outputs],
    }
    if op.index is not None:
        found["indirectAccessIndexLabeledDs"] = [reference(op.index)]
    return found
