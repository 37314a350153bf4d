"""Elements found through index tensors: exactly those torch finds, and an IndexError where there is none."""

import pytest
import torch
import torch.nn.functional as F
from moved import DTYPES, same, values

by_dtype = pytest.mark.parametrize("dtype", DTYPES)
by_dim = pytest.mark.parametrize("dim", [0, 1, 2])
SHAPE = (5, 70, 65)
VIEWS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.transpose(0, 2),
    "sliced": lambda x: x[:, 3:60, 5:],
    "narrow": lambda x: x[:, :, :1],
    "broadcast": lambda x: x[:1].expand(4, 70, 65),
}
by_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


def indices(bound, *shape, low=0, seed=0):
    return torch.randint(low, bound, shape, generator=torch.Generator().manual_seed(seed))


@by_view
@by_dtype
def test_rows_by_index(dtype, view):
    host = view(values(SHAPE, dtype))
    card = view(values(SHAPE, dtype).to("spyre"))
    for dim in range(3):
        for shape in ((9,), (1,), (0,), (130,)):
            index = indices(host.shape[dim], *shape)
            same(card.index_select(dim, index.to("spyre")), host.index_select(dim, index))
        index = indices(host.shape[dim], 4, 33).int()
        where = (slice(None),) * dim
        same(card[(*where, index.to("spyre"))], host[(*where, index)])


@pytest.mark.parametrize("size", [(2, 4, 12, 24), (2, 4, 12, 70), (2, 2, 3, 8)], ids=str)
@by_dtype
def test_rows_that_run_across_those_of_memory(dtype, size):
    """As XLNet shifts its relative positions."""
    *outer, rows, columns = size

    def shifted(x):
        return x.reshape(*outer, columns, rows)[:, :, 1:].reshape(*outer, rows, columns - 1)

    host, card = shifted(values(size, dtype)), shifted(values(size, dtype).to("spyre"))
    index = torch.arange(rows)
    same(card.index_select(3, index.to("spyre")), host.index_select(3, index))


@pytest.mark.parametrize("part", [slice(1, None), slice(0, 2)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_rows_of_a_part_of_a_tensor(dtype, part):
    """The rows between which others lie that were cut off: a gather whose extents say nothing of those would step too short."""
    x = torch.arange(12).reshape(3, 2, 2).to(dtype)
    index, own = torch.tensor([1, 0]), x.to("spyre")[part]
    assert torch.equal(own.flip(0).cpu(), x[part].flip(0))
    assert torch.equal(own.index_select(0, index.to("spyre")).cpu(), x[part].index_select(0, index))
    target = x.to("spyre")
    target[part].index_copy_(0, index.to("spyre"), -own)
    x[part].index_copy_(0, index, -x[part].clone())
    assert torch.equal(target.cpu(), x)


@by_dtype
def test_embeddings(dtype):
    table = values((70, 130), dtype)
    for index in (indices(70, 4, 33), indices(70, 1), indices(70, 0), torch.tensor(3)):
        same(torch.embedding(table.to("spyre"), index.to("spyre")), torch.embedding(table, index))
    same(torch.embedding(table.to("spyre").t(), indices(70, 9).to("spyre")), torch.embedding(table.t(), indices(70, 9)))


@by_view
@by_dim
@by_dtype
def test_gather(dtype, dim, view):
    host = view(values(SHAPE, dtype))
    card = view(values(SHAPE, dtype).to("spyre"))
    for shape in ((3, 20, 1), (1, 1, 1), tuple(host.shape)):
        index = indices(host.shape[dim], *shape)
        if all(n <= m for d, (n, m) in enumerate(zip(shape, host.shape, strict=True)) if d != dim):
            same(card.gather(dim, index.to("spyre")), host.gather(dim, index))


@by_view
@by_dtype
def test_several_indices(dtype, view):
    host = view(values(SHAPE, dtype))
    card = view(values(SHAPE, dtype).to("spyre"))
    first, second, third = (indices(n, 9, low=-n, seed=d) for d, n in enumerate(host.shape))
    everything = slice(None)
    for where in (
        (first, second),
        (everything, second, third),
        (first, everything, third),
        (first, second, third),
        (everything, second[:, None], third[None]),
        (first[0], second),
        (first[0],),
    ):
        moved = tuple(i.to("spyre") if isinstance(i, torch.Tensor) else i for i in where)
        same(card[moved], host[where])


@by_dtype
def test_take_counts_through_the_whole_tensor(dtype):
    host, index = values(SHAPE, dtype), indices(5000, 4, 33, low=-5000)
    same(host.to("spyre").take(index.to("spyre")), host.take(index))
    same(host.to("spyre").transpose(0, 1).take(index.to("spyre")), host.transpose(0, 1).take(index))


@by_view
@by_dtype
def test_index_put(dtype, view):
    first, second, third = indices(5, 3), indices(50, 3), indices(1, 3)
    everything = slice(None)
    for where, size in (
        ((everything, second), None),
        ((first.clamp(max=3), second), None),
        ((first.clamp(max=3), everything, third), None),
        ((first.clamp(max=3), second, third), None),
        ((everything, second - 50), ()),
    ):
        host, card = values(SHAPE, dtype), values(SHAPE, dtype).to("spyre")
        if view(host).stride(0) == 0 or any(
            int(i.max()) >= n for i, n in zip(where, view(host).shape, strict=False) if i is not everything
        ):
            continue
        size = view(host)[where].shape if size is None else size
        new = values(size, dtype, seed=1)
        moved = tuple(i.to("spyre") if isinstance(i, torch.Tensor) else i for i in where)
        view(host)[where] = new
        view(card)[moved] = new.to("spyre")
        same(card, host)


@by_dtype
def test_index_put_adds_up_equal_indices(dtype):
    if dtype is torch.bool:
        pytest.skip("truth values do not add up")
    for where in ([None, torch.tensor([1, 2, 1])], [torch.tensor([1, 2, 1]), torch.tensor([0, 3, 0])]):
        host, card = values(SHAPE, dtype), values(SHAPE, dtype).to("spyre")
        new = values((5, 3, 65) if where[0] is None else (3, 65), dtype, seed=1)
        torch.ops.aten.index_put_(host, where, new, True)
        torch.ops.aten.index_put_(card, [None if i is None else i.to("spyre") for i in where], new.to("spyre"), True)
        same(card, host)


@by_dim
@by_dtype
def test_rows_are_copied_filled_and_added(dtype, dim):
    host, index = values(SHAPE, dtype), torch.randperm(SHAPE[dim], generator=torch.Generator().manual_seed(1))[:4]
    size = [*SHAPE]
    size[dim] = 4
    source = values(size, dtype, seed=1)
    card, places, rows = (x.to("spyre") for x in (host, index, source))
    same(card.index_copy(dim, places, rows), host.index_copy(dim, index, source))
    same(card.index_fill(dim, places, 1), host.index_fill(dim, index, 1))
    if dtype is not torch.bool:
        again, twice = torch.tensor([1, 2, 1, 0]), torch.tensor([1, 2, 1, 0]).to("spyre")
        same(card.index_add(dim, twice, rows), host.index_add(dim, again, source))
        turned, still = card.clone().transpose(0, 1), host.clone().transpose(0, 1)
        where = {0: 1, 1: 0, 2: 2}[dim]
        turned.index_add_(where, twice, rows.transpose(0, 1))
        still.index_add_(where, again, source.transpose(0, 1))
        same(turned, still)


@by_dim
@by_dtype
def test_scatter(dtype, dim):
    host, source = values(SHAPE, dtype), values((3, 20, 33), dtype, seed=1)
    index = indices(SHAPE[dim], 3, 20, 33)
    card, places, new = (x.to("spyre") for x in (host, index, source))
    same(card.scatter(dim, places, new), host.scatter(dim, index, source))
    same(card.clone().scatter_(dim, places, 1), host.scatter(dim, index, 1))
    same(card.scatter(dim, places[:0], new), host)
    if dtype is not torch.bool:
        same(card.scatter_add(dim, places, new), host.scatter_add(dim, index, source))
        same(card.scatter_reduce(dim, places, new, "sum"), host.scatter_reduce(dim, index, source, "sum"))


@pytest.mark.parametrize("shape", [(70, 333), (3, 5, 1030), (9, 64), (17, 1)], ids=str)
@by_dtype
def test_elements_along_the_last_dim(dtype, shape):
    """Many to a row, some of them again and again; rows that go on behind what is scattered; views, in and out."""
    host, source = values(shape, dtype), values(shape, dtype, seed=1)
    index = indices(shape[-1], *shape)
    card, places, new = (x.to("spyre") for x in (host, index, source))
    same(card.scatter(-1, places, new), host.scatter(-1, index, source))
    same(card.scatter(-1, places, 1), host.scatter(-1, index, 1))
    few = (..., slice(0, 1))  # as in a one-hot
    same(card.scatter(-1, places[few], new[few]), host.scatter(-1, index[few], source[few]))
    narrow = (slice(1, None), ..., slice(1, None))
    same(card[narrow].scatter_(-1, places[narrow] // 2, new[narrow]), host[narrow].clone().scatter_(-1, index[narrow] // 2, source[narrow]))  # fmt: skip
    host[narrow].scatter_(-1, index[narrow] // 2, source[narrow])
    same(card, host)
    turned = (card.transpose(0, -1).contiguous().transpose(0, -1), host.transpose(0, -1).contiguous().transpose(0, -1))
    same(turned[0].scatter(-1, places, new), turned[1].scatter(-1, index, source))
    if dtype is not torch.bool:  # sums that every format holds
        host, source = host % 4, source % 2
        card, new = host.to("spyre"), source.to("spyre")
        same(card.scatter_add(-1, places, new), host.scatter_add(-1, index, source))
        same(card.scatter_add(-1, places, new[:1].expand(shape)), host.scatter_add(-1, index, source[:1].expand(shape)))
        source[..., 8:] = 0
        stretched, new = index[few].expand(shape), source.to("spyre")
        same(card.scatter_add(-1, places[few].expand(shape), new), host.scatter_add(-1, stretched, source))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_sums_meet_in_the_order_of_the_index(dtype):
    """Each is rounded: a large number swallows what came before it, and what comes after it is gone stays."""
    large = 2.0**30 if dtype is torch.float32 else 2.0**12
    source = torch.tensor([0.25, large, 0.25, -large, 0.25, 1.0] * 60, dtype=dtype).repeat(7, 1)
    index = torch.arange(6).repeat_interleave(60).repeat(7, 1) * 41
    card, right = torch.zeros(7, 260, dtype=dtype, device="spyre"), torch.zeros(7, 260, dtype=dtype)
    right[:, :206:41] = 1.25
    same(card.scatter_add(1, index.to("spyre"), source.to("spyre")), right)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_infinities_and_no_numbers_are_scattered(dtype):
    inf, nan = float("inf"), float("nan")
    source = torch.tensor([inf, -inf, nan, inf, 0.0, -0.0, 1.0, inf] * 40, dtype=dtype).repeat(5, 1)
    index = torch.arange(8).repeat(40).repeat(5, 1) * 40
    for start in (0.0, -0.0, inf, nan):
        host = torch.full((5, 290), start, dtype=dtype)
        card, places, new = (x.to("spyre") for x in (host, index, source))
        for found, right in (
            (card.scatter(1, places, new), host.scatter(1, index, source)),
            (card.scatter_add(1, places, new), host.scatter_add(1, index, source)),
        ):
            assert torch.equal(found.cpu().nan_to_num(9.0, 8.0, -8.0), right.nan_to_num(9.0, 8.0, -8.0))


def test_vectors_are_scattered_and_counted():
    host, index = values((700,), torch.float32), indices(700, 900)
    card, places, new = host.to("spyre"), index.to("spyre"), torch.ones(900)
    same(card.index_add(0, places, new.to("spyre")), host.index_add(0, index, new))
    same(card.index_put((places,), new.to("spyre"), accumulate=True), host.index_put((index,), new, accumulate=True))
    several = index.view(30, 30)
    same(card.index_put((several.to("spyre"),), new.view(30, 30).to("spyre"), accumulate=True), host.index_put((several,), new.view(30, 30), accumulate=True))  # fmt: skip
    same(card.index_copy(0, places[:64], new[:64].to("spyre")), host.index_copy(0, index[:64], new[:64]))
    same(card.scatter_add(0, places[:0], new[:0].to("spyre")), host)


def test_vectors_and_single_elements():
    host = values((130,), torch.float32)
    card = host.to("spyre")
    for index in (torch.tensor([3]), torch.tensor([-1]), indices(130, 70), torch.tensor(7)):
        same(card[index.to("spyre")], host[index])
    one = values((1,), torch.float32)
    same(one.to("spyre")[torch.tensor([0, 0, -1]).to("spyre")], one[torch.tensor([0, 0, -1])])


def test_masks_with_a_result_or_values_of_their_size_are_left_to_the_cpu():
    torch.spyre.set_fallback_mode("silent")
    host = values(SHAPE, torch.float32)
    card = host.to("spyre")
    same(card[card > 0], host[host > 0])
    same(card[:, host[0, :, 0].to("spyre") > 0], host[:, host[0, :, 0] > 0])
    values_of_their_own = torch.arange(float((host > 0).sum()))
    card[card > 0] = values_of_their_own.to("spyre")
    host[host > 0] = values_of_their_own
    same(card, host)


BEYOND = {
    "embedding": lambda x, i: torch.embedding(x[0], i(70)),
    "index_select": lambda x, i: x.index_select(2, i(65)),
    "gather": lambda x, i: x.gather(2, i(70).view(1, 1, 1)),
    "index": lambda x, i: x[:, i(-71)],
    "several indices": lambda x, i: x[i(0), i(70)],
    "take": lambda x, i: x.take(i(5 * 70 * 65)),
    "index_put_": lambda x, i: x.index_put_((i(5),), x[0].clone()),
    "index_add": lambda x, i: x.index_add(0, i(5), x[:1].clone()),
    "scatter": lambda x, i: x.scatter(0, i(5).view(1, 1, 1), 1.0),
}


@pytest.mark.parametrize("call", BEYOND.values(), ids=BEYOND)
def test_an_index_out_of_range_is_an_index_error(call):
    card = values(SHAPE, torch.float32).to("spyre")
    wrong = []

    def index(number):
        wrong.append(number)
        return torch.tensor([number]).to("spyre")

    with pytest.raises(IndexError, match="out of bounds") as caught:
        call(card, index).cpu()
    assert str(wrong[-1]) in str(caught.value)
    same(torch.ones(3, device="spyre") + 1, torch.full((3,), 2.0))  # the card works on


FROM_THE_END = {
    "embedding": lambda x, i: F.embedding(i(70), x[0]),
    "index_select": lambda x, i: x.index_select(2, i(65)),
    "gather": lambda x, i: x.gather(2, i(65).view(1, 1, -1).expand(5, 70, -1)),
    "gather by rows": lambda x, i: x.gather(1, i(70).view(1, -1, 1).expand(5, -1, 65)),
    "index": lambda x, i: x[:, i(70)],
    "index of the last dim": lambda x, i: x[:, :, i(65)],
    "index of a slice": lambda x, i: x[1:4, 10:60, 3:][:, i(50)],
    "several indices": lambda x, i: x[i(5), i(70)],
    "take": lambda x, i: x.take(i(5 * 70 * 65)),
    "index_put": lambda x, i: x.index_put((i(5),), x[:3] * 2),
    "index_put of elements": lambda x, i: x.index_put((i(5), i(70), i(65)), x[0, 0, :3]),
    "index_add": lambda x, i: x.index_add(1, i(70), x[:, :3] * 2),
    "index_copy": lambda x, i: x.index_copy(0, i(5), x[:3] * 2),
    "index_fill": lambda x, i: x.index_fill(1, i(70), 3.0),
    "scatter": lambda x, i: x.scatter(0, i(5).view(-1, 1, 1), 1.0),
    "scatter_add": lambda x, i: x.scatter_add(2, i(65).view(1, 1, -1), x[:1, :1, :3] * 2),
}


@pytest.mark.parametrize("call", FROM_THE_END.values(), ids=FROM_THE_END)
def test_an_index_below_0_counts_from_the_end(call):
    """Everywhere, also where torch's CPU refuses it."""
    host = values(SHAPE, torch.float32)
    right = call(host, lambda size: torch.tensor([1, size - 1, size - 2]))
    same(call(host.to("spyre"), lambda size: torch.tensor([1, -1, -2]).to("spyre")), right)


@pytest.mark.parametrize(
    "wrong",
    [lambda n: n, lambda n: -n - 1, lambda n: 2**31 - 1, lambda n: 1 - 2**31],
    ids=("n", "-n - 1", "int32's end", "int32's begin"),
)
@pytest.mark.parametrize("call", FROM_THE_END.values(), ids=FROM_THE_END)
def test_an_index_beyond_both_ends_is_an_index_error(call, wrong):
    card = values(SHAPE, torch.float32).to("spyre")
    with pytest.raises(IndexError, match="out of bounds"):
        call(card, lambda size: torch.tensor([0, wrong(size), 0]).to("spyre")).cpu()


@pytest.mark.parametrize("size", [(), (1,), (3,)], ids=str)
def test_expanded_tensors_are_flipped_and_indexed(size):
    x = torch.arange(1.0, 1 + torch.Size(size).numel()).reshape(size)
    places = torch.tensor([4, 0, 2])
    wide, mine = x.expand(5, *size), x.to("spyre").expand(5, *size)
    assert torch.equal(mine.flip(0).cpu(), wide.flip(0))
    assert torch.equal(mine[places.to("spyre")].cpu(), wide[places])
    assert torch.equal(mine.index_select(0, places.to("spyre")).cpu(), wide.index_select(0, places))


def test_a_table_may_be_larger_than_what_one_core_spans():
    """Rows are reached one at a time, by the address that the index gives: an embedding of a large model, the pool of a cache."""
    rows, width = 70_000, 2048  # 273 MiB
    table = torch.randn(rows, 64, dtype=torch.float16).repeat(1, width // 64).to("spyre")
    index = torch.tensor([[0, rows - 1], [1, 65_535]])
    to, of = index.to("spyre")
    same(torch.index_copy(table, 0, to, torch.embedding(table, of))[to], table.cpu()[index[1]])
