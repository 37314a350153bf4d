"""Indices: gathers, scatters, embeddings, tensors made of lists."""

import torch
import torch.nn.functional as F
from graphs import graph, half, int64, single, truth


def constant_index(x):
    return x[torch.tensor([1, 3, 2], device=x.device)][:, None]


def put_constant(x):
    x = x.clone()
    x[torch.tensor([1, 3], device=x.device)] = 5.0
    return x


def positions(x, table):
    return x + F.embedding(torch.arange(x.shape[1], device=x.device), table)


def one_hot_product(index, w):
    return F.one_hot(index, 8).to(w.dtype) @ w


def moe(x, router, experts):
    weights, chosen = torch.topk((x @ router).softmax(-1), 2)
    picked = experts[chosen]
    return (torch.einsum("td,tkde->tke", x, picked) * weights[..., None]).sum(1)


def last_token(hidden, lengths):
    return hidden[torch.arange(hidden.shape[0], device=hidden.device), lengths - 1]


GRAPHS = (
    graph("index_made_of_a_list", constant_index, half(8, 16)),
    graph("put_at_a_list", put_constant, half(8, 16)),
    graph("index_by_tensor", lambda x, i: x[i] * 2, half(8, 33), int64(5)),
    graph("index_along_last_dim", lambda x, i: x[:, i] + 1, half(8, 33), int64(5)),
    graph("index_by_two_tensors", lambda x, i, j: x[i, j] + x[i, 0], half(8, 8), int64(5), int64(5)),
    graph("index_broadcast", lambda x, i, j: x[i[:, None], j], half(8, 8), int64(5), int64(3)),
    graph("index_and_slice", lambda x, i: x[1:, i, 2:] * 2, half(4, 8, 16), int64(5)),
    graph("negative_indices", lambda x, i: x[i - 8] + x[-1], half(8, 33), int64(5)),
    graph("index_select", lambda x, i: x.index_select(0, i) + x.index_select(0, i).exp(), half(8, 33), int64(5)),
    graph("gather", lambda x, i: x.gather(1, i) * 2, half(4, 8), int64(4, 5)),
    graph("gather_along_first", lambda x, i: torch.take_along_dim(x, i, 0), half(8, 16), int64(3, 16)),
    graph("gather_of_argmax", lambda x: x.gather(-1, x.argmax(-1, keepdim=True)).squeeze(-1), half(5, 33)),
    graph("gather_of_rows", lambda x, i: x.gather(1, i[:, :, None].expand(-1, -1, 70)) + 1, half(3, 8, 70), int64(3, 5)),
    graph("scatter_of_rows", lambda x, i, y: x.scatter(0, i[:, None].expand(4, 70), y), half(8, 70), int64(4, high=1 << 20).seen(torch.argsort), half(4, 70)),
    graph("scatter", lambda x, i, y: x.scatter(1, i, y), half(4, 8), int64(4, 1), half(4, 1)),
    graph("scatter_of_number", lambda x, i: torch.zeros_like(x).scatter(1, i, 1.0), half(4, 8), int64(4, 1)),
    graph("scatter_add", lambda x: torch.zeros_like(x).scatter_add(0, torch.zeros(8, 16, dtype=torch.long, device=x.device), x), single(8, 16)),
    graph("index_add", lambda x, i, y: x.index_add(0, i, y), single(8, 16), int64(5), single(5, 16)),
    graph("index_put_accumulate", lambda x, i, y: x.index_put((i,), y, accumulate=True), single(8, 16), int64(5), single(5, 16)),
    graph("index_fill", lambda x, i: x.index_fill(1, i, 3.0), half(4, 8), int64(3)),
    graph("embedding", lambda i, w: F.embedding(i, w), int64(2, 5, high=50), half(50, 33)),
    graph("embedding_of_rows_of_several_sticks", lambda i, w: F.embedding(i, w), int64(4, 128, high=50), half(50, 33)),
    graph("embedding_with_padding", lambda i, w: F.embedding(i, w, padding_idx=0) * 33**0.5, int64(2, 5, high=50), half(50, 33)),
    graph("embedding_of_a_range", lambda w: F.embedding(torch.arange(7, device=w.device) * 3, w), half(50, 16)),
    graph("positions", positions, half(2, 5, 33), half(9, 33)),
    graph("one_hot", one_hot_product, int64(6), half(8, 33), left_out=("_assert_async.msg",) * 2,
          why="torch checks the classes, and a check waits for a value"),
    graph("experts", moe, single(5, 8), single(8, 4), single(4, 8, 6)),
    graph("last_token", last_token, half(3, 7, 33), int64(3, low=1, high=8)),
    graph("masked_select_by_where", lambda x, m: torch.where(m[:, None], x, 0.0).sum(0), half(6, 33), truth(6)),
    graph("masked_scatter_by_index", lambda x, m: x.masked_fill(~m, 0.0) + m, half(6, 33), truth(6, 33)),
    graph("searching_by_compare", lambda x, e: (x[:, None] > e).sum(-1), single(9), single(5)),
    graph("searching_by_halving", lambda x, e: torch.searchsorted(e.sort()[0], x, right=True), single(4, 9), single(100)),
    graph("membership", lambda x, e: torch.isin(x, e), int64(30, high=50), int64(3, high=50)),
    graph("membership_of_many", lambda x, e: torch.isin(x, e), int64(30, high=5000), int64(400, high=5000)),
    graph("triangle_indices", lambda x: x * (torch.arange(8, device=x.device)[:, None] >= torch.arange(8, device=x.device)), half(8, 8)),
    graph("causal_mask_by_ranges", lambda x: x.masked_fill(torch.triu(torch.ones(8, 8, device=x.device, dtype=torch.bool), 1), float("-inf")).softmax(-1), half(8, 8)),
    graph("constant_vector", lambda x: x * torch.tensor([1.0, 2.0, 3.0], device=x.device), single(5, 3)),
    graph("constant_of_the_host", lambda x: x * torch.tensor([1.0, 2.0, 3.0]).to(x.device), single(5, 3)),
    graph("constant_number", lambda x: x * torch.tensor(3.0, device=x.device) + torch.tensor(2.0, device=x.device), single(5, 3)),
)  # fmt: skip
