"""Reductions, products of matrices, orders and scans, mixed with pointwise work."""

import torch
import torch.nn.functional as F
from graphs import bfloat, graph, half, int32, int64, single, truth


def statistics(x):
    return x.mean(-1), x.var(-1), x.std(0), torch.var_mean(x, 1), x.var(1, unbiased=False)


def extremes(x):
    return x.amax(-1), x.amin(0), x.max(), x.min(1), x.max(-1, keepdim=True), torch.aminmax(x, dim=1)


def of_nothing(x):
    none = x[:, :0] * 2
    norms = torch.linalg.vector_norm(none, 2, 1) + torch.linalg.vector_norm(none, 1, 1)
    return none.sum(1) + x.sum(1), none.prod(1), none.mean(), none.var(1), torch.std_mean(none, 1), none.any(1), norms


def mlp(x, w1, b1, w2):
    return F.linear(F.gelu(F.linear(x, w1, b1)), w2)


def swiglu(x, gate, up, down):
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def norm_then_project(x, weight, w):
    return x + F.linear(F.rms_norm(x, (70,), weight), w)


def manual_rms(x, weight):
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def manual_attention(q, k):
    return ((q @ k.transpose(-1, -2)) * 0.25).softmax(-1) @ k


def contrastive(x, y):
    logits = F.normalize(x.float(), dim=-1) @ F.normalize(y.float(), dim=-1).t() * 4
    return F.cross_entropy(logits, torch.arange(8, device=x.device))


def chained_products(a, b, c):
    return (a @ b) @ c, a @ (b @ c), torch.bmm(a[None], b[None]).squeeze(0) + 1


GRAPHS = (
    graph("sum_of_everything", lambda x: (x * 2).sum(), half(5, 70)),
    graph("sums_along_dims", lambda x: (x.sum(0), x.sum(1, keepdim=True), x.sum((0, 2))), half(3, 5, 70)),
    graph("sum_in_fp32", lambda x: x.sum(-1, dtype=torch.float32), half(5, 70), rounds_to_16_bits=True),
    graph("sum_of_integers", lambda x: (x.sum(), x.sum(0)), int64(5, 40)),
    graph("sum_of_mask", lambda x: ((x > 0).sum(-1), (x > 0).any(0), (x > 0).all(1)), half(5, 40)),
    graph("statistics", statistics, half(5, 70)),
    graph("statistics_in_fp32", statistics, single(5, 37)),
    graph("reductions_of_nothing", of_nothing, half(5, 70)),
    graph("reductions_of_nothing_in_fp32", of_nothing, single(5, 70)),
    graph("extremes", extremes, half(5, 70)),
    graph("largest_without_their_places", lambda x: (x.max(0).values, x.min(1).indices, x.sort(-1).values), half(5, 70)),
    graph("argmax", lambda x: (x.argmax(-1), x.argmin(0), x.argmax()), half(5, 70)),
    graph("prod_and_norms", lambda x: x.prod(1) + x.norm(dim=1) + x.abs().amax(1) + torch.linalg.vector_norm(x, 1, dim=1), single(8, 16)),
    graph("logsumexp", lambda x: torch.logsumexp(x, -1) + torch.logsumexp(x, (0, 1)), single(8, 16)),
    graph("logsumexp_in_16_bits", lambda x: (x.logsumexp(-1), x.logsumexp(0, keepdim=True)), half(8, 70)),
    graph("softmaxes", lambda x: F.softmax(x, -1) + F.log_softmax(x, 1) + F.softmin(x, 0), half(8, 5, 70)),
    graph("softmax_in_fp32", lambda x: F.softmax(x, -1, dtype=torch.float32).to(x.dtype), half(8, 70)),
    graph("reduce_then_broadcast", lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-3), half(5, 70)),
    graph("reduce_of_transposed", lambda x: x.t().sum(-1) + x.t().mean(1), half(33, 70)),
    graph("reduce_of_slice", lambda x: x[1:4, 3:60].sum(-1) + x[::2, 1].mean(), half(5, 70)),
    graph("reduce_all_dims_of_5d", lambda x: x.sum((0, 2, 4)) + x.amax((0, 2, 4)), half(2, 3, 4, 5, 6)),
    graph("cumsum", lambda x: (x.cumsum(1), x.cumsum(-1), x.exp().cumprod(0)), single(3, 8, 16)),
    graph("exponentials below a maximum", lambda x: (x - x.amax(-1, keepdim=True)).exp(), half(9, 64)),
    graph("cumsum of sums", lambda x: (x.sum(1).cumsum(0), x.amax(1, keepdim=True).sort(0)[0]), single(70, 5)),
    graph("cumsum_of_integers", lambda m: m.long().cumsum(-1) - 1, truth(4, 40)),
    graph("topk", lambda x: x.topk(3), half(3, 40)),
    graph("sort", lambda x: x.sort(dim=1, descending=True), half(3, 40)),
    graph("argsort_of_integers", lambda x: x.sort(stable=True).values + x.argsort(stable=True), int32(3, 40)),
    graph("router", lambda x, w: torch.topk((x @ w).softmax(-1), 2), single(7, 33), single(33, 8)),
    graph("mm", lambda x, y: x @ y, half(5, 70), half(70, 33)),
    graph("mm_in_fp32", lambda x, y: x @ y + 1, single(5, 70), single(70, 33)),
    graph("mm_in_bfloat16", lambda x, y: (x @ y).relu(), bfloat(5, 70), bfloat(70, 33)),
    graph("mm_of_transposed", lambda x, y: x.t() @ y.t(), half(70, 5), half(33, 70)),
    graph("bmm", lambda x, y: torch.bmm(x, y) * 2, half(3, 5, 70), half(3, 70, 33)),
    graph("matmul_broadcast", lambda x, y: x @ y, half(2, 1, 5, 33), half(3, 33, 7)),
    graph("matmul_of_vector", lambda x, y: (x @ y, y @ x.t(), y @ y), half(5, 33), half(33)),
    graph("outer_and_einsum", lambda x, y: torch.outer(x[0], y[0]) + torch.einsum("ij,kj->ik", x, y).sum(), half(5, 33), half(5, 33)),
    graph("einsum_of_heads", lambda q, k: torch.einsum("bqhd,bkhd->bhqk", q, k), half(2, 5, 3, 16), half(2, 7, 3, 16)),
    graph("addmm", lambda x, w, b: torch.addmm(b, x, w) * 2 + torch.addmm(b, x, w, beta=0.5, alpha=2), half(8, 16), half(16, 8), half(8)),
    graph("baddbmm", lambda x, w, b: torch.baddbmm(b, x, w, alpha=0.25), half(2, 8, 16), half(2, 16, 8), half(2, 1, 8)),
    graph("linear_of_3d", lambda x, w, b: F.linear(x, w, b), half(2, 5, 33), half(40, 33), half(40)),
    graph("product_of_one_row", lambda x, w: F.linear(x, w), half(1, 1, 70), half(33, 70)),
    graph("product_with_k_of_one", lambda x, y: x @ y, half(5, 1), half(1, 33)),
    graph("empty_product", lambda x, y: (x[:0] @ y, x @ y), half(5, 33), half(33, 7)),
    graph("chained_products", chained_products, single(4, 5), single(5, 6), single(6, 3)),
    graph("mlp", mlp, half(5, 33), half(70, 33, low=-0.3, high=0.3), half(70), half(33, 70, low=-0.3, high=0.3)),
    graph("swiglu", swiglu, half(5, 33), half(70, 33, low=-0.3, high=0.3), half(70, 33, low=-0.3, high=0.3), half(33, 70, low=-0.3, high=0.3)),
    graph("norm_then_project", norm_then_project, half(5, 70), half(70), half(70, 70, low=-0.2, high=0.2)),
    graph("rms_by_hand", manual_rms, half(5, 70), half(70)),
    graph("attention_by_hand", manual_attention, half(2, 3, 8, 16), half(2, 3, 8, 16)),
    graph("contrastive_loss", contrastive, half(8, 33), half(8, 33)),
    graph("losses", lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y)), single(5, 33), single(5, 33)),
    graph("cross_entropy", lambda x, y: F.cross_entropy(x, y), single(6, 33), int64(6, high=33)),
    graph("cosine", lambda x, y: F.cosine_similarity(x, y, dim=-1), single(5, 33), single(5, 33)),
    graph("pairwise_distance", lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1).sqrt(), single(5, 33), single(6, 33)),
    graph("count_nonzero_mean", lambda m: m.float().mean(-1) + m.sum(-1), truth(5, 40)),
)  # fmt: skip
