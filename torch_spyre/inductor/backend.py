"""Registration with Inductor: when the device's code generators are first asked for, and not before."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch

from openspyre.spec import progress
from openspyre.spec.errors import InvalidArgument
from torch_spyre import _torch
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.interface import SpyreInterface
from torch_spyre.inductor.border import (
    CustomGraphModulePass,
    OrderedSet,
    V,
    compile_fx_module,
    post_grad,
    register_backend_for_device,
    register_device_op_overrides,
    register_interface_for_device,
)
from torch_spyre.inductor.importing.build_bundles import bundle
from torch_spyre.inductor.importing.fx_nodes import fake_tensors
from torch_spyre.inductor.importing.hints import text_for_keys
from torch_spyre.inductor.importing.partition import leave_late_copies
from torch_spyre.inductor.importing.regions import put_back_before_passes
from torch_spyre.inductor.launching.kernel import SpyreOpOverrides, SpyreScheduling, SpyreWrapper
from torch_spyre.inductor.lowering.decomposition_overrides import keep_whole
from torch_spyre.inductor.reporting.report import new_report
from torch_spyre.inductor.source_hash import source_hash
from torch_spyre.torch_seams import wrap

_numbers = itertools.count()


class BundlePass(CustomGraphModulePass):
    """Runs at the end of Inductor's passes on the graph, for each graph and subgraph with tensors on the device."""

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        if V.aot_compilation:
            raise InvalidArgument(
                f"AOTInductor packages C++ code, and a program of {DEVICE_NAME} is none; to start without tracing use "
                "torch.compile(model, fullgraph=True).forward.aot_compile(((x,), {})).save_compiled_function(path) "
                "(docs/running_models.md)"
            )
        name = f"graph{next(_numbers)}"
        progress.stage(f"importing {name}", f"{len(gm.graph.nodes)} ops")
        bundle(gm, new_report(name))

    def uuid(self) -> Any:
        return source_hash() + text_for_keys()


def _see_cards_inside() -> None:
    """Inductor asks for our pass where inputs or results are on the device; a graph may compute there in between."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_all_devices(gm: torch.fx.GraphModule) -> Any:
            inside = [tensor.device for node in gm.graph.nodes for tensor in fake_tensors(node)]
            return original(gm) | OrderedSet(device for device in inside if device.type == DEVICE_NAME)

        return get_all_devices

    wrap(post_grad, "get_all_devices", make)


def _keep_patterns_to_torch() -> None:
    """The tensors that torch makes to trace its patterns, once, are none of the program's."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def recursive_joint_graph_passes(*args: Any, **kwargs: Any) -> Any:
            with _torch.Unobserved():
                return original(*args, **kwargs)

        return recursive_joint_graph_passes

    wrap(compile_fx_module, "_recursive_joint_graph_passes", make)


def _leave_sums_apart() -> None:
    """torch makes one call of a product and a sum."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def should_prefer_unfused_addmm(match: Any) -> Any:
            return match.kwargs["inp"].meta["val"].device.type == DEVICE_NAME or original(match)

        return should_prefer_unfused_addmm

    wrap(post_grad, "should_prefer_unfused_addmm", make)


@functools.cache
def register() -> None:
    """Once: before the first graph is decomposed."""
    register_interface_for_device(DEVICE_NAME, SpyreInterface)
    register_device_op_overrides(DEVICE_NAME, SpyreOpOverrides())
    register_backend_for_device(
        DEVICE_NAME, SpyreScheduling, SpyreWrapper, SpyreWrapper, device_custom_pass=BundlePass()
    )
    keep_whole()
    put_back_before_passes()
    leave_late_copies()
    _keep_patterns_to_torch()
    _see_cards_inside()
    _leave_sums_apart()
