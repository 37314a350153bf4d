"""Runs every operator three times: on the card, in float32 with the card's inputs, and in float32 all the way from the start.

The second beside the first is what the operator rounds by itself; the third beside the first all that has come together. Eager and
compiled have the same bits, so that what is found here holds for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

from torch_spyre.comparing.measures import difference, on_the_host
from torch_spyre.comparing.records import ComparedOperator
from torch_spyre.comparing.ties import CHOOSING, with_the_cards_order
from torch_spyre.ops import recurrent
from torch_spyre.torch_seams import resolve

tree_leaves, tree_map = resolve("torch.utils._pytree.tree_leaves"), resolve("torch.utils._pytree.tree_map")
TorchDispatchMode: Any = resolve("torch.utils._python_dispatch.TorchDispatchMode")

_HALVES = (torch.float16, torch.bfloat16)
_RANDOM = "random numbers"
_aten = torch.ops.aten


def _attention(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **named: Any) -> list[Any]:
    told = dict(zip(("attn_bias", "dropout_p", "is_causal", "return_debug_mask"), rest, strict=False)) | named
    found = F.scaled_dot_product_attention(
        query,
        key,
        value,
        told.get("attn_bias"),
        told.get("dropout_p", 0.0),
        told.get("is_causal", False),
        scale=told.get("scale"),
        enable_gqa=query.shape[-3] != key.shape[-3],
    )
    return [found]


def _softmax(of: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim, half_to_float: of(x, dim, False)  # x is float32 already


def _histc(x: Tensor, *told: Any, **named: Any) -> Tensor:
    """Which the CPU counts of floats alone."""
    return _aten.histc.default(x if x.is_floating_point() else x.double(), *told, **named).to(x.dtype)


# Operators that the CPU has under another name.
_ON_THE_CPU: Mapping[Any, Callable[..., Any]] = {
    _aten._scaled_dot_product_fused_attention_overrideable.default: _attention,
    _aten.convolution_overrideable.default: _aten.convolution.default,
    _aten._softmax.default: _softmax(_aten._softmax.default),
    _aten._log_softmax.default: _softmax(_aten._log_softmax.default),
    _aten._thnn_fused_gru_cell.default: recurrent.COMPOSITIONS["_thnn_fused_gru_cell"],
    _aten._thnn_fused_lstm_cell.default: recurrent.COMPOSITIONS["_thnn_fused_lstm_cell"],
    _aten.histc.default: _histc,
}


class Twins:
    """A twin on the CPU of every tensor that was seen. Twins of views are views, so that writing into one is seen in all."""

    def __init__(self) -> None:
        self._known: Any = WeakTensorKeyDictionary()

    def __contains__(self, tensor: Tensor) -> bool:
        return tensor in self._known

    def set(self, tensor: Tensor, twin: Tensor) -> None:
        self._known[tensor] = twin

    def of(self, tensor: Tensor) -> Tensor:
        """Of one that was never seen: its own numbers."""
        if tensor not in self._known:
            self._known[tensor] = own_copy(tensor)
        found: Tensor = self._known[tensor]
        return found


def own_copy(tensor: Tensor) -> Tensor:
    """The card's numbers in memory of their own."""
    here = on_the_host(tensor)
    return here.clone() if tensor.device.type == "cpu" else here


class ShadowMode(TorchDispatchMode):
    """`truth`: what tensors should be; `cards`: what they are. `where`: the path of the module that runs now."""

    def __init__(self, truth: Twins, where: Callable[[], str]) -> None:
        super().__init__()
        self.truth, self.cards, self.where = truth, Twins(), where
        self.operators: list[ComparedOperator] = []
        self.followed: dict[str, str] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        taken = [leaf for leaf in tree_leaves((args, named)) if isinstance(leaf, Tensor)]
        written = _written(func, args, named)
        ours = any(_is_ours(one) or one in self.truth for one in taken)
        computes = ours and not _is_view(func)
        reshapes = torch.Tag.inplace_view in func.tags  # transpose_, set_: sizes of the tensor itself, no numbers
        # Before the card writes into them; the card's own numbers must not be written over by the trial.
        trial = self._copied if written and not reshapes else self._card
        before = tree_map(trial, (list(args), named)) if ours else None
        returned = func(*args, **named)
        made = [leaf for leaf in tree_leaves(returned) if isinstance(leaf, Tensor)]
        if not ours and not any(map(_is_ours, made)):
            return returned
        twins = self._twins(func, args, named, made)
        alone = _computed(func, *before) if before is not None else None
        if isinstance(alone, str):
            self.followed.setdefault(str(func), alone)  # what it rounds by itself cannot be told
            alone = None
        if reshapes and alone is not None:
            return returned  # both twins have done the same
        for place, (one, twin) in enumerate(zip(made, twins, strict=True)):
            self.truth.set(one, twin)
            if not computes and alone is not None and place < len(alone) and ours:
                self.cards.set(one, alone[place])  # a view: nothing is computed
            elif not any(one is other for other in written):
                self.cards.set(one, own_copy(one))
            if place == 0 and computes and _is_ours(one) and not any(one is other for other in written):
                self._note(func, one, twin, alone[0] if alone else None)
        for one in written:
            known = self.cards.of(one)
            if known.shape != one.shape:  # an out= that was too small
                known.resize_(one.shape)
            known.copy_(on_the_host(one))
            if _is_ours(one):
                self._note(func, one, self.truth.of(one), alone[0] if alone else None)
        return returned

    def _twins(self, func: Any, args: Sequence[Any], named: Mapping[str, Any], made: list[Tensor]) -> list[Tensor]:
        """In float32 from the start; where that cannot be, the card's own numbers."""
        why = ""
        if _is_random(func, args, named):
            why = _RANDOM
        elif "empty" in func.__name__:
            return [torch.zeros(one.shape, dtype=_wide(one.dtype)) for one in made]
        else:
            told = tree_map(self._truth, (list(args), dict(named)))
            found = _computed(func, *told)
            if isinstance(found, str):
                why = found
            elif made and found and found[0].shape != made[0].shape:
                why = "sizes depend on the numbers"
            else:
                if func in CHOOSING:
                    found = with_the_cards_order(func, told[0], told[1], found, made)
                return [_same_size(one, twin) for one, twin in zip_longest(made, found[: len(made)])]
        if made:
            self.followed[str(func)] = why
        return [own_copy(one) for one in made]

    def _truth(self, leaf: Any) -> Any:
        return self.truth.of(leaf) if isinstance(leaf, Tensor) else _elsewhere(leaf)

    def _card(self, leaf: Any) -> Any:
        return self.cards.of(leaf) if isinstance(leaf, Tensor) else _elsewhere(leaf)

    def _copied(self, leaf: Any) -> Any:
        return self.cards.of(leaf).clone() if isinstance(leaf, Tensor) else _elsewhere(leaf)

    def _note(self, func: Any, one: Tensor, twin: Tensor, alone: Tensor | None) -> None:
        here = self.cards.of(one)
        truth = twin if alone is None or alone.shape != here.shape else alone
        self.operators.append(
            ComparedOperator(
                len(self.operators),
                str(func).removeprefix("aten.").removesuffix(".default"),
                self.where(),
                tuple(one.shape),
                str(one.dtype).removeprefix("torch."),
                difference(here, truth, one.dtype),
                difference(truth, twin, one.dtype),
                difference(here, twin, one.dtype),
            )
        )


def _same_size(one: Tensor, twin: Tensor | None) -> Tensor:
    """What only gradients need may be missing on the CPU, or have other sizes there: batch_norm's mean."""
    return twin if twin is not None and twin.shape == one.shape else own_copy(one)


def _is_ours(tensor: Tensor) -> bool:
    return tensor.device.type == "spyre"


def _is_view(func: Any) -> bool:
    marks = [returned.alias_info for returned in func._schema.returns]
    return any(mark is not None and not mark.is_write for mark in marks)


def _written(func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> list[Tensor]:
    """What an operator writes into."""
    found: list[Tensor] = []
    for place, one in enumerate(func._schema.arguments):
        if one.alias_info is not None and one.alias_info.is_write:
            given = args[place] if place < len(args) else named.get(one.name)
            found += [leaf for leaf in tree_leaves(given) if isinstance(leaf, Tensor)]
    return found


def _is_random(func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Attention is random only if it drops something."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    place = next((n for n, one in enumerate(func._schema.arguments) if one.name == "dropout_p"), None)
    if place is None:
        return True
    return bool(args[place] if place < len(args) else named.get("dropout_p", 0.0))


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in _HALVES else dtype


def _elsewhere(leaf: Any) -> Any:
    """What an operator is told, for the CPU and in float32."""
    if isinstance(leaf, torch.device):
        return torch.device("cpu")
    return _wide(leaf) if isinstance(leaf, torch.dtype) else leaf


def _computed(func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> list[Tensor] | str:
    """On the CPU; why not, if it has no such operator, or refuses it."""
    try:
        found = _ON_THE_CPU.get(func, func)(*args, **named)
    except (NotImplementedError, RuntimeError, TypeError) as problem:
        told = str(problem).splitlines()
        return f"the CPU does not compute it: {told[0][:120] if told else type(problem).__name__}"
    return [leaf for leaf in tree_leaves(found) if isinstance(leaf, Tensor)]
