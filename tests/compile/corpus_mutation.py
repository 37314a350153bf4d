"""Writes in place: of what a graph made itself, of its inputs, of slices and views, of caches."""

import torch
from graphs import graph, half, int64, single


def slices_of_a_clone(x, y):
    x = x.clone()
    x[2:4] = y
    x[:, 3] += 1
    x[::2, ::3] *= 2
    return x


def built_piece_by_piece(x):
    out = torch.zeros(8, 33, device=x.device, dtype=x.dtype)
    out[:4] = x
    out[4:].copy_(x * 2)
    out[:, 0].fill_(7.0)
    out.narrow(1, 5, 3).zero_()
    return out


def mutated_input(x):
    x.add_(1)
    return x * 2


def mutated_twice(x):
    y = x * 2
    x.mul_(3)
    z = x + y
    x.sub_(1)
    return z


def mutated_slice(x):
    x[2:4].mul_(3)
    return x.sum(-1)


def mutated_transposed(x):
    x.t()[3:5].add_(1)
    return x + 1


def read_before_write(x, y):
    before = x + 0
    x.copy_(y)
    return before - x


def swap(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def cache_by_index(cache, new, at):
    cache.index_copy_(2, at, new)
    return cache.sum(2)


def cache_by_slice(cache, new):
    cache[:, :, 3:5] = new
    return (cache[:, :, :5] @ new.mT).softmax(-2)


def cache_by_index_put(cache, new, at):
    cache[:, :, at] = new
    return cache * 1


def static_cache_step(keys, values, q, k, v, at):
    keys.index_copy_(2, at, k)
    values.index_copy_(2, at, v)
    seen = torch.arange(keys.shape[2], device=q.device) <= at
    return torch.nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=seen[None, None, None])


def ring(buffer, x):
    buffer.copy_(torch.cat([buffer[1:], x[None]]))
    return buffer.mean(0)


def moving_average(mean, x):
    mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - mean


def adam_step(p, g, m, v):
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.99).addcmul_(g, g, value=0.01)
    p.addcdiv_(m, v.sqrt().add_(1e-3), value=-0.1)


def out_argument(x, y):
    torch.add(x, 1, out=y)
    return y * 2


GRAPHS = (
    graph("slices_of_a_clone", slices_of_a_clone, half(8, 16), half(16)),
    graph("built_piece_by_piece", built_piece_by_piece, half(4, 33)),
    graph("mutated_input", mutated_input, half(4, 33)),
    graph("mutated_twice", mutated_twice, half(4, 33)),
    graph("mutated_slice", mutated_slice, half(8, 33)),
    graph("mutated_transposed", mutated_transposed, half(8, 33)),
    graph("read_before_write", read_before_write, half(4, 33), half(4, 33)),
    graph("swapped_inputs", swap, half(4, 33), half(4, 33)),
    graph("mutated_view_of_a_larger_tensor", mutated_input, half(9, 70).seen(lambda t: t[2:7, 3:40])),
    graph("mutated_transposed_input", mutated_input, half(33, 4).seen(lambda t: t.t())),
    graph("mutated_and_returned", lambda x: x.mul_(2), half(4, 33)),
    graph("mutated_and_viewed", lambda x: x.mul_(2).t()[1:3], half(4, 33)),
    graph("filled_input", lambda x: x.fill_(2.5).sum(), half(4, 33)),
    graph("zeroed_slice", lambda x: x[:, 5:9].zero_() + 1, half(4, 33)),
    graph("cache_by_index_copy", cache_by_index, half(2, 3, 9, 16), half(2, 3, 2, 16), int64(2).seen(lambda t: t * 0 + torch.arange(2, device=t.device) + 4)),
    graph("cache_by_slice", cache_by_slice, half(2, 3, 9, 16), half(2, 3, 2, 16)),
    graph("cache_by_index_put", cache_by_index_put, half(2, 3, 9, 16), half(2, 3, 1, 16), int64(1)),
    graph("step_of_a_static_cache", static_cache_step, half(2, 3, 9, 16), half(2, 3, 9, 16), half(2, 3, 1, 16), half(2, 3, 1, 16), half(2, 3, 1, 16), int64(1)),
    graph("ring", ring, half(4, 33), half(33)),
    graph("moving_average", moving_average, single(33), single(8, 33)),
    graph("step_of_adam", adam_step, single(5, 33), single(5, 33), single(5, 33), single(5, 33, low=0.1),
          other_bits="Dynamo makes a product and a sum of addcmul_ with a value: one rounding more"),
    graph("out_argument", out_argument, half(4, 33), half(4, 33)),
    graph("mutated_integers", lambda x: x.add_(1) * 2, int64(4, 33)),
    graph("counter", lambda n, x: x * n.add_(1), single(), single(4, 33)),
    graph("masked_fill_in_place", lambda x: x.masked_fill_(x > 0, -1.0) + 1, half(4, 33)),
    graph("index_put_in_place", lambda x, i, y: x.index_put_((i,), y) + 1, half(8, 16), int64(1), half(1, 16)),
    graph("scatter_in_place", lambda x, i: x.scatter_(1, i, 2.0).sum(1), half(4, 8), int64(4, 1)),
)  # fmt: skip
