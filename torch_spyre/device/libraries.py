"""What we put in place of other libraries' own functions once they are imported; why, says the table in `library_seams.py`."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.replacements import after_import
from torch_spyre.library_seams import LIBRARY_SEAMS, LibrarySeam
from torch_spyre.ops.fallbacks import first_met
from torch_spyre.torch_seams import wrap

log = logging.getLogger("spyre.device")
_CACHE_PIECE = 256  # places; a piece of SmolLM2's cache is 6 MB, of Granite 8B's 42 MB
Function = Callable[..., Any]


def install() -> None:
    """Wait for the libraries."""
    for seam in LIBRARY_SEAMS:
        after_import(seam.module, functools.partial(_act, seam))


def _act(seam: LibrarySeam) -> None:
    """A library of another version must stay importable: what is not there is told, and left."""
    owner: Any = sys.modules[seam.module]
    *path, name = seam.symbol.split(".")
    for part in path:
        owner = getattr(owner, part, None)
    if not hasattr(owner, name):
        log.warning(
            "%s has no %s any more, so not with spyre: %s (docs/torch_seams.md)", seam.module, seam.symbol, seam.why
        )
        return
    if seam.hooked:
        _HOOKS[seam.symbol]()
    elif isinstance(owner, type) and isinstance(found := vars(owner)[name], property | functools.cached_property):
        _wrap_getter(owner, name, found, _REPLACEMENTS[seam.symbol])
    else:
        is_static = isinstance(owner, type) and isinstance(vars(owner)[name], staticmethod)
        wrap(owner, name, _REPLACEMENTS[seam.symbol])
        if is_static:
            setattr(owner, name, staticmethod(getattr(owner, name)))


def _wrap_getter(owner: type, name: str, found: Any, make: Callable[[Function], Function]) -> None:
    """A property of the same kind around the one there was."""
    cached = isinstance(found, functools.cached_property)
    getter = found.func if cached else found.fget
    made = functools.wraps(getter)(make(getter))
    replaced: Any = type(found)(made)
    if cached:
        replaced.__set_name__(owner, name)
    setattr(owner, name, replaced)


def _is_ours(device: Any) -> bool:
    try:
        return torch.device(device).type == DEVICE_NAME
    except (RuntimeError, TypeError):
        return False  # the library's own error, or a name of its own


def _has_card() -> bool:
    return torch.spyre.is_available()  # type: ignore[attr-defined]


# --- safetensors ---------------------------------------------------------------------------------------------------------


@contextmanager
def _room_for(what: str) -> Iterator[None]:
    """The card knows of one allocation; whoever loads a model wants to know what to do about all of them."""
    try:
        yield
    except torch.OutOfMemoryError as problem:
        from torch_spyre.device.weights import ROOM

        raise torch.OutOfMemoryError(
            f"{problem}\nThe model does not fit, for want of room for {what}: {ROOM}"
        ) from None


class _Slice:
    """A tensor of a file that is not read yet."""

    def __init__(self, found: Any, device: torch.device) -> None:
        self._found, self._device = found, device

    def __getitem__(self, key: Any) -> torch.Tensor:
        with _room_for("a tensor of a checkpoint"):
            return self._found[key].to(self._device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)


class _OpenOnCard:
    """A safetensors file whose tensors go to the card one by one."""

    def __init__(self, opened: Any, device: torch.device) -> None:
        self._opened, self._device = opened, device

    def __enter__(self) -> _OpenOnCard:
        self._opened.__enter__()
        return self

    def __exit__(self, *problem: object) -> Any:
        return self._opened.__exit__(*problem)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)

    def get_tensor(self, name: str) -> torch.Tensor:
        with first_met(f"tensor {name!r} of a checkpoint"), _room_for(f"tensor {name!r} of a checkpoint"):
            return self._opened.get_tensor(name).to(self._device)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        return {name: self.get_tensor(name) for name in self._opened.keys()}  # noqa: SIM118  # it is no dict

    def get_slice(self, name: str) -> _Slice:
        return _Slice(self._opened.get_slice(name), self._device)


def _open_on_card(original: Function) -> Function:
    def safe_open(filename: Any, framework: str, device: Any = "cpu", **more: Any) -> Any:
        if not _is_ours(device):
            return original(filename, framework, device, **more)
        return _OpenOnCard(original(filename, framework, "cpu", **more), torch.device(device))

    return safe_open


# --- which device is taken -----------------------------------------------------------------------------------------------


def _default_device(original: Function) -> Function:
    def default_device(self: Any) -> torch.device:
        device = original(self)
        return torch.device(DEVICE_NAME, 0) if device.type == "cpu" and _has_card() else device

    return default_device


def _setup_devices(original: Function) -> Function:
    def setup_devices(self: Any) -> torch.device:
        device = original(self)
        by_user = self.use_cpu or "ACCELERATE_TORCH_DEVICE" in os.environ or _truth("ACCELERATE_USE_CPU")
        alone = self.distributed_state is None or not torch.distributed.is_initialized()
        return (
            torch.device(DEVICE_NAME, 0) if device.type == "cpu" and alone and not by_user and _has_card() else device
        )

    return setup_devices


def _truth(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "true", "yes", "on", "y", "t")


def _has_bfloat16(original: Function) -> Function:
    def is_torch_bf16_gpu_available() -> bool:
        return original() or _has_card()

    return is_torch_bf16_gpu_available


def _pipeline(original: Function) -> Function:
    """Numbers are cards if these are the accelerator there is, and no device means number 0, as transformers has it."""

    def init(self: Any, model: Any, *more: Any, device: Any = None, **keywords: Any) -> None:
        number = 0 if device is None and getattr(model, "hf_device_map", None) is None else device
        if (
            isinstance(number, int)
            and number >= 0
            and _has_card()
            and _is_ours(torch.accelerator.current_accelerator())
        ):
            device = model.device if device is None and _is_ours(model.device) else torch.device(DEVICE_NAME, number)
        original(self, model, *more, **keywords, **({} if device is None else {"device": device}))

    return init


def _max_memory(original: Function) -> Function:
    """Cards are the numbered devices. Those that the caller names are kept from a check that knows none of them."""

    def get_max_memory(max_memory: Any = None) -> Any:
        numbers = range(torch.spyre.device_count())  # type: ignore[attr-defined]
        if max_memory is None:
            found = original()
            known = any(isinstance(key, int) for key in found)
            cards = {} if known else {card: torch.spyre.mem_get_info(card)[0] for card in numbers}  # type: ignore[attr-defined]
            return {**cards, **found}
        size = sys.modules["accelerate.utils.modeling"].convert_file_size_to_int
        named = sorted(_numbered(max_memory))
        cards = {card: size(room) if isinstance(room, str) else room for card, room in named if card in numbers}
        return {**cards, **original({key: room for key, room in max_memory.items() if key not in cards})}

    return get_max_memory


def _numbered(memory: dict[Any, Any]) -> Iterator[tuple[int, Any]]:
    return ((key, room) for key, room in memory.items() if isinstance(key, int))


def _warm_up(original: Function) -> Function:
    """All of a model's bytes at once, before its tensors come one by one: here it shows that they do not fit."""

    def caching_allocator_warmup(model: Any, *more: Any, **keywords: Any) -> None:
        with _room_for(f"all of {type(model).__name__}"):
            original(model, *more, **keywords)

    return caching_allocator_warmup


def _finalize(original: Function) -> Function:
    def finalize_model_loading(model: torch.nn.Module, *more: Any, **keywords: Any) -> Any:
        told = original(model, *more, **keywords)
        from torch_spyre.device.weights import place_linear_weights

        with _room_for(f"the weights of {type(model).__name__} as its products want them"):
            place_linear_weights(model)
        return told

    return finalize_model_loading


# --- generation ----------------------------------------------------------------------------------------------------------


def _compiles_by_itself(original: Function) -> Function:
    """As CompileConfig._compile_all_devices asks for, where a cache of fixed size is used."""

    def valid_auto_compile_criteria(self: Any, model_kwargs: dict[str, Any], generation_config: Any) -> bool:
        cache = model_kwargs.get("past_key_values", model_kwargs.get("cache_params"))
        if self.device.type != DEVICE_NAME or not getattr(cache, "is_compileable", False):
            return original(self, model_kwargs, generation_config)
        if getattr(cache, "offloading", False):
            return False  # its layers change places between the tokens
        compile_config = sys.modules["transformers.generation.configuration_utils"].CompileConfig
        asked = generation_config.compile_config
        given = copy.copy(generation_config)
        given.compile_config = copy.copy(asked) if asked is not None else compile_config()
        given.compile_config._compile_all_devices = True
        return original(self, model_kwargs, given)

    return valid_auto_compile_criteria


def _of_whole_pieces(original: Function) -> Function:
    """Masks leave out what is behind the last token, however long the cache is."""

    def prepare_static_cache(self: Any, *given: Any, **named: Any) -> Any:
        called = inspect.signature(original).bind(self, *given, **named)
        length = called.arguments.get("max_cache_len")
        if self.device.type == DEVICE_NAME and isinstance(length, int):
            called.arguments["max_cache_len"] = -(-length // _CACHE_PIECE) * _CACHE_PIECE
        return original(*called.args, **called.kwargs)

    return prepare_static_cache


def _offload_by_our_streams(original: Function) -> Function:
    """What is fetched ahead, on a stream of its own, waits for what was sent away, and its reader for it."""

    def update(self: Any, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *more: Any, **keywords: Any) -> Any:
        if not self.offloading or keys.device.type != DEVICE_NAME:
            return original(self, keys, values, layer_idx, *more, **keywords)
        here = torch.accelerator.current_stream(keys.device)
        here.wait_stream(self.prefetch_stream)
        self.prefetch_stream.wait_stream(here)
        _take(self.layers[layer_idx : layer_idx + 1], here)
        if self.layers:
            self.prefetch(layer_idx + 1, self.only_non_sliding)
        self.offloading = False  # then the original asks nothing of CUDA
        try:
            found = original(self, keys, values, layer_idx, *more, **keywords)
        finally:
            self.offloading = True
        self.offload(layer_idx, self.only_non_sliding)
        return found

    return update


def _take(layers: list[Any], stream: Any) -> None:
    """What was fetched on another stream is not given away before this one has read it; an only layer is fetched here."""
    for layer in layers:
        layer.prefetch()
        for fetched in (layer.keys, layer.values) if layer.is_initialized else ():
            if fetched.device.type == DEVICE_NAME:
                fetched.record_stream(stream)


def _products_in_groups() -> None:
    from torch_spyre.ops import composed, grouped

    name = "transformers::grouped_mm_fallback"
    torch.library.register_kernel(name, DEVICE_NAME, grouped.rows_by_group)
    composed.adopt(torch.ops.transformers.grouped_mm_fallback.default, grouped.rows_by_group)


_HOOKS: dict[str, Callable[[], None]] = {"_grouped_mm_fallback": _products_in_groups}
_REPLACEMENTS: dict[str, Callable[[Function], Function]] = {
    "safe_open": _open_on_card,
    "PartialState.default_device": _default_device,
    "get_max_memory": _max_memory,
    "TrainingArguments._setup_devices": _setup_devices,
    "PreTrainedModel._finalize_model_loading": _finalize,
    "caching_allocator_warmup": _warm_up,
    "is_torch_bf16_gpu_available": _has_bfloat16,
    "Pipeline.__init__": _pipeline,
    "GenerationMixin._valid_auto_compile_criteria": _compiles_by_itself,
    "GenerationMixin._prepare_static_cache": _of_whole_pieces,
    "Cache.update": _offload_by_our_streams,
}
