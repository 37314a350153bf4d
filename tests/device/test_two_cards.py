"""Two cards in a process: operands on both are an error that names both, as on every accelerator; copies go from one to the other."""

import json
import os
import subprocess
import sys
from functools import cache

import pytest

PROGRAM = r"""
import json, torch
import torch.nn.functional as F
a, b = torch.randn(4, 8).half().to("spyre:0"), torch.randn(4, 8).half().to("spyre:1")
i, m, n = torch.tensor([1, 0]).to("spyre:1"), (b > 0), torch.tensor(2.0).to("spyre:1")
mixed = dict(
    add=lambda: a + b, add_in_place=lambda: a.add_(b), out=lambda: torch.add(a, 1, out=b), number_of_a_card=lambda: a * n,
    mm=lambda: a @ b.t(), cat=lambda: torch.cat([a, b]), where=lambda: torch.where(m, a, a), index=lambda: a[i],
    mask=lambda: a[m], index_put=lambda: a.index_put_((i,), a[:2]), masked_fill=lambda: a.masked_fill(m, 1.0),
    fallback=lambda: torch.cdist(a.float(), b.float()), embedding=lambda: F.embedding(i, a), loss=lambda: F.mse_loss(a, b),
    norm=lambda: F.layer_norm(a, (8,), b[0]), attention=lambda: F.scaled_dot_product_attention(a[None], b[None], b[None]),
    topk_out=lambda: torch.topk(a, 2, out=(b.clone(), torch.empty(4, 2, dtype=torch.long, device="spyre:1"))),
    sort_out=lambda: torch.sort(a, out=(b.clone(), torch.empty(4, 8, dtype=torch.long, device="spyre:1"))),
    multinomial_out=lambda: torch.multinomial(a.abs() + 1, 2, out=torch.empty(4, 2, dtype=torch.long, device="spyre:1")),
    equal=lambda: torch.equal(a, b), compiled=lambda: torch.compile(lambda x, y: x + y)(a, b),
)
told = {}
for name, call in mixed.items():
    try:
        told[name] = f"computed {call()}"
    except RuntimeError as error:
        told[name] = str(error)
right = dict(
    copy_=lambda: torch.equal(torch.empty_like(a).copy_(b).cpu(), b.cpu()),
    to=lambda: torch.equal((a.to("spyre:1") + b).cpu(), (a.cpu().to("spyre:1") + b).cpu()),
    number_of_the_host=lambda: str((b * torch.tensor(2.0)).device) == "spyre:1",
    foreach=lambda: [str(t.device) for t in torch._foreach_add([a, b], 1)] == ["spyre:0", "spyre:1"],
)
def compiled(function):
    def same():
        results, eager = torch.compile(function, fullgraph=True)(a, b), function(a, b)
        return all(r.device == e.device and torch.equal(r.cpu(), e.cpu()) for r, e in zip(results, eager))
    return same
right["graph_on_both"] = compiled(lambda x, y: (x * 2 + 1, y * 3 - 1))
right["graph_that_moves"] = compiled(lambda x, y: ((x + 1).to("spyre:1") * y, x.to("spyre:1").to("spyre:0") - x))
for name, call in right.items():
    told[name] = call()
print(json.dumps(told))
"""
MIXED = (
    "add", "add_in_place", "out", "number_of_a_card", "mm", "cat", "where", "index", "mask", "index_put", "masked_fill",
    "fallback", "embedding", "loss", "norm", "attention", "topk_out", "sort_out", "multinomial_out", "equal", "compiled",
)  # fmt: skip
RIGHT = ("copy_", "to", "number_of_the_host", "foreach", "graph_on_both", "graph_that_moves")


@cache
def told():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env=os.environ | {"OPENSPYRE_CARDS": "2"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", MIXED)
def test_operands_on_two_cards_are_an_error_that_names_both(name):
    text = told()[name]
    assert "spyre:0" in text and "spyre:1" in text and "Expected" in text and "computed" not in text, text


@pytest.mark.parametrize("name", RIGHT)
def test_what_keeps_to_one_card_at_a_time_works(name):
    assert told()[name] is True
