"""Views in chains, and results that are views, inputs or the same tensor twice."""

import torch
import torch.nn.functional as F
from graphs import graph, half, int32, single


def every_view(x):
    x = x.unsqueeze(0).transpose(1, 2).squeeze(0).permute(2, 0, 1).movedim(0, -1).swapaxes(0, 1)
    x = x.flatten(0, 1).unflatten(1, (3, 2)).select(1, 1).narrow(0, 1, 12).t().unsqueeze(1)
    return x.expand(2, 3, 12).diagonal(0, 0, 1)[::2].mT + 1


def window(x):
    return x.unfold(1, 4, 2).sum(-1), x.as_strided((4, 4), (2, 8), 3) * 2


def split_and_join(x):
    a, b, c = x.split([5, 20, 8], -1)
    d, e = b.chunk(2, 1)
    return torch.cat([c, a * 2, e - d], -1), torch.stack([a, a + 1], 1), torch.hstack([a, c])


def heads(x):
    q = x.view(2, 5, 3, 16).transpose(1, 2)
    return q, q.contiguous(), q.reshape(6, 5, 16).transpose(1, 2) * 2


def twice(x):
    y = x + 1
    return y, y, y.t(), y[1:3], y.view(-1)


def pixel_shuffle_by_hand(x):
    return x.view(2, 3, 2, 2, 4, 5).permute(0, 1, 4, 2, 5, 3).reshape(2, 3, 8, 10)


def patches(x):
    return x.view(2, 3, 2, 4, 3, 4).permute(0, 2, 4, 3, 5, 1).flatten(1, 2).flatten(2)


def window_partition(x):
    x = torch.roll(x, (-1, -1), (1, 2)).view(2, 2, 4, 2, 4, 6).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 6)
    return (x @ x.mT).softmax(-1) @ x


GRAPHS = (
    graph("every_view", every_view, half(4, 4, 6)),
    graph("product_with_a_row_for_every_k", lambda x, row: x @ row.expand(64, 5), half(3, 64), half(5)),
    graph("view_permute_reshape", lambda x: x.view(2, 4, 4, 4).permute(3, 1, 0, 2).reshape(4, 32).t().contiguous() + 1, half(8, 16)),
    graph("flatten_of_transposed", lambda x: x.t().reshape(-1) * 2, half(8, 33)),
    graph("windows", window, half(8, 16)),
    graph("split_and_join", split_and_join, half(4, 33)),
    graph("unbind_and_stack", lambda x: torch.stack([t * i for i, t in enumerate(x.unbind(1), 1)], 0), half(4, 3, 33)),
    graph("heads", heads, half(2, 5, 48)),
    graph("same_result_twice", twice, half(4, 33)),
    graph("result_is_an_input", lambda x: (x, x * 2), half(4, 33)),
    graph("result_is_a_view_of_an_input", lambda x: (x.t(), x[1:3], x + 1), half(4, 33)),
    graph("results_are_views_of_one_product", lambda x: (x @ x.t()).chunk(2, -1), half(4, 33)),
    graph("only_views", lambda x: x.view(2, 2, 33).permute(2, 0, 1), half(4, 33), bundles=0),
    graph("identity", lambda x: x, half(4, 33), bundles=0),
    graph("permute_of_5d", lambda x: x.permute(4, 2, 0, 3, 1).contiguous() * 2, half(2, 3, 4, 5, 7)),
    graph("permute_of_6d", lambda x: x.permute(5, 3, 1, 0, 2, 4).contiguous() * 2, half(2, 3, 4, 5, 6, 7)),
    graph("transposed_sum_of_6d", lambda x, y: x.permute(5, 4, 3, 2, 1, 0) + y, half(2, 3, 2, 3, 2, 3), half(3, 2, 3, 2, 3, 2)),
    graph("pixel_shuffle", pixel_shuffle_by_hand, half(2, 12, 4, 5)),
    graph("pixel_shuffle_of_torch", lambda x: F.pixel_shuffle(x, 2) + 1, half(2, 12, 4, 5)),
    graph("patches", patches, half(2, 3, 8, 12)),
    graph("windows_of_swin", window_partition, single(2, 8, 8, 6)),
    graph("expand_then_reshape", lambda x: x.expand(8, 5, 16).reshape(40, 16).sum(0), half(8, 1, 16)),
    graph("expand_then_add", lambda x: x.expand(4, 5, 33) + x[0], half(4, 1, 33)),
    graph("size_one_dims_come_and_go", lambda x: x.squeeze().unsqueeze(1).squeeze(1)[None, :, None] * 2, half(1, 4, 1, 33)),
    graph("flip_and_roll", lambda x: torch.roll(x, 3, 1) + x.flip(0) + x.flip((0, 1)), half(8, 16)),
    graph("roll_of_all", lambda x: torch.roll(x, 5) - x.rot90(2), half(8, 16)),
    graph("repeat", lambda x: x.repeat(2, 3) + x.repeat_interleave(2, 0).repeat(1, 3), half(8, 16)),
    graph("tile_and_repeat_heads", lambda x: x[:, :, None].expand(2, 3, 4, 5, 16).reshape(2, 12, 5, 16) + x.repeat_interleave(4, 1), half(2, 3, 5, 16)),
    graph("cat_and_pad", lambda x: F.pad(torch.cat([x, x * 2], 1), (1, 2), value=3.0), half(3, 8, 16)),
    graph("pad_negative", lambda x: F.pad(x, (-1, 2, 3, -2)), half(8, 16)),
    graph("pad_by_reflection", lambda x: F.pad(x, (2, 3), mode="reflect") + F.pad(x, (2, 3), mode="replicate"), half(2, 3, 16)),
    graph("cat_of_mixed_dtypes", lambda x, y: torch.cat([x, y], 0) * 2, half(3, 33), single(2, 33), rounds_to_16_bits=True),
    graph("cat_of_views", lambda x: torch.cat([x[:, 16:], -x[:, :16]], -1) + torch.cat([x.t()[:8], x.t()[8:]]).t(), half(4, 32)),
    graph("strided_slices", lambda x: x[::2, 1::3] * 2 + x[1::2, ::3][:, :10], half(8, 31)),
    graph("reverse_of_slices", lambda x: x[2:, :20].t().flip(0)[3:7], half(8, 33)),
    graph("diagonals", lambda x: torch.diagonal(x).clone() + torch.diagonal(x, 1)[:8] + torch.diag(x[0, :8]).sum(0), half(8, 16)),
    graph("diag_embed", lambda x: torch.diag_embed(x) + 1, half(3, 9)),
    graph("view_of_integers", lambda x: x.view(4, 4, 8).sum(1) + x.reshape(8, 16).t()[0, :4, None], int32(8, 16)),
    graph("transposed_input", lambda x, y: x + y, half(33, 8).seen(lambda t: t.t()), half(8, 33)),
    graph("sliced_input", lambda x: x.exp() + x.sum(), half(9, 70).seen(lambda t: t[2:7, 3:40])),
    graph("strided_input", lambda x: x * 2 @ x.t(), half(9, 66).seen(lambda t: t[::2, ::2])),
    graph("expanded_input", lambda x: x * 2 + x.sum(0), half(1, 33).seen(lambda t: t.expand(4, 33))),
    graph("offset_input", lambda x: (x.view(2, 33) @ x.view(33, 2)).relu(), half(100).seen(lambda t: t[7:73])),
    graph("permuted_input_of_4d", lambda x: x.contiguous() + 1, half(2, 5, 3, 16).seen(lambda t: t.permute(0, 2, 1, 3))),
    graph("meshgrid", lambda x, y: torch.meshgrid(x * 2, y, indexing="ij"), half(5), half(7)),
    graph("broadcast_tensors", lambda x, y: [t * 2 for t in torch.broadcast_tensors(x, y)], half(5, 1), half(7)),
    graph("nearest_upsampling", lambda x: F.interpolate(x, scale_factor=2) + 1, half(1, 2, 5, 7)),
    graph("tensor_split", lambda x: [t.sum() for t in torch.tensor_split(x, 3, 1)], half(4, 33)),
    graph("zero_dim_views", lambda x: x[2, 3] * x[1] + x[0, 0], half(4, 33)),
    graph("empty_slices", lambda x: (x[:, :0] * 2, torch.cat([x[:0], x])), half(4, 33)),
    graph("sum_of_nothing", lambda x: x[4:].sum(0) + x[0], half(4, 33)),
    graph("results_are_odd_views", lambda x: (x.unfold(1, 4, 2), x.diagonal(), x.expand(2, 8, 16), x[::3, 2:]), half(8, 16), bundles=0),
    graph("results_are_odd_views_of_new_tensors", lambda x: ((x + 1).unfold(1, 4, 2), (x + 2).diagonal(), (x + 3).expand(2, 8, 16), (x + 4)[::3, 2:].t()), half(8, 16)),
)  # fmt: skip
