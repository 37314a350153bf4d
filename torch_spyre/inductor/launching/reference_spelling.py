"""Calls that are one row here and several ops of the reference's, whose front end spells them with torch's decompositions.

Only spellings with the same bits: what a row computes in one rounding stays a row, unless the reference has no op for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import frexp, inf, sqrt

from openspyre.spec.addressing import row_major
from torch_spyre.inductor.graph import Argument, Extent, GraphCall, Named, Ref, Value
from torch_spyre.inductor.lowering.graph_lowerings import BATCHED_PRODUCT, CARRIED_SUM

Size = tuple[int, ...]


@dataclass(slots=True)
class Spelling:
    """A call being spelled; its steps' results are new values behind those of the graph."""

    call: GraphCall
    values: list[Value]
    steps: list[GraphCall] = field(default_factory=list)

    @property
    def made(self) -> Value:
        return self.values[self.call.results[0]]

    def step(self, target: str, *arguments: Argument, dtype: str = "", size: Size | None = None) -> Ref:
        """What a call makes, of the result's shape unless said otherwise."""
        made, name = self.made, f"{self.made.buffer}.{len(self.values)}"
        if size is None:
            self.values.append(replace(made, buffer=name, dtype=dtype or made.dtype, offset=0))
        else:
            self.values.append(Value(name, dtype or made.dtype, size, row_major(size)))
        number = len(self.values) - 1
        self.steps.append(replace(self.call, target=target, arguments=arguments, results=(number,)))
        return Ref(number)

    def filled(self, size: Size, number: float) -> Ref:
        how: tuple[Argument, ...] = (Named("dtype", self.made.dtype), None, None, None)
        return self.step("aten.full.default", size, number, *how, size=size)

    def view(self, of: Ref, size: Sequence[Extent], stride: Sequence[Extent]) -> Ref:
        whole = self.values[of.value]
        self.values.append(replace(whole, size=tuple(size), stride=tuple(stride)))
        return Ref(len(self.values) - 1)

    def last(self, target: str, *arguments: Argument) -> None:
        self.steps.append(replace(self.call, target=target, arguments=arguments, results=self.call.results[:1]))


def _clamped(spelling: Spelling) -> None:
    """One op with both bounds; one that is not asked for is infinite."""
    x, *bounds = spelling.call.arguments
    name = spelling.call.target
    low = bounds[0] if name != "aten.clamp_max.default" else None
    high = bounds[-1] if name != "aten.clamp_min.default" else None
    spelling.last("aten.clamp.default", x, -inf if low is None else low, inf if high is None else high)


def _leaky(spelling: Spelling) -> None:
    x, slope = spelling.call.arguments
    above = spelling.step("aten.gt.Scalar", x, 0, dtype="bool")
    spelling.last("aten.where.self", above, x, spelling.step("aten.mul.Tensor", x, slope))


def _divided(spelling: Spelling) -> None:
    """By a power of two: its reciprocal is exact."""
    x, divisor = spelling.call.arguments[:2]
    exact = isinstance(divisor, int | float) and divisor != 0 and abs(frexp(divisor)[0]) == 0.5
    if exact and isinstance(x, Ref) and "float" in spelling.values[x.value].dtype:
        spelling.last("aten.mul.Tensor", x, 1.0 / divisor)  # type: ignore[operator]


def _normed(spelling: Spelling) -> None:
    """Without a weight or a bias of its own, a layer norm has ones and zeros."""
    x, shape, weight, bias, *more = spelling.call.arguments
    size = _numbers(shape)
    if len(size) == 1 and None in (weight, bias):
        weight = spelling.filled(size, 1) if weight is None else weight
        bias = spelling.filled(size, 0) if bias is None else bias
        spelling.steps.append(replace(spelling.call, arguments=(x, shape, weight, bias, *more)))


_A_STICK = 64  # what is reduced to make a tensor of one value a stick


def _attended(spelling: Spelling) -> None:
    """Attention in its flash form, in one step over all keys: a running maximum and total begin as nothing and are carried on."""
    q, k, v, mask, dropout, causal, _, scale = spelling.call.arguments
    if not isinstance(q, Ref) or not isinstance(k, Ref) or not isinstance(v, Ref) or mask is not None or causal:
        return
    asked, keys, held = (spelling.values[ref.value] for ref in (q, k, v))
    rows, length = _numbers(asked.size), _numbers(keys.size)
    if (
        dropout
        or len(rows) != 4
        or len(length) != 4
        or rows[:2] != length[:2]
        or any(n >= 0 for n in spelling.call.results[1:])
    ):
        return
    step, view, lead = spelling.step, spelling.view, rows[:3]
    factor = sqrt(1 / sqrt(rows[3]) if scale is None else float(scale))  # type: ignore[arg-type]
    column = (*lead, 1)

    def spread(ref: Ref) -> Ref:
        return view(ref, column, row_major(column))

    scaled = step("aten.mul.Tensor", k, factor, size=length)
    turned = view(scaled, (*length[:2], length[3], length[2]), (*row_major(length)[:2], 1, length[3]))
    scores = step(
        BATCHED_PRODUCT, step("aten.mul.Tensor", q, factor, size=rows), turned, False, size=(*lead, length[2])
    )
    before = step("aten.amax.default", spelling.filled((*lead, _A_STICK), -inf), (-1,), False, size=lead)
    largest = step(
        "aten.maximum.default", before, step("aten.amax.default", scores, (-1,), False, size=lead), size=lead
    )
    fading = step("aten.exp.default", step("aten.sub.Tensor", before, largest, 1, size=lead), size=lead)
    apart = step("aten.sub.Tensor", scores, spread(largest), 1, size=(*lead, length[2]))
    weights = step("aten.exp.default", apart, size=(*lead, length[2]))
    size = (*lead, _numbers(held.size)[3])
    kept = step("aten.mul.Tensor", spelling.filled(size, 0.0), spread(fading), size=size)
    added = step(CARRIED_SUM, kept, step(BATCHED_PRODUCT, weights, v, False, size=size), 1, size=size)
    nothing = step("aten.amax.default", spelling.filled((*lead, _A_STICK), 0.0), (-1,), False, size=lead)
    faded = step("aten.mul.Tensor", nothing, fading, size=lead)
    total = step(CARRIED_SUM, faded, step("aten.sum.dim_IntList", weights, (-1,), False, None, size=lead), 1, size=lead)
    spelling.last("aten.div.Tensor", added, spread(total))


def _numbers(extents: Argument) -> Size:
    """Sizes, if all of them are numbers; else none."""
    found = tuple([extent for extent in extents if isinstance(extent, int)]) if isinstance(extents, tuple) else ()
    return found if isinstance(extents, tuple) and len(found) == len(extents) else ()


SPELLINGS: dict[str, Callable[[Spelling], None]] = {
    "aten._scaled_dot_product_fused_attention_overrideable.default": _attended,
    "aten.clamp_min.default": _clamped,
    "aten.clamp_max.default": _clamped,
    "aten.clamp.default": _clamped,
    "aten.hardtanh.default": _clamped,
    "aten.leaky_relu.default": _leaky,
    "aten.div.Tensor": _divided,
    "aten.native_layer_norm.default": _normed,
}


def spelled(call: GraphCall, values: list[Value]) -> Sequence[GraphCall]:
    """A call in the reference's steps, with their results behind `values`; the call itself where there is nothing to spell."""
    spelling = Spelling(call, values)
    if call.target in SPELLINGS:
        SPELLINGS[call.target](spelling)
    return spelling.steps or (call,)
