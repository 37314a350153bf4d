"""Borders: constants of the graph that an operator left to eager reads, tensors of the host that move inside a graph, and
operators of others that write into what they are given."""

import torch
from graphs import bfloat, graph, half, int64, on_host, single

EAGER = "no row computes it"


@torch.library.custom_op("corpus::add_into", mutates_args={"target"})
def add_into(target: torch.Tensor, x: torch.Tensor) -> None:
    target.add_(x)


@torch.library.custom_op("corpus::swap_halves", mutates_args={"first", "second"})
def swap_halves(scale: float, first: torch.Tensor, second: torch.Tensor) -> None:
    kept = first.clone()
    first.copy_(second * scale)
    second.copy_(kept)


def buckets(x):
    return torch.bucketize(x * 2, torch.tensor([-1.0, 0.0, 1.0], dtype=x.dtype, device=x.device)) + 1


def places(x):
    return torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0], dtype=x.dtype, device=x.device), x)


def distances(x):
    return torch.cdist(x, torch.tensor([[0.0, 1.0, 2.0]], device=x.device)) + 1


def at_nothing(x):
    return x[torch.tensor([], dtype=torch.long, device=x.device)], x + 1


def constant_read_twice(x):
    edges = torch.tensor([[-1.0, 0.0, 1.0]], dtype=x.dtype, device=x.device)
    return torch.cdist(x, edges), edges * 2, x[:, :3] + edges


class Distances(torch.nn.Module):
    """A constant of a module inside a module."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Module()
        self.inner.register_buffer("edges", torch.tensor([[-1.0, 0.5, 2.0]]))

    def forward(self, x):
        return torch.cdist(x, self.inner.edges) * torch.tensor([1, 2, 3], device=x.device)


def clone_is_read_later(x):
    before = x.clone()
    add_into(x, before)
    return before * 2 + x


def written_input(x, y):
    add_into(x, y * 2)
    return x * 2


def written_temp(x):
    y = x * 2
    add_into(y, x)
    return y + 1, x


def written_view(x, y):
    add_into(x[1:3], y)
    return x.sum(0)


def written_twice(x):
    y = x.exp()
    add_into(x, y)
    add_into(x, y.clone())
    return x - y


def both_written(x, y):
    before = x + y
    swap_halves(2.0, x, y)
    return before, x - y


GRAPHS = (
    graph("constant_for_bucketize", buckets, half(4, 33)),
    graph("constant_for_bucketize_of_bfloat16", buckets, bfloat(4, 33)),
    graph("constant_for_searchsorted", places, single(4, 33)),
    graph("constant_for_cdist", distances, single(5, 3), left_out=("_cdist_forward.default",), on_cpu=("_cdist_forward",), why=EAGER),
    graph("dynamic_constant_for_bucketize", buckets, single(4, 33), dynamic=True),
    graph("dynamic_constant_for_cdist", distances, single(5, 3), dynamic=True, left_out=("_cdist_forward.default",), on_cpu=("_cdist_forward",), why=EAGER),
    graph("constant_without_elements", at_nothing, half(4, 33)),
    graph("constant_read_by_all", constant_read_twice, single(4, 3), left_out=("_cdist_forward.default",), on_cpu=("_cdist_forward",), why=EAGER),
    graph("constant_of_an_inner_module", lambda module, x: module(x), single(4, 3), module=Distances, left_out=("_cdist_forward.default",), on_cpu=("_cdist_forward",), why=EAGER),
    graph("custom_operator_and_a_clone", clone_is_read_later, half(4, 33), bundles=2),
    graph("custom_operator_writes_an_input", written_input, half(4, 33), half(4, 33), bundles=2),
    graph("custom_operator_writes_a_temp", written_temp, single(4, 33), bundles=2),
    graph("custom_operator_writes_a_view", written_view, half(5, 33), half(2, 33)),
    graph("custom_operator_writes_twice", written_twice, half(4, 33), bundles=2),
    graph("custom_operator_writes_two", both_written, half(4, 33), half(4, 33), bundles=2),
)  # fmt: skip


MOVED = {
    "a_part_of_the_host": (lambda x: x[:, :16].to("spyre") + 1, on_host(half(4, 33))),
    "a_turned_part": (lambda x: x.t()[3:9].to("spyre") * 2, on_host(single(4, 33))),
    "every_other_column": (lambda x: x[:, ::2].to("spyre") * 2, on_host(single(4, 33))),
    "a_spread_row": (lambda x: x[:1].expand(4, 33).to("spyre") + 1, on_host(half(4, 33))),
    "a_part_cast_on_its_way": (lambda x: x[1:, 3:7].to("spyre", torch.float16).exp(), on_host(single(4, 33))),
    "a_part_of_integers": (lambda x: x[:, 1:5].to("spyre") + 1, on_host(int64(4, 33))),
    "there_and_back": (lambda x: (x[:, :9].to("spyre") * 2).t()[:, 1:].cpu() + 1, on_host(single(4, 33))),
    "turned_and_cast_on_its_way_back": (
        lambda x: x.to("spyre").t()[:, 1:].to("cpu", torch.float32) * 2,
        on_host(half(4, 33)),
    ),
    "no_elements": (lambda x: x[:, :0].to("spyre") + 1, on_host(half(4, 33))),
    "one_element": (lambda x: x[1, 2].to("spyre") + 1, on_host(half(4, 33))),
}
