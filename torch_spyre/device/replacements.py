"""What we put in place of torch's own functions when the device is registered; why, says the table in `torch_seams.py`."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Self

import torch

from openspyre.spec import progress
from openspyre.spec.errors import SpyreError
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.torch_seams import NotShareable, has_torch_function, resolve, wrap


def install() -> None:
    """Put every wrapper in place."""
    import torch.utils.dlpack

    wrap(torch.nn.Module, "_apply", _place_weights)
    wrap(resolve("torch._C"), "_conv_determine_backend_memory_format", _convolve_in_format)
    wrap(resolve("torch._tensor_str"), "_tensor_str", _print_from_host)
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
    wrap(resolve("torch.profiler.profiler")._KinetoProfile, "export_chrome_trace", _export_whole)
    wrap(resolve("torch.autograd.profiler").profile, "export_chrome_trace", _export_whole)
    wrap(resolve("torch.autograd.profiler").profile, "__exit__", _end_whatever_comes)
    wrap(resolve("torch.autograd.profiler"), "_filter_name", _leave_out_predictions)
    _teach_device_layout()
    after_import("torch._subclasses.fake_impls", _describe_as_computed)
    after_import("torch._dynamo.callback", _show_compilations)
    after_import("torch._inductor.compile_fx", lambda: _wrap_compiler(sys.modules["torch._inductor.compile_fx"]))


def after_import(name: str, act: Callable[[], None]) -> None:
    """Call `act` when a module has been imported: now, or whenever that will be."""
    module = sys.modules.get(name)
    if module is None:
        sys.meta_path.insert(0, _AfterImport(name, act))
    elif getattr(module.__spec__, "_initializing", False):  # it is the one that imports torch
        _BeingImported.watch(module, act)
    else:
        act()


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


class _BeingImported(importlib.machinery.ModuleSpec):
    """The spec of a module whose code runs: the import system tells it when that has ended."""

    acts: list[Callable[[], None]]

    @classmethod
    def watch(cls, module: Any, act: Callable[[], None]) -> None:
        spec = module.__spec__
        if not isinstance(spec, cls):
            spec.__class__, spec.acts = cls, []
        spec.acts.append(act)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "_initializing" and not value:
            acts = self.__dict__.pop("acts", [])
            self.__class__ = importlib.machinery.ModuleSpec  # type: ignore[assignment]
            for act in acts if self.name in sys.modules else ():  # its import may have failed
                act()


def _show_compilations() -> None:
    """Tracing is part of what a user waits for."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def install_callbacks(self: Any, trigger: Any, compile_id: str) -> Iterator[None]:
            shown = torch.spyre.is_initialized()  # type: ignore[attr-defined]
            with progress.working(f"compiling frame {compile_id}") if shown else nullcontext():
                progress.stage("tracing")
                with original(self, trigger, compile_id):
                    yield

        return install_callbacks

    wrap(sys.modules["torch._dynamo.callback"].CompilationCallbackHandler, "install_callbacks", make)


def _wrap_compiler(module: Any) -> None:
    _wrap_decompositions(module)
    _wrap_compile_fx(module)


def _wrap_decompositions(module: Any) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def select_decomp_table() -> Any:
            if torch.spyre.is_initialized():  # type: ignore[attr-defined]
                from torch_spyre.inductor import backend
                from torch_spyre.inductor.lowering import decomposition_overrides

                backend.register()
                decomposition_overrides.follow_libraries()
            return original()

        return select_decomp_table

    # Inductor's caches pickle the function by name, so it must be found where it says it is from.
    decomposition = sys.modules["torch._inductor.decomposition"]
    wrap(decomposition, "select_decomp_table", make)
    module.select_decomp_table = decomposition.select_decomp_table


def _wrap_compile_fx(module: Any) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_fx(model_: Any, example_inputs_: Any, *args: Any, **kwargs: Any) -> Any:
            from torch_spyre.inductor.importing.hints import traced

            if isinstance(model_, torch.fx.GraphModule) and any(map(_makes_tensor_on_card, model_.graph.nodes)):
                from torch_spyre.inductor import backend

                backend.register()
            if isinstance(model_, torch.fx.GraphModule):
                progress.stage("Inductor", f"{len(model_.graph.nodes)} ops")
            with traced(model_, example_inputs_):
                return original(model_, example_inputs_, *args, **kwargs)

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
        with _Moving(self) as move:
            try:
                moved = original(self, move.counting(fn), recurse)
            finally:
                moving.on = False
            if is_on_card(self):
                from torch_spyre.device.weights import place_linear_weights

                place_linear_weights(moved)
        return moved

    return _apply


class _Moving:
    """A module's way to the card, for whoever waits for it; other things done to modules are none."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._work: progress.Work | None = None

    def counting(self, fn: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        numbers = itertools.count(1)
        total = sum(1 for _ in itertools.chain(self._module.parameters(), self._module.buffers()))

        def counted(tensor: torch.Tensor) -> torch.Tensor:
            number = next(numbers)
            try:
                moved = fn(tensor)
            except torch.OutOfMemoryError as problem:
                raise torch.OutOfMemoryError(f"{problem}\n{self._too_large(number, total)}") from None
            if moved.device.type == DEVICE_NAME:
                if self._work is None:
                    self._work = progress.begin(f"moving {type(self._module).__name__}")
                progress.stage(f"{number} of {total} tensors")
            return moved

        return counted

    def _too_large(self, number: int, total: int) -> str:
        from torch_spyre.device.weights import ROOM

        tensors = itertools.chain(self._module.parameters(), self._module.buffers())
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors) / 2**20
        return f"{type(self._module).__name__} has {total} tensors of {size:.1f} MiB together, and tensor {number} does not fit: {ROOM}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        progress.end(self._work)


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


def _convolve_in_format(original: Callable[..., Any]) -> Callable[..., Any]:
    def determine(image: torch.Tensor, kernel: torch.Tensor, backend: Any) -> torch.memory_format:
        if image.device.type != DEVICE_NAME:
            return original(image, kernel, backend)
        from torch_spyre.ops.memory_formats import of_convolution

        return of_convolution(image, kernel)

    return determine


def _describe_as_computed() -> None:
    """Fake results on the card where torch describes those of another accelerator."""
    register = resolve("torch._subclasses.fake_impls.register_op_impl")
    shuffle = torch.ops.aten.pixel_shuffle.default

    def shuffled(mode: Any, operator: Any, image: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        if image.device.type != DEVICE_NAME:
            return NotImplemented
        from torch_spyre.ops.composed import table

        with mode:
            return table()[shuffle](image, *arguments, **keywords)

    def found(mode: Any, operator: Any, x: torch.Tensor, *, size: int, fill_value: int = -1) -> Any:
        if x.device.type != DEVICE_NAME:
            return NotImplemented
        with mode:
            return x.new_empty((size, x.dim()), dtype=torch.int64)

    register(shuffle)(shuffled)
    register(torch.ops.aten.nonzero_static.default)(found)


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


def _export_whole(original: Callable[..., Any]) -> Callable[..., Any]:
    def export_chrome_trace(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        profile = getattr(self, "profiler", self)  # torch.profiler's has one of torch.autograd's in it
        if profile is None or profile.use_device != DEVICE_NAME:
            return original(self, path, *args, **kwargs)
        from torch_spyre.profiler.export import export

        return export(profile, path, lambda place: original(self, place, *args, **kwargs))

    return export_chrome_trace


def _end_whatever_comes(original: Callable[..., Any]) -> Callable[..., Any]:
    def __exit__(self: Any, *error: Any) -> Any:
        if self.use_device != DEVICE_NAME:
            return original(self, *error)
        before = self.kineto_results
        try:
            return original(self, *error)
        except (SpyreError, KeyboardInterrupt) as problem:  # while torch waits for the card
            from torch_spyre.device.streams import synchronize

            if self.kineto_results is before:
                if isinstance(problem, SpyreError):
                    with suppress(SpyreError):
                        synchronize()  # for other streams and cards
                self.use_device = None  # a lost card raises each time: torch waits no more
                try:
                    original(self, *error)
                finally:
                    self.use_device = DEVICE_NAME
            raise

    return __exit__


def _leave_out_predictions(original: Callable[[str], bool]) -> Callable[[str], bool]:
    def _filter_name(name: str) -> bool:
        return name.endswith(" (predicted)") or original(name)

    return _filter_name


def _refuse_dlpack(original: Callable[..., Any]) -> Callable[..., Any]:
    def export(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self, torch.Tensor) and self.device.type == DEVICE_NAME:
            raise NotShareable(
                f"a tensor on {self.device} cannot be exported by DLPack: its memory is tiled and not addressable by the host; "
                "export x.cpu() instead"
            )
        return original(self, *args, **kwargs)

    return export
