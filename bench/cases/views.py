"""View operators on a tensor of the card, against the same call on a CPU tensor."""

from __future__ import annotations

import torch

from bench.cases.creation import Statement
from bench.registry import ONE, case
from bench.timing import Effort, Pair

VIEWS = [
    Statement(source)
    for source in (
        "x.view(2048, 64)",
        "x.reshape(32, -1)",
        "x.transpose(0, 1)",
        "x.permute(2, 0, 1)",
        "x[1]",
        "x[:, 8:16]",
        "x.narrow(2, 16, 32)",
        "x.select(0, 3)",
        "x.unsqueeze(0)",
        "x.squeeze()",
        "x.flatten()",
        "x.expand(2, 32, 64, 64)",
        "x.as_strided((32, 64), (4096, 1), 64)",
        "x.unbind(0)",
        "x.chunk(2, 1)",
        "x.unfold(2, 32, 32)",
        "x.detach()",
    )
]


@case("{}", asked=1.5, baseline="CPU", threads=ONE, over=VIEWS)
def view(statement: Statement, effort: Effort) -> Pair:
    """x is (32, 64, 64) in fp16."""
    host = torch.ones(32, 64, 64, dtype=torch.float16)
    return Pair(statement.source, statement.source, {"x": host.to("spyre")}, {"x": host})
