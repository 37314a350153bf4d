"""Modes around a graph, and control flow in it: autocast, inference_mode, no_grad, branches on shapes, random numbers, dynamic sizes."""

import torch
import torch.nn.functional as F
from graphs import graph, half, int64, on_host, single


def autocast(x, w):
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        return F.gelu(x @ w) + 1


def autocast_of_a_layer(x, w, g):
    with torch.autocast(x.device.type, dtype=torch.float16):
        return F.linear(F.layer_norm(x, (33,), g), w)


def without_gradients(x, w):
    with torch.no_grad():
        return (x @ w).relu()


@torch.inference_mode()
def inference(x, w):
    return (x @ w).relu()


def condition_on_shape(x):
    return x * 2 if x.shape[0] > 3 else x + 2


def loop(x):
    for i in range(x.shape[0]):
        x = x + x[i] * 0.1
    return x


def graph_break(x):
    y = x * 2
    torch._dynamo.graph_break()
    return y + 1


def dictionary(x):
    return {"sum": x.sum(), "parts": [x * 2, (x + 1, None)], "number": 3}


def normalized(x):
    return x / x.shape[-1] + x.numel()


GRAPHS = (
    graph("autocast", autocast, single(5, 33), single(33, 40), rounds_to_16_bits=True),
    graph("autocast_of_a_layer", autocast_of_a_layer, single(5, 33), single(40, 33, low=-0.3, high=0.3), single(33), rounds_to_16_bits=True),
    graph("no_grad", without_gradients, half(5, 33), half(33, 40)),
    graph("inference_mode", inference, half(5, 33), half(33, 40)),
    graph("condition_on_shape", condition_on_shape, half(4, 33)),
    graph("unrolled_loop", loop, single(4, 33)),
    graph("graph_break", graph_break, half(4, 33), bundles=2),
    graph("dictionary", dictionary, half(4, 33)),
    graph("sizes_as_numbers", normalized, single(4, 33)),
    graph("dynamic_pointwise", lambda x, y: (x + y).exp() * 2, half(4, 33), half(33), dynamic=True),
    graph("dynamic_views", lambda x: x.view(-1, 3, x.shape[1] // 3).transpose(0, 1).reshape(3, -1) + 1, half(4, 33), dynamic=True),
    graph("dynamic_matmul", lambda x, w: (x @ w).softmax(-1), half(4, 33), half(33, 40), dynamic=True),
    graph("dynamic_sizes_as_numbers", normalized, single(4, 33), dynamic=True),
    graph("dynamic_cat_and_pad", lambda x, y: F.pad(torch.cat([x, y]), (1, 2)), half(4, 33), half(5, 33), dynamic=True),
    graph("dynamic_attention", lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), half(2, 4, 6, 16), half(2, 4, 6, 16), dynamic=True),
    graph("dynamic_mean", lambda x: x.mean(0) + x.var(0) + x.sum((0, 1)), single(6, 33), dynamic=True),
    graph("dynamic_range", lambda x: x + torch.arange(x.shape[1], device=x.device), single(6, 33), dynamic=True),
    graph("dynamic_embedding", lambda i, w: F.embedding(i, w) + F.embedding(torch.arange(i.shape[1], device=i.device), w), int64(2, 5, high=20), half(20, 33), dynamic=True),
    graph("number_of_the_host_in_a_chain", lambda x, n: ((x + 1) * n).exp() * 2, single(4, 33), on_host(single())),
)  # fmt: skip
