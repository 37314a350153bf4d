"""The first call of a new key: the operator is compiled, from the call to a program on the card, and runs."""

from __future__ import annotations

import time

import torch

from bench.registry import ONE, case
from bench.timing import Effort, Measurement, summarize
from torch_spyre import _torch

STATEMENTS = (
    "x + y", "x * 2.5", "x.relu()", "torch.exp(x)", "F.gelu(x)", "F.silu(x) * y", "torch.where(x > y, x, y)", "x.float()",
    "x.clamp(-1, 1)", "x[:, :, 1:] + 1", "x.sum(-1)", "x.mean(0)", "x.amax(1)", "x.argmax(-1)", "torch.softmax(x, -1)",
    "F.layer_norm(x, x.shape[-1:])", "F.rms_norm(x, x.shape[-1:])", "x @ y.transpose(1, 2)", "x[0] @ y[0].t()", "F.linear(x, y[0])",
    "x.transpose(1, 2).contiguous()", "torch.cat((x, y), 1)", "x.cumsum(-1)", "x.sort(-1)", "x[:, i]", "F.scaled_dot_product_attention(x, y, y)",
)  # fmt: skip
SHAPES = ((3, 37, 64), (2, 64, 200), (5, 96, 70), (2, 130, 256))  # whole sticks and not


@case("first call of a new key", asked=10, unit="ms", baseline="-", threads=ONE)
def first_call(effort: Effort) -> Measurement:
    """The median over many operators and shapes, each seen for the first time in this process, each waited for."""
    names = {"F": torch.nn.functional, "torch": torch, "i": torch.arange(7).to("spyre")}
    wait, milliseconds = torch.spyre.synchronize, []
    _torch.clear_eager_cache()
    for statement in STATEMENTS:
        code = compile(statement, statement, "eval")
        for shape in SHAPES:
            tensors = {name: torch.randn(shape).half().to("spyre") for name in ("x", "y")}
            wait()
            start = time.perf_counter()
            eval(code, names | tensors)
            wait()
            milliseconds.append((time.perf_counter() - start) * 1e3)
    return summarize(milliseconds)
