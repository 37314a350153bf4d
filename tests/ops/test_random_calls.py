"""Random views of random tensors through a few operators: whatever torch can index, the card computes the same."""

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SIZES = st.sampled_from([1, 2, 3, 31, 33, 64, 65, 130])
DTYPES = st.sampled_from([torch.float16, torch.float32, torch.int32, torch.uint8, torch.bool])
QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def recipes(draw, rank=None):
    """A base size and the steps that make a view of it, applicable on the host and on the card."""
    size = draw(st.lists(SIZES, min_size=rank or 1, max_size=rank or 4).filter(lambda s: torch.Size(s).numel() < 9000))
    steps = []
    for dim, extent in enumerate(size):
        if draw(st.booleans()):
            start = draw(st.integers(0, extent - 1))
            stop = draw(st.integers(start + 1, extent))
            steps.append(("slice", dim, start, stop, draw(st.sampled_from([1, 1, 2]))))
    steps.append(("permute", draw(st.permutations(range(len(size))))))
    return size, steps


def view_of(base, steps):
    for step in steps:
        if step[0] == "slice":
            _, dim, start, stop, every = step
            base = base[(slice(None),) * dim + (slice(start, stop, every),)]
        else:
            base = base.permute(step[1])
    return base


def numbers(size, dtype, seed):
    """Small whole numbers: every sum of them is exact in every format."""
    values = torch.randint(0 if dtype is torch.uint8 else -8, 9, size, generator=torch.Generator().manual_seed(seed))
    return values.to(dtype)


@QUIET
@given(recipes(), DTYPES, st.data())
def test_sums_of_views_and_their_broadcasts(recipe, dtype, data):
    size, steps = recipe
    host = numbers(size, dtype, 0)
    card = host.to("spyre")
    one, mine = view_of(host, steps), view_of(card, steps)
    narrow = [slice(0, 1) if data.draw(st.booleans()) else slice(None) for _ in one.shape]
    other, theirs = one[tuple(narrow)], mine[tuple(narrow)]
    assert torch.equal((mine + theirs).cpu(), one + other)
    assert torch.equal(torch.where(theirs > 0, mine, theirs).cpu(), torch.where(other > 0, one, other))
    assert torch.equal((mine * 3 == theirs).cpu(), one * 3 == other)


@QUIET
@given(recipes(), st.sampled_from([torch.float32, torch.int32]), st.data())
def test_writing_through_views(recipe, dtype, data):
    size, steps = recipe
    host = numbers(size, dtype, 1)
    card = host.to("spyre")
    one, mine = view_of(host, steps), view_of(card, steps)
    other = numbers(one.shape, dtype, 2)
    mine.mul_(2).add_(other.to("spyre"))
    one.mul_(2).add_(other)
    assert torch.equal(card.cpu(), host)
    torch.sub(mine, 1, out=mine)
    torch.sub(one, 1, out=one)
    assert torch.equal(card.cpu(), host)


@QUIET
@given(recipes(), st.sampled_from([torch.float32, torch.int32, torch.bool]), st.data())
def test_folds_of_views(recipe, dtype, data):
    size, steps = recipe
    host = numbers(size, dtype, 3)
    one, mine = view_of(host, steps), view_of(host.to("spyre"), steps)
    dims = data.draw(st.lists(st.integers(0, one.dim() - 1), unique=True, min_size=1, max_size=one.dim()))
    keepdim = data.draw(st.booleans())
    assert torch.equal(mine.sum(dims, keepdim).cpu(), one.sum(dims, keepdim))
    assert torch.equal(mine.amax(dims, keepdim).cpu(), one.amax(dims, keepdim))
    assert torch.equal(mine.any(dims, keepdim).cpu(), one.any(dims, keepdim))
    if dtype is not torch.bool:
        assert torch.equal(mine.argmax(dims[0]).cpu(), _argmax(one, dims[0]))


def _argmax(x, dim):
    """The first of equals, which torch does not promise."""
    return torch.from_numpy(x.numpy().argmax(dim)) if x.dim() > 1 else torch.tensor(int(x.numpy().argmax()))


@QUIET
@given(recipes(rank=2), recipes(rank=2), st.data())
def test_products_of_views(left, right, data):
    a, b = numbers(left[0], torch.float32, 4), numbers(right[0], torch.float32, 5)
    one, other = view_of(a, left[1]), view_of(b, right[1])
    k = min(one.shape[1], other.shape[0])
    mine, theirs = view_of(a.to("spyre"), left[1]), view_of(b.to("spyre"), right[1])
    assert torch.equal((mine[:, :k] @ theirs[:k]).cpu(), one[:, :k] @ other[:k])
