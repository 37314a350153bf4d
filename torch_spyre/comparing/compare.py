"""`torch_spyre.compare`: a model on the card and in float32 on the CPU, and where the two part."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from openspyre.spec.errors import InvalidArgument
from torch_spyre.comparing.inputs import Inputs
from torch_spyre.comparing.measures import difference, on_the_host
from torch_spyre.comparing.records import ComparedModule, ComparedWeight, Comparison
from torch_spyre.comparing.shadow import ShadowMode, Twins, own_copy, tree_leaves, tree_map
from torch_spyre.torch_seams import resolve

_disable_current_modes = resolve("torch.utils._python_dispatch._disable_current_modes")


def compare(
    model: Callable[..., Any],
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    bound: float = 0.01,
) -> Comparison:
    """Runs a module or a function on the card, and beside every operator the same in float32 on the CPU.

    The result prints as a table; `.json()` has everything, `.html(path)` writes a page. `dtype`: what the model's floats become first, as
    by `model.to(dtype)`; float32 beside it keeps what they were. `bound`: relative error beyond which a module is named. The model and the
    inputs may be on the CPU or on the card, and stay where they are. What torch.compile gave is compared as what it was given: the bits
    are the same.
    """
    if not callable(model):
        raise InvalidArgument(f"compare takes a module or a function, not a {type(model).__name__}")
    if not bound > 0:
        raise InvalidArgument(f"bound is a relative error above 0, 0.01 for example, not {bound}")
    plain: Any = getattr(model, "_orig_mod", model)
    plain = getattr(plain, "_torchdynamo_orig_callable", plain)
    truth, weights = Twins(), []
    ours = plain
    if isinstance(plain, nn.Module):
        ours = copy.deepcopy(plain)
        ours = (ours if dtype is None else ours.to(dtype)).to("spyre")
        weights = list(_weights(plain, ours, truth))
    given = tree_map(Inputs(dtype, truth).on_card, (list(inputs), dict(kwargs or {})))
    watch = _Modules(truth)
    mode = ShadowMode(truth, lambda: watch.path)
    with torch.no_grad(), watch.watching(ours), mode:
        ours(*given[0], **given[1])
    return Comparison(bound, tuple(watch.found), tuple(mode.operators), tuple(weights), tuple(mode.followed.items()))


def _weights(plain: nn.Module, ours: nn.Module, truth: Twins) -> Iterator[ComparedWeight]:
    """Parameters and buffers with their twins: what they were before the card's format."""
    places = zip(_held(plain), _held(ours), strict=True)
    for (path, before), (_, here) in places:
        twin = own_copy(before)
        truth.set(here, twin)
        yield ComparedWeight(path, tuple(here.shape), _name(here), difference(on_the_host(here), twin, here.dtype))


def _held(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


class _Modules:
    """Follows a model's modules as they are called, and compares what they return."""

    def __init__(self, truth: Twins) -> None:
        self.truth = truth
        self.found: list[ComparedModule] = []
        self._running: list[str] = []
        self._calls: dict[str, int] = {}

    @property
    def path(self) -> str:
        return self._running[-1] if self._running else ""

    @contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        with ExitStack() as stack:
            for path, module in model.named_modules() if isinstance(model, nn.Module) else ():
                before = module.register_forward_pre_hook(lambda *_, path=path: self._running.append(path))
                after = module.register_forward_hook(
                    lambda module, _, returned, path=path: self._returned(path, module, returned), always_call=True
                )
                stack.callback(before.remove)
                stack.callback(after.remove)
            yield

    def _returned(self, path: str, module: nn.Module, returned: Any) -> None:
        self._running.pop()
        tensors = [leaf for leaf in tree_leaves(returned) if isinstance(leaf, Tensor)]
        one = next((tensor for tensor in tensors if tensor in self.truth), None)
        if one is None:
            return
        call = self._calls[path] = self._calls.get(path, 0) + 1
        with _disable_current_modes():
            total = difference(on_the_host(one), self.truth.of(one), one.dtype)
        kind = type(module).__name__
        self.found.append(ComparedModule(path, kind, call, tuple(one.shape), _name(one), total))
