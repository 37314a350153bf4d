"""A cache of pages: written by index, gathered by a table, attended to; on the card, and by one program for all tokens."""

import pytest
import torch

from torch_spyre.inductor.launching import launch

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about Inductor's modules and its caches
PAGES, TOKENS, HEADS, SIZE = 16, 64, 2, 64


def step(query, key, value, keys, values, slots, table, lengths):
    for cache, new in ((keys, key), (values, value)):
        cache.view(-1, HEADS, SIZE).index_copy_(0, slots, new)
    seen = torch.arange(table.shape[1] * TOKENS, device=query.device) < lengths[:, None, None, None]
    gathered = (cache[table].flatten(1, 2).transpose(1, 2) for cache in (keys, values))
    return torch.nn.functional.scaled_dot_product_attention(query, *gathered, attn_mask=seen)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_attention_over_pages_is_that_over_whole_caches(compiled):
    torch.spyre.set_downcast_warning(False)
    torch.spyre.set_fallback_mode("error")
    torch.compiler.reset()
    torch.manual_seed(0)
    attend = torch.compile(step) if compiled else step
    keys, values = (torch.zeros(PAGES, TOKENS, HEADS, SIZE, dtype=torch.float16, device="spyre") for _ in range(2))
    table = torch.tensor([[3, 9, 1], [15, 4, 7]])
    whole = torch.zeros(2, 2, 3 * TOKENS, HEADS, SIZE)
    before = launch.counts()["specialisations"]
    for position in (*range(3), *range(62, 67), 127, 128, 191):
        new = torch.randn(2, 2, HEADS, SIZE).half()
        whole[:, :, position] = new.float()
        query, lengths = torch.randn(2, HEADS, 1, SIZE).half(), torch.tensor([position + 1, 1])
        slots = table[:, position // TOKENS] * TOKENS + position % TOKENS
        given = [x.to("spyre") for x in (query, *new)], [x.to("spyre") for x in (slots, table, lengths)]
        found = attend(*given[0], keys, values, *given[1]).float().cpu()
        seen = torch.arange(3 * TOKENS) < lengths[:, None, None, None]
        expected = torch.nn.functional.scaled_dot_product_attention(
            query.double(), *whole.double().transpose(2, 3), attn_mask=seen
        )
        assert (found - expected).norm() < 4e-3 * expected.norm()
    assert launch.counts()["specialisations"] - before == (1 if compiled else 0)
