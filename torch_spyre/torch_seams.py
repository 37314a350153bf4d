"""Every private symbol of torch that we touch, and every public one that we replace: one row each.

`SEAMS` is the table (why, since which torch, when it can go); a test pins each row to the installed torch, so that a new release
that moves something fails there and not in a user's hands. What stands in place of torch's own: `device/replacements.py`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeVar

import torch

from openspyre.spec.errors import SpyreError
from torch_spyre.constants import DEVICE_NAME

Function = TypeVar("Function", bound=Callable[..., Any])


class NotShareable(SpyreError, TypeError):
    """A tensor on the card was to be handed to somebody who would read its memory directly."""


@dataclass(frozen=True, slots=True)
class Seam:
    """One private symbol we use, or a symbol we put another object in place of (`replaced`), teach a keyword (`extended`: the
    object stays the same) or add."""

    symbol: str
    why: str
    remove_when: str
    replaced: bool = False
    extended: bool = False
    added: bool = False
    since: str = "2.13"


SEAMS: tuple[Seam, ...] = (
    Seam("torch._register_device_module", "makes torch.spyre", "torch offers a public registration"),
    Seam("torch._C._dispatch_get_all_op_names", "`openspyre ops --where` lists operators", "it becomes public"),
    Seam("torch._C._dispatch_dump_table", "`openspyre ops --where` tells which kernel they have", "it becomes public"),
    Seam("torch._C._get_privateuse1_backend_name", "knows whether the name is already ours", "rename is idempotent"),
    Seam(
        "torch.overrides.has_torch_function_unary",
        "keeps tensor subclasses working in wrapped methods",
        "no method is wrapped",
    ),
    Seam(
        "torch.nn.Module._apply",
        "a module that has moved to spyre gets its linear weights tiled for use",
        "torch has a hook for devices that lay out weights",
        replaced=True,
    ),
    Seam(
        "torch._has_compatible_shallow_copy_type",
        "has a kernel of ours: Parameters move to the card and back in place, with their ties, hooks and weak references",
        "TensorImpl::has_compatible_shallow_copy_type counts PrivateUse1 as dense",
    ),
    Seam(
        "torch._C._dynamo.eval_frame.set_eval_frame",
        "Dynamo does not watch while the C++ half calls our compiler",
        "Dynamo leaves out device libraries",
    ),
    Seam(
        "torch._C._dynamo.eval_frame.set_code_exec_strategy",
        "Dynamo does not compile our wrappers as frames",
        "as above",
    ),
    Seam("torch.Tensor.to", "takes device_layout=", "torch has a notion of device layouts", extended=True),
    Seam("torch.empty", "takes device_layout=", "torch has a notion of device layouts", extended=True),
    Seam("torch.Tensor.new_empty", "takes device_layout=", "torch has a notion of device layouts", extended=True),
    Seam(
        "torch.Tensor.device_tensor_layout", "documented for Spyre", "torch has a notion of device layouts", added=True
    ),
    Seam(
        "torch._tensor_str._tensor_str",
        "prints from one copy to the host instead of a dozen small operators on the card",
        "torch copies PrivateUse1 tensors before printing, as it does for xla",
        replaced=True,
    ),
    Seam(
        "torch.Tensor.share_memory_",
        "torch silently does nothing for PrivateUse1; sharing card memory between processes is not possible",
        "torch asks the backend",
        replaced=True,
    ),
    Seam(
        "torch.UntypedStorage._write_file",
        "torch reads the memory behind a handle itself; pickle and the old file format come here",
        "torch copies the storage, as its new file format does",
        replaced=True,
    ),
    Seam("torch.UntypedStorage._set_from_file", "and writes it itself", "as above", replaced=True),
    Seam("torch.Tensor.__dlpack__", "a consumer would dereference a handle", "torch asks the backend", replaced=True),
    Seam(
        "torch.Tensor.__dlpack_device__",
        "as above, asked first by torch.from_dlpack",
        "torch asks the backend",
        replaced=True,
    ),
    Seam(
        "torch.utils.dlpack.to_dlpack", "a consumer would dereference a handle", "torch asks the backend", replaced=True
    ),
    Seam("torch.to_dlpack", "a consumer would dereference a handle", "torch asks the backend", replaced=True),
    Seam("torch._dynamo.device_interface.DeviceInterface", "Dynamo's questions to a device", "it becomes public"),
    Seam("torch._inductor.ir", "the extern kernel that is a bundle", "Inductor has a public border for backends"),
    Seam(
        "torch._decomp.decomposition_table", "compositions that eager shares with graphs", "torch offers them in public"
    ),
    Seam(
        "torch._prims_common.suggest_memory_format",
        "results of operators on images have the strides they have on the CPU",
        "torch.Tensor has it",
    ),
    Seam(
        "torch._dynamo.callback.CompilationCallbackHandler.install_callbacks",
        "shows that a frame is being traced; torch's own callbacks do not tell the threads apart, and a reset drops them",
        "torch tells each thread's beginning and end",
        replaced=True,
    ),
    Seam(
        "torch._C._conv_determine_backend_memory_format",
        "tells fake tensors that convolutions on the card keep channels_last, as the CPU's do",
        "torch asks the backend",
        replaced=True,
    ),
    Seam(
        "torch._subclasses.fake_impls.register_op_impl",
        "tells fake tensors that pixel_shuffle on the card keeps channels_last, and nonzero_static has rows, as on the CPU",
        "torch asks the backend",
    ),
    Seam(
        "torch._inductor.decomposition.decompositions",
        "operators with a row of their own stay whole on spyre",
        "decompositions can be chosen per device",
    ),
    Seam("torch._decomp.decompositions", "the module whose function is replaced below", "as below"),
    Seam(
        "torch._decomp.decompositions.should_fold",
        "a vector times matrices is the same products in a graph as in eager mode",
        "torch's decomposition of matmul folds where its kernel does",
        replaced=True,
    ),
    Seam(
        "torch._inductor.fx_passes.joint_graph.UniformValueConstantFolder",
        "the class whose method is replaced below",
        "as below",
    ),
    Seam(
        "torch._inductor.fx_passes.joint_graph.UniformValueConstantFolder.add_node_replacement",
        "reads 16-bit infinities as float32; as float16 the host would read NaN",
        "it folds on the CPU",
        replaced=True,
    ),
    Seam(
        "torch._inductor.compile_fx.select_decomp_table",
        "our backend is registered before the first graph is decomposed; Inductor asks for it only afterwards",
        "Inductor calls init_backend_registration before decompositions",
        replaced=True,
    ),
    Seam(
        "torch._inductor.decomposition.select_decomp_table",
        "the same function where it comes from: Inductor's caches pickle it by name",
        "as above",
        replaced=True,
    ),
    Seam(
        "torch.ops.aten._to_copy.default",
        "a part of a tensor that goes to another device stays one call: Inductor's device_put promises its strides",
        "device_put is described with the strides that eager gives",
    ),
    Seam(
        "torch.ops.aten._embedding_bag.default",
        "offsets that end with the end are given without it: torch describes a bag too many",
        "torch describes as many bags on every device",
    ),
    Seam("torch._inductor.fx_passes.post_grad", "the module whose functions are replaced below", "as below"),
    Seam(
        "torch._inductor.fx_passes.post_grad.decompose_auto_functionalized",
        "copies what a custom operator will write; such copies are left to eager",
        "custom passes of a backend run after it",
        replaced=True,
    ),
    Seam(
        "torch._inductor.fx_passes.post_grad.get_all_devices",
        "knows inputs and results alone; a graph may compute on the card in between",
        "custom passes of a backend run for every device of a graph",
        replaced=True,
    ),
    Seam(
        "torch._inductor.fx_passes.post_grad.should_prefer_unfused_addmm",
        "says yes: a sum and a product are two ops of the card, and which of them stands first is known only while they are apart",
        "torch asks the backend whether it has addmm",
        replaced=True,
    ),
    Seam("torch._inductor.decomposition.fast_random_decomps", "the table made from it", "as above"),
    Seam(
        "torch.utils._config_module.install_config_module", "config.patch of the planning options", "it becomes public"
    ),
    Seam(
        "torch.utils.weak.WeakTensorKeyDictionary",
        "names of a tensor's dims, for as long as it lives",
        "it becomes public",
    ),
    Seam("torch.fx.traceback.annotate", "hints travel with the nodes of a graph", "it becomes stable"),
    Seam(
        "torch._dynamo.decorators.assume_constant_result",
        "sets the mark that `runs_while_tracing` sets without loading Dynamo",
        "torch.compiler offers it without loading Dynamo",
    ),
    Seam("torch._ops.OpOverload", "knows operators among the callables of a graph", "it becomes public"),
    Seam("torch.utils._pytree.tree_leaves", "finds tensors among nested arguments", "it becomes public"),
    Seam("torch.utils._pytree.tree_map", "exchanges leaves of nested arguments", "it becomes public"),
    Seam(
        "torch.utils._python_dispatch.TorchDispatchMode",
        "`compare` follows every operator of a model",
        "it becomes public",
    ),
    Seam(
        "torch.utils._python_dispatch._disable_current_modes",
        "`compare` reads results of modules without following itself",
        "it becomes public",
    ),
    Seam("torch.utils._pytree.tree_map_only", "exchanges tensors among nested arguments", "it becomes public"),
    Seam("torch.Tensor._make_wrapper_subclass", "tensors that are only their description", "it becomes public"),
    Seam("torch._inductor.config", "whether TORCH_COMPILE_DEBUG is on", "it becomes public"),
    Seam(
        "torch._guards.TracingContext", "which sizes change, and the bounds of mark_dynamic", "Inductor hands them on"
    ),
    Seam("torch._dynamo.utils.get_debug_dir", "where TORCH_COMPILE_DEBUG writes", "it becomes public"),
    Seam(
        "torch._inductor.compile_fx.compile_fx",
        'what backend="spyre" compiles with; a graph may be the first to name the device, and then our backend is registered',
        "Inductor calls init_backend_registration before decompositions",
        replaced=True,
    ),
    Seam("torch._inductor.compile_fx", "the module whose functions are replaced", "as below"),
    Seam(
        "torch._inductor.compile_fx._recursive_post_grad_passes",
        "puts repeated regions back into a graph on the card first, so that they share a launch",
        "a device's pass is given a graph before its subgraphs",
        replaced=True,
    ),
    Seam(
        "torch._inductor.compile_fx._recursive_joint_graph_passes",
        "copies that torch makes for its own patterns, once, are none of the program's for torch.spyre.predicted_time()",
        "torch traces its patterns without tensors on the device",
        replaced=True,
    ),
    Seam("torch.compiler._cache.CacheArtifact", "what save_cache_artifacts saves of ours", "it becomes public"),
    Seam("torch.compiler._cache.CacheArtifactFactory", "registers that kind", "it becomes public"),
    Seam("torch.compiler._cache.CacheArtifactManager", "is told of every graph in use", "it becomes public"),
    Seam("torch.ops.higher_order.invoke_subgraph", "how a graph calls a repeated region", "it becomes public"),
    Seam("torch.fx.node.map_arg", "a node's arguments by their values", "torch.fx exports it"),
    Seam(
        "torch._inductor.lowering.make_fallback",
        "an operator that stayed whole and is left to eager needs a lowering, though it has a decomposition",
        "decompositions can be chosen per device",
    ),
    Seam("torch._inductor.lowering.lowerings", "whether it has one", "as above"),
    Seam("torch.fx.node.has_side_effect", "a bundle that updates inputs is not dead", "it becomes public"),
    Seam("torch.utils._sympy.printers.PythonPrinter", "sizes as text", "it becomes public"),
    Seam("torch._inductor.virtualized.V", "the graph being compiled", "Inductor has a public border for backends"),
    Seam(
        "torch._inductor.codegen.wrapper.PythonWrapperCodegen",
        "create() runs before the scheduler exists: there the graph is taken over",
        "Inductor has a public border for backends",
    ),
    Seam(
        "torch._inductor.codegen.wrapper.SubgraphPythonWrapperCodegen",
        "bodies of torch.cond",
        "Inductor has a public border for backends",
    ),
    Seam(
        "torch._inductor.scheduler.BaseScheduling", "sees only our bundles", "Inductor has a public border for backends"
    ),
    Seam(
        "torch._inductor.codegen.common.BackendFeature",
        "what the backend can do",
        "Inductor has a public border for backends",
    ),
    Seam(
        "torch._inductor.codegen.common.DeviceOpOverrides",
        "text around the device in generated code",
        "Inductor has a public border for backends",
    ),
    Seam(
        "torch._inductor.codegen.common.register_backend_for_device",
        "registration",
        "Inductor has a public border for backends",
    ),
    Seam(
        "torch._inductor.codegen.common.register_device_op_overrides",
        "registration",
        "Inductor has a public border for backends",
    ),
    Seam(
        "torch._inductor.custom_graph_pass.CustomGraphModulePass",
        "key of Inductor's graph cache",
        "Inductor has a public border for backends",
    ),
    Seam(
        "torch._dynamo.device_interface.register_interface_for_device",
        "registration",
        "Inductor has a public border for backends",
    ),
    Seam(
        "torch.utils._ordered_set.OrderedSet",
        "what Inductor's classes want",
        "Inductor has a public border for backends",
    ),
    Seam(
        "torch.profiler.profiler._KinetoProfile.export_chrome_trace",
        "a trace of the card that cannot be written is told, and can be written elsewhere",
        "Kineto reports files that it could not write",
        replaced=True,
    ),
    Seam(
        "torch.autograd.profiler.profile.export_chrome_trace",
        "the same; Kineto would rename its file over a device such as /dev/full",
        "Kineto reports files that it could not write",
        replaced=True,
    ),
    Seam(
        "torch.autograd.profiler.profile.__exit__",
        "a launch's error, or Ctrl-C, in the wait at a profile's end does not leave it running",
        "torch's profiler ends where waiting for the device raises",
        replaced=True,
    ),
    Seam(
        "torch.autograd.profiler._filter_name",
        "what a real card would take is in traces, and not in tables of what the host took",
        "torch's tables tell two clocks apart",
        replaced=True,
    ),
    Seam("torch.nn.Module._call_impl", "its frames tell which module allocates memory", "torch's stacks name modules"),
    Seam(
        "torch._utils._augment_memory_snapshot_stack_traces",
        "memory snapshots with lines of the model, as torch.cuda's",
        "it becomes public",
    ),
    Seam("torch.accelerator.manual_seed", "documented for Spyre, missing in torch 2.13", "torch has it", added=True),
    Seam(
        "torch.accelerator.manual_seed_all", "documented for Spyre, missing in torch 2.13", "torch has it", added=True
    ),
)

register_device_module = torch._register_device_module
has_torch_function = torch.overrides.has_torch_function_unary


def resolve(symbol: str) -> Any:
    """The object a row names."""
    head, *rest = symbol.split(".")
    if head != "torch":
        raise ValueError(f"a seam is a symbol of torch, not {symbol!r}")
    found: Any = torch
    for depth, name in enumerate(rest, 1):
        if not hasattr(found, name):
            importlib.import_module(".".join([head, *rest[:depth]]))
        found = getattr(found, name)
    return found


def all_operators() -> list[str]:
    """Names of all operators, "aten::add.Tensor"."""
    return sorted(torch._C._dispatch_get_all_op_names())


def kernel_of(operator: str) -> str:
    """What the dispatcher tells of an operator's kernel for our device; nothing if there is none."""
    lines = torch._C._dispatch_dump_table(operator).splitlines()
    return next((line for line in lines if line.startswith("PrivateUse1:")), "")


def dynamo_device_interface() -> type:
    """The base class of Dynamo's device interfaces; loads Dynamo."""
    interface: type = resolve("torch._dynamo.device_interface.DeviceInterface")
    return interface


def rename_backend() -> None:
    """PrivateUse1 is called spyre from now on."""
    if torch._C._get_privateuse1_backend_name() != DEVICE_NAME:
        torch.utils.rename_privateuse1_backend(DEVICE_NAME)  # type: ignore[attr-defined]


def wrap(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace owner.name by make(original), once; the original stays reachable as __wrapped__."""
    original = getattr(owner, name)
    if getattr(original, "_torch_spyre_seam", False):
        return
    wrapper = functools.wraps(original)(make(original))
    wrapper._torch_spyre_seam = True  # type: ignore[attr-defined]
    hide_from_dynamo(wrapper)
    setattr(owner, name, wrapper)


def hide_from_dynamo(function: Callable[..., Any], callees: bool = False) -> None:
    """It does not compile a function that runs as a frame of its own (nor what that calls); in a graph it still looks into it."""
    frames = torch._C._dynamo.eval_frame
    action = frames._FrameAction
    strategy = frames._FrameExecStrategy(action.SKIP, action.SKIP if callees else action.DEFAULT)
    frames.set_code_exec_strategy(function.__code__, strategy)


def runs_while_tracing(function: Function) -> Function:
    """Dynamo calls it when it comes to it in a graph, and takes what it returns for a constant that nothing guards."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def original_of(replaced: Any) -> Any:
    """What torch had in this place; None if it is not ours."""
    return replaced.__wrapped__ if getattr(replaced, "_torch_spyre_seam", False) else None


def module_call_code() -> CodeType:
    """The code that every call of a torch.nn.Module has a frame of."""
    return torch.nn.Module._call_impl.__code__


def with_fx_traces(snapshot: dict[str, Any]) -> dict[str, Any]:
    """A memory snapshot whose frames of generated code name lines of the model."""
    return torch._utils._augment_memory_snapshot_stack_traces(snapshot)  # type: ignore[arg-type, return-value]
