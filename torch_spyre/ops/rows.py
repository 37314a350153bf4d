"""Normalisations: softmax along one dim and its gradient, layer and rms norm along the last dims with optional weight and bias.

torch computes `F.rms_norm` by `_fused_rms_norm` and asks the device for its gradient, too: norm_gradients.py.
"""

from __future__ import annotations

import torch

from openspyre.compiler.ir import Attribute, Dim, Op
from openspyre.spec.layout import MAX_RANK
from torch_spyre.ops import attention
from torch_spyre.ops.calls import Binding, Call, ProgramBuilder, on_card
from torch_spyre.ops.plans import CallPlan

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_ROWS = ("self", "input", "grad_output", "output")  # operands of the result's shape
_AFFINE = {"weight": "w", "bias": "b"}
_PARAMETERS = {"dim", "dtype", "input_dtype", "half_to_float", "normalized_shape", "eps", "out", "grad_input"}


def serves(binding: Binding) -> bool:
    names = {argument.name for argument in binding.arguments}
    return names <= {*_ROWS, *_AFFINE, *_PARAMETERS} or attention.serves(binding)


def compile_call(call: Call) -> CallPlan | None:
    if attention.serves(call.binding):
        return attention.compile_call(call)
    rows = [call.given[name] for name in call.given if name in _ROWS]
    affine = {name: call.given[name] for name in _AFFINE if call.given.get(name) is not None}
    x = rows[0]
    if x.dim() > MAX_RANK or not all(on_card(t) and t.dtype in _FLOATS for t in (*rows, *affine.values())):
        return None
    along = _row_dims(call, x)
    done = call.plan_without_work()
    if done is not None or x.numel() == 0:
        return done
    dims = tuple(Dim(f"d{i}", extent, reduced=i in along) for i, extent in enumerate(x.shape))
    builder = ProgramBuilder(call)
    inputs = [builder.read(row, row.stride()) for row in rows]
    inputs += [builder.read(t, (*(0,) * (x.dim() - t.dim()), *t.stride())) for t in affine.values()]
    outputs = [builder.result()]
    for number, statistic in enumerate(call.results[1:], 1):
        strides = tuple(0 if d in along else stride for d, stride in enumerate(statistic.stride))
        outputs.append(builder.result(strides, number))
    name = call.binding.rows[0].name
    attributes = _attributes(call, "".join(_AFFINE[name] for name in affine))
    builder.add(Op(name, name, dims, tuple(inputs), tuple(outputs), attributes))
    return builder.plan()


def _row_dims(call: Call, x: torch.Tensor) -> set[int]:
    if "dim" in call.given:
        if x.dim() == 0:
            return set()
        x.size(call.given["dim"])  # torch's own error, which its meta kernel leaves out
        return {call.given["dim"] % x.dim()}
    return set(range(x.dim() - len(call.given["normalized_shape"]), x.dim()))


def _attributes(call: Call, affine: str) -> tuple[tuple[str, Attribute], ...]:
    if "eps" not in call.given:
        return ()
    eps = call.given["eps"]
    return ("affine", affine), ("eps", float(torch.finfo(torch.float32).eps if eps is None else eps))
