"""Every private symbol of torch that we touch, and every public one that we replace: one row each.

`SEAMS` is the table (why, since which torch, when it can go); a test pins each row to the installed torch, so that a new release
that moves something fails there and not in a user's hands.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.util
import itertools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from openspyre.spec.errors import SpyreError
from torch_spyre.constants import DEVICE_NAME


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
        "torch._inductor.decomposition.decompositions",
        "operators with a row of their own stay whole on spyre",
        "decompositions can be chosen per device",
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
    Seam("torch._ops.OpOverload", "knows operators among the callables of a graph", "it becomes public"),
    Seam("torch.utils._pytree.tree_leaves", "finds tensors among nested arguments", "it becomes public"),
    Seam("torch.utils._pytree.tree_map_only", "exchanges tensors among nested arguments", "it becomes public"),
    Seam("torch.Tensor._make_wrapper_subclass", "tensors that are only their description", "it becomes public"),
    Seam("torch._inductor.config", "whether TORCH_COMPILE_DEBUG is on", "it becomes public"),
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


def dynamo_device_interface() -> type:
    """The base class of Dynamo's device interfaces; loads Dynamo."""
    interface: type = resolve("torch._dynamo.device_interface.DeviceInterface")
    return interface


def rename_backend() -> None:
    """PrivateUse1 is called spyre from now on."""
    if torch._C._get_privateuse1_backend_name() != DEVICE_NAME:
        torch.utils.rename_privateuse1_backend(DEVICE_NAME)


def wrap(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace owner.name by make(original), once; the original stays reachable as __wrapped__."""
    original = getattr(owner, name)
    if getattr(original, "_torch_spyre_seam", False):
        return
    wrapper = functools.wraps(original)(make(original))
    wrapper._torch_spyre_seam = True  # type: ignore[attr-defined]
    _hide_from_dynamo(wrapper)
    setattr(owner, name, wrapper)


def _hide_from_dynamo(wrapper: Callable[..., Any]) -> None:
    """It does not compile a wrapper that runs as a frame of its own; in a graph it still looks into it."""
    frames = torch._C._dynamo.eval_frame
    strategy = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
    frames.set_code_exec_strategy(wrapper.__code__, strategy)


def original_of(replaced: Any) -> Any:
    """What torch had in this place; None if it is not ours."""
    return replaced.__wrapped__ if getattr(replaced, "_torch_spyre_seam", False) else None


def install() -> None:
    """Put every wrapper in place."""
    import torch.utils.dlpack

    wrap(torch.nn.Module, "_apply", _place_weights)
    wrap(torch._tensor_str, "_tensor_str", _print_from_host)
    wrap(torch.Tensor, "share_memory_", _refuse_sharing)
    wrap(torch.UntypedStorage, "_write_file", _write_from_host)
    wrap(torch.UntypedStorage, "_set_from_file", _read_to_host)
    for owner, name in (
        (torch.Tensor, "__dlpack__"),
        (torch.Tensor, "__dlpack_device__"),
        (torch.utils.dlpack, "to_dlpack"),
        (torch, "to_dlpack"),
    ):
        wrap(owner, name, _refuse_dlpack)
    _teach_device_layout()
    after_import("torch._inductor.compile_fx", lambda: _wrap_compiler(sys.modules["torch._inductor.compile_fx"]))


def after_import(name: str, act: Callable[[], None]) -> None:
    """Call `act` when a module has been imported: now, or whenever that will be."""
    if name in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, _AfterImport(name, act))


class _AfterImport(importlib.abc.MetaPathFinder):
    """Leaves finding to the others, and acts after the loader."""

    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self.name, self.act = name, act

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                self.act()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _wrap_compiler(module: Any) -> None:
    _wrap_decompositions(module)
    _wrap_compile_fx(module)


def _wrap_decompositions(module: Any) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def select_decomp_table() -> Any:
            if torch.spyre.is_initialized():
                from torch_spyre.inductor import backend

                backend.register()
            return original()

        return select_decomp_table

    # Inductor's caches pickle the function by name, so it must be found where it says it is from.
    decomposition = sys.modules["torch._inductor.decomposition"]
    wrap(decomposition, "select_decomp_table", make)
    module.select_decomp_table = decomposition.select_decomp_table


def _wrap_compile_fx(module: Any) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_fx(model_: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(model_, torch.fx.GraphModule) and any(map(_makes_tensor_on_card, model_.graph.nodes)):
                from torch_spyre.inductor import backend

                backend.register()
            return original(model_, *args, **kwargs)

        return compile_fx

    wrap(module, "compile_fx", make)


def _makes_tensor_on_card(node: torch.fx.Node) -> bool:
    made = node.meta.get("example_value", node.meta.get("val"))
    return isinstance(made, torch.Tensor) and made.device.type == DEVICE_NAME


def _place_weights(original: Callable[..., Any]) -> Callable[..., Any]:
    moving = threading.local()

    def is_on_card(module: torch.nn.Module) -> bool:
        return any(parameter.device.type == DEVICE_NAME for parameter in itertools.islice(module.parameters(), 1))

    def _apply(
        self: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True
    ) -> torch.nn.Module:
        if getattr(moving, "on", False) or is_on_card(self):  # children follow the module moved
            return original(self, fn, recurse)
        moving.on = True
        try:
            moved = original(self, fn, recurse)
        finally:
            moving.on = False
        if is_on_card(self):
            from torch_spyre.device.weights import place_linear_weights

            place_linear_weights(moved)
        return moved

    return _apply


def _teach_device_layout() -> None:
    """They take device_layout= and stay the objects they were, which torch compares by identity."""
    from torch_spyre import _torch

    def to(self: torch.Tensor, *args: Any, device_layout: Any, **kwargs: Any) -> torch.Tensor:
        from torch_spyre.device.layouts import to_with_layout

        if has_torch_function(self):
            kwargs["device_layout"] = device_layout
            return torch.overrides.handle_torch_function(torch.Tensor.to, (self,), self, *args, **kwargs)
        return to_with_layout(self, device_layout, *args, **kwargs)

    def new_empty(self: torch.Tensor, *args: Any, device_layout: Any, **kwargs: Any) -> torch.Tensor:
        from torch_spyre.device import layouts

        if has_torch_function(self):
            kwargs["device_layout"] = device_layout
            return torch.overrides.handle_torch_function(torch.Tensor.new_empty, (self,), self, *args, **kwargs)
        return layouts.new_empty(self, *args, device_layout=device_layout, **kwargs)

    def empty(*args: Any, device_layout: Any, **kwargs: Any) -> torch.Tensor:
        from torch_spyre.device import layouts

        if torch.overrides.has_torch_function(()):  # a mode, as `with torch.device(...)`
            kwargs["device_layout"] = device_layout
            return torch.overrides.handle_torch_function(torch.empty, (), *args, **kwargs)
        return layouts.empty(*args, device_layout=device_layout, **kwargs)

    _torch.take_device_layout(torch.Tensor.to, to)
    _torch.take_device_layout(torch.Tensor.new_empty, new_empty)
    _torch.take_device_layout(torch.empty, empty)


def _print_from_host(original: Callable[..., Any]) -> Callable[..., Any]:
    def _tensor_str(self: torch.Tensor, indent: int) -> str:
        return original(self.detach().cpu() if self.device.type == DEVICE_NAME else self, indent)

    return _tensor_str


def _refuse_sharing(original: Callable[..., Any]) -> Callable[..., Any]:
    def share_memory_(self: torch.Tensor) -> torch.Tensor:
        if self.device.type == DEVICE_NAME:
            raise NotShareable(
                f"a tensor on {self.device} cannot be moved to shared memory: a card belongs to one process; "
                "share x.cpu() and move it to spyre in the other process"
            )
        return original(self)

    return share_memory_


def _write_from_host(original: Callable[..., Any]) -> Callable[..., Any]:
    def _write_file(self: torch.UntypedStorage, *args: Any) -> Any:
        return original(self.cpu() if self.device.type == DEVICE_NAME else self, *args)

    return _write_file


def _read_to_host(original: Callable[..., Any]) -> Callable[..., Any]:
    def _set_from_file(self: torch.UntypedStorage, *args: Any) -> Any:
        if self.device.type != DEVICE_NAME:
            return original(self, *args)
        return self.copy_(original(torch.UntypedStorage(self.nbytes()), *args), False)

    return _set_from_file


def _refuse_dlpack(original: Callable[..., Any]) -> Callable[..., Any]:
    def export(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self, torch.Tensor) and self.device.type == DEVICE_NAME:
            raise NotShareable(
                f"a tensor on {self.device} cannot be exported by DLPack: its memory is tiled and not addressable by the host; "
                "export x.cpu() instead"
            )
        return original(self, *args, **kwargs)

    return export
