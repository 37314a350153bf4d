"""Gathers and scatters whose tables, values and indices are views: stretched, stepped, turned, in the middle of a stick."""

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations

VIEWS = {
    "as it is": ((5, 70), lambda x: x),
    "stretched along the sticks": ((5, 1), lambda x: x.expand(5, 70)),
    "stretched across the sticks": ((1, 70), lambda x: x.expand(5, 70)),
    "one element": ((1, 1), lambda x: x.expand(5, 70)),
    "every second one": ((10, 140), lambda x: x[::2, ::2]),
    "in the middle": ((7, 90), lambda x: x[1:6, 13:83]),
    "turned": ((70, 5), lambda x: x.t()),
    "stretched between": ((3, 1, 4), lambda x: x.expand(3, 6, 4)),
    "single and stretched": ((2, 1), lambda x: x.expand(2, 2, 1)),
}
INDICES = {
    "as it is": lambda i: i,
    "a single one": lambda i: i[:1],
    "stretched": lambda i: i[:1].expand(3),
    "every second one": lambda i: i[1::2],
}


def per_element(x, index, dim):
    shape = [index.shape[0] if d == dim else extent for d, extent in enumerate(x.shape)]
    return index.view([-1 if d == dim else 1 for d in range(x.dim())]).expand(shape)


def everywhere(x, dim):
    return torch.arange(x.shape[dim], device=x.device).flip(0)


GATHERS = {
    "index_select": lambda x, i, dim: x.index_select(dim, i),
    "index": lambda x, i, dim: x[(slice(None),) * dim + (i[:, None].expand(i.shape[0], 2),)],
    "gather": lambda x, i, dim: x.gather(dim, per_element(x, i, dim)),
    "gather dense": lambda x, i, dim: x.gather(dim, per_element(x, i, dim).contiguous()),
    "embedding": lambda x, i, dim: F.embedding(i, x.transpose(0, dim).flatten(1)),
    "take": lambda x, i, dim: x.take(i),
    "flipped behind it": lambda x, i, dim: torch.cat([x.index_select(dim, i), x.flip(dim)], dim) + 1,
}
SCATTERS = {
    "index_copy": lambda x, dim: torch.zeros(x.shape, device=x.device).index_copy(dim, everywhere(x, dim), x),
    "index_add": lambda x, dim: torch.zeros(x.shape, device=x.device).index_add(dim, everywhere(x, dim) * 0, x),
    "index_fill": lambda x, dim: x.index_fill(dim, everywhere(x, dim)[:1], 3),
    "index_put": lambda x, dim: torch.zeros(x.shape, device=x.device).index_put((everywhere(x, 0),), x),
    "scatter": lambda x, dim: torch.zeros(x.shape, device=x.device).scatter(
        dim, per_element(x, everywhere(x, dim), dim), x
    ),
    "scatter_add": lambda x, dim: torch.zeros(x.shape, device=x.device).scatter_add(
        dim, per_element(x, everywhere(x, dim) * 0, dim), x
    ),
}


def whole_numbers(size):
    return torch.randint(-9, 10, size, generator=torch.Generator().manual_seed(0)).float()


def check(function, *given):
    """Every call of a graph is right by itself; `function` returns a list."""
    right = function(*given)
    for wrap in (lambda function: function, lambda function: torch.compile(function, dynamic=False)):
        results = wrap(function)(*(value.to("spyre") for value in given))
        for number, (result, wanted) in enumerate(zip(results, right, strict=True)):
            assert torch.equal(result.cpu(), wanted), f"result {number}: {result.cpu()} is not {wanted}"


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("operator", GATHERS)
def test_gathers_from_views(operator, name):
    size, view = VIEWS[name]
    x = whole_numbers(size)
    ranks = range(view(x).dim())
    indices = [
        torch.randint(0, view(x).shape[dim], (4,), generator=torch.Generator().manual_seed(dim)) for dim in ranks
    ]

    def function(x, *indices):
        return [
            GATHERS[operator](view(x), pick(index), dim)
            for dim, index in enumerate(indices)
            for pick in INDICES.values()
        ]

    check(function, x, *indices)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("operator", SCATTERS)
def test_scatters_of_views(operator, name):
    size, view = VIEWS[name]
    check(lambda x: [SCATTERS[operator](view(x), dim) for dim in range(view(x).dim())], whole_numbers(size))


def test_a_table_may_lie_where_a_shorter_tensor_lay() -> None:
    """Relative positions of XLNet, in two layers: what is moved into the table is no op of the hardware, and tells no length."""

    def shifted(x, count):
        batch, heads, rows, columns = x.shape
        x = x.reshape(batch, heads, columns, rows)[:, :, 1:].reshape(batch, heads, rows, columns - 1)
        return x.index_select(3, torch.arange(count, device=x.device))

    def layers(x, positions, weight):
        for _ in range(2):
            query = (x @ weight).view(2, 12, 4, 16).transpose(1, 2)
            key = (positions @ weight).view(1, 24, 4, 16).transpose(1, 2)
            scores = torch.softmax(query @ query.mT + shifted(query @ key.mT, 12), -1)
            x = (scores @ query).transpose(1, 2).reshape(2, 12, 64) + x
        return x

    torch.manual_seed(0)
    host = torch.randn(2, 12, 64), torch.randn(1, 24, 64), torch.randn(64, 64) / 8
    card = [tensor.half().to("spyre") for tensor in host]
    expected = layers(*host)
    found = torch.compile(layers)(*card).cpu()
    assert torch.equal(found, layers(*card).cpu())
    assert (found.float() - expected).norm() < 0.01 * expected.norm()
