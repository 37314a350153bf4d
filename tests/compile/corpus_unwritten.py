"""Tensors that begin as whatever lies there (torch.empty), and changes that read what they change."""

import torch
from graphs import bfloat, graph, half, int32, int64, single


def inverse(order):
    places = torch.empty_like(order)
    places[order] = torch.arange(order.numel(), device=order.device, dtype=order.dtype)
    return places


def permutation(given):
    return given.argsort()


def moved_to_experts(x, scores):
    order = scores.argsort(stable=True)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.numel(), device=order.device)
    return (x[order] * 2)[back], inverse(order)


def pieces(x, y):
    out = torch.empty(x.shape[0] + y.shape[0], x.shape[1], dtype=x.dtype, device=x.device)
    out[: x.shape[0]] = x
    out[x.shape[0] :] = y
    return out.softmax(-1), out.t().contiguous()


def pieces_of_other_types(x):
    out = x.new_empty(2, *x.shape, dtype=torch.float32)
    out[0] = x
    out[1] = x * 2
    return out.sum(0)


def scattered_rows(x, order):
    out = torch.empty_like(x)
    return out.index_copy_(0, order, x * 2) + 1, out


def scattered_by_rows(x, order):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return out.scatter_(0, order[:, None].expand(4, 33), x)


def only_what_was_written(x):
    room = torch.empty(8, 33, dtype=x.dtype, device=x.device)
    room[2:6] = x
    return room[2:6].exp()


def filled_after_a_cut(x, order):
    room = torch.empty_like(order)
    kept = torch.digamma(x * 2)  # runs on the CPU: what follows is another launch
    room[order] = torch.arange(order.numel(), device=order.device, dtype=order.dtype) + kept.isnan().sum()
    return room, kept


def copied_by_itself(x, order):
    x.index_copy_(0, order, x.clone())
    return x


def permuted_in_place(x, order):
    x[order] = x * 2
    return x.sum(0)


def copied_among_temps(x, order):
    y = x.exp()
    y.index_copy_(0, order, y.clone())
    return y


def shifted_in_place(x):
    x[1:] = x[:-1].clone()
    return x


def shifted_by_what_it_was(x):
    y = x * 2
    z = y.clone()
    z[1:] = -y[:-1]
    return z


def turned_in_place(x):
    x.copy_(x.t().clone())
    return x


def scattered_into_itself(x, order):
    return x.scatter_(0, order[:, None].expand_as(x).contiguous(), x.clone())


ORDER = int64(4, high=1 << 20).seen(permutation)

GRAPHS = (
    graph("inverse_permutation", inverse, int64(70, high=1 << 20).seen(permutation)),
    graph("inverse_permutation_of_int32", inverse, int32(70, high=1 << 20).seen(lambda t: t.argsort().to(torch.int32))),
    graph("moved_to_experts_and_back", moved_to_experts, half(16, 33), single(16)),
    graph("dynamic_inverse_permutation", inverse, int64(70, high=1 << 20).seen(permutation), dynamic=True),
    graph("empty_filled_piece_by_piece", pieces, half(4, 33), half(5, 33)),
    graph("dynamic_empty_filled_piece_by_piece", pieces, half(4, 33), half(5, 33), dynamic=True),
    graph("empty_of_another_type", pieces_of_other_types, bfloat(4, 33)),
    graph("empty_filled_by_rows", scattered_rows, half(4, 33), ORDER),
    graph("empty_filled_by_scatter", scattered_by_rows, half(4, 33), ORDER),
    graph("empty_partly_filled_and_read_there", only_what_was_written, half(4, 33)),
    graph("empty_filled_after_a_cut", filled_after_a_cut, single(4, 33), ORDER, bundles=2, left_out=("digamma.default",), on_cpu=("digamma.out",), why="no row for digamma"),
    graph("rows_copied_by_a_copy_of_themselves", copied_by_itself, half(4, 33), ORDER),
    graph("rows_permuted_in_place", permuted_in_place, half(4, 33), ORDER),
    graph("rows_of_a_temp_permuted", copied_among_temps, single(4, 33), ORDER),
    graph("scattered_into_itself", scattered_into_itself, half(4, 33), ORDER),
    graph("shifted_in_place", shifted_in_place, half(8, 33)),
    graph("shifted_by_what_it_was", shifted_by_what_it_was, half(8, 33)),
    graph("turned_in_place", turned_in_place, half(8, 8)),
)  # fmt: skip
