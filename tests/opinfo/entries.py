"""What torch's own tests know of its operators and modules (OpInfo, ModuleInfo), as functions of tensors on the CPU."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

FLOATS = (torch.float16, torch.float32)
OTHERS = (torch.int64, torch.bool, torch.complex64, torch.float64)


@dataclass(frozen=True)
class Sample:
    """One call: `function(tensors, device)`; `grown` are the numbers of the tensors that gradients are asked for."""

    function: Callable[[list[torch.Tensor], str], Any]
    tensors: list[torch.Tensor]
    grown: tuple[int, ...]
    described: str


@dataclass(frozen=True)
class Entry:
    name: str
    info: Any
    is_module: bool

    def dtypes(self) -> tuple[torch.dtype, ...]:
        """float16 and float32, or what the entry has instead. float16 also where only other devices' kernels take it."""
        if self.is_module:
            return FLOATS
        known = self.info.dtypes | self.info.dtypesIfCUDA
        return tuple(t for t in FLOATS if t in known) or tuple(t for t in OTHERS if t in known)[:1]

    def supports(self, dtype: torch.dtype) -> bool:
        return dtype in (self.info.dtypes if self.is_module else self.info.dtypes | self.info.dtypesIfCUDA)

    def samples(self, dtype: torch.dtype, seed: int) -> Iterator[Sample]:
        torch.manual_seed(seed)
        random.seed(seed)
        return _module_samples(self.info, dtype) if self.is_module else _operator_samples(self.info, dtype)


@cache
def entries() -> dict[str, Entry]:
    operators = [Entry(f"{i.name}.{i.variant_test_name}".rstrip("."), i, False) for i in op_db]
    modules = [Entry(f"module.{i.name}", i, True) for i in module_db]
    return {entry.name: entry for entry in operators + modules}


def _operator_samples(info: Any, dtype: torch.dtype) -> Iterator[Sample]:
    gradients = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    for sample in info.sample_inputs("cpu", dtype, requires_grad=gradients):
        call = (sample.input, *sample.args), dict(sample.kwargs)
        yield _sample(info.op, call, sample.output_process_fn_grad)


def _sample(operator: Callable[..., Any], call: Any, finish: Callable[[Any], Any]) -> Sample:
    leaves, shape = tree_flatten(call)
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(tensors: list[torch.Tensor], device: str) -> Any:
        own = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            own[place] = tensor
        own = [device if str(leaf) == "cpu" else leaf for leaf in own]
        args, kwargs = tree_unflatten(own, shape)
        return finish(operator(*args, **kwargs))

    tensors = [leaves[place] for place in places]
    grown = tuple(n for n, tensor in enumerate(tensors) if tensor.requires_grad)
    return Sample(function, [tensor.detach() for tensor in tensors], grown, _described(call))


def _module_samples(info: Any, dtype: torch.dtype) -> Iterator[Sample]:
    for training in (False, True):
        inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for given in inputs:
            made, forward = given.constructor_input, given.forward_input
            if forward is None:
                continue
            module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
            if isinstance(module, LazyModuleMixin):
                module(*forward.args, **forward.kwargs)  # gives it its parameters
            yield _module_sample(module, (forward.args, forward.kwargs), training)


def _module_sample(module: torch.nn.Module, call: Any, training: bool) -> Sample:
    state = dict(module.named_parameters()) | dict(module.named_buffers())
    trained = [name for name, value in state.items() if value.requires_grad]

    def run(own: dict[str, torch.Tensor], args: Any, kwargs: Any) -> Any:
        return torch.func.functional_call(copy.deepcopy(module), own, args, kwargs)

    call = tree_map_only(torch.Tensor, lambda t: t.clone().detach().requires_grad_(t.requires_grad), call)
    sample = _sample(run, ((state, *call), {}), lambda result: result)
    described = f"{'train' if training else 'eval'} {module} {_described(call)} {trained}"
    return Sample(sample.function, sample.tensors, sample.grown, described)


def _described(call: Any) -> str:
    def short(leaf: torch.Tensor) -> str:
        return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"

    args, kwargs = tree_map_only(torch.Tensor, short, call)
    text = ", ".join([*map(str, args), *(f"{name}={value}" for name, value in kwargs.items())])
    return text if len(text) < 300 else text[:300] + "..."
