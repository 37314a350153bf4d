"""Launches of compiled graphs: 1,000 calls, Dynamo's guards included, and one wait; against Inductor on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from bench.registry import ONE, case
from bench.timing import Effort, Pair

CALLS = 1000
ONE_OP: dict[str, Callable[..., torch.Tensor]] = {
    "relu": torch.relu,
    "x + y": torch.add,
    "x @ y": torch.matmul,
}
SIZE = (64, 64)


def _compiled(function: Callable[..., torch.Tensor], inputs: list[torch.Tensor]) -> Callable[[], object]:
    def one_op(*tensors: torch.Tensor) -> torch.Tensor:
        return function(*tensors)

    torch.compiler.reset()  # the code object is the same for all cases: each would have to try the others' guards first
    call = torch.compile(one_op, dynamic=False)
    call(*inputs)
    return lambda: call(*inputs)


@case("launch of a compiled graph, {}", asked=2.0, goal=1.0, baseline="CPU Inductor", threads=ONE, over=ONE_OP)
def one_op_graph(name: str, effort: Effort) -> Pair:
    """Nearly nothing to compute: what is left is the way to the card."""
    count = 1 if name == "relu" else 2
    host = [torch.randn(SIZE) for _ in range(count)]
    statement = f"for _ in range({CALLS}): call()\nwait()"
    names: dict[str, Any] = {"wait": torch.spyre.synchronize}
    card = names | {"call": _compiled(ONE_OP[name], [tensor.half().to("spyre") for tensor in host])}
    return Pair(statement, statement, card, names | {"call": _compiled(ONE_OP[name], host)})
