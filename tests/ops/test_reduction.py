"""Every reduction row against torch: dims, keepdim, dtypes, shapes, special values; and the order of additions (N6)."""

import numpy as np
import pytest
import torch
from calls import rows
from oracle import HALVES, assert_rounded, fetch, held, through_card
from samples import FLOATS, INTEGERS, draw

from openspyre.spec.ops import Fold, Kind

ROWS = {row.name: row for row in rows(Kind.REDUCTION)}
EXACT = (Fold.MAX, Fold.MIN, Fold.ANY, Fold.ALL, Fold.ARG_MAX, Fold.ARG_MIN)
ONE_DIM = {"prod", "argmax", "argmin", "max_index", "min_index"}  # torch takes one dim, or all
ALWAYS_DIM = {"max_index", "min_index"}
NO_KEEPDIM = {"count_nonzero"}


def apply(row, x, dim, keepdim=False):
    """The row on a tensor of any device, as a list of results."""
    name = row.aten[0].split(".")[0]
    fixed = dict(row.fixed)
    if name == "linalg_vector_norm":
        result = torch.linalg.vector_norm(x, fixed["ord"], dim, keepdim)
    elif "correction" in fixed:
        result = getattr(torch, name)(x, dim=dim, keepdim=keepdim, correction=fixed["correction"])
    elif dim is None:
        result = getattr(torch, name)(x)
    else:
        result = getattr(torch, name)(x, dim, **({} if name in NO_KEEPDIM else {"keepdim": keepdim}))
    return list(result) if isinstance(result, tuple) else [result]


def slack(row, x, dim, keepdim, exact):
    """The bound of a sum in fp32: n units of the last place of the sum of magnitudes; of a product, of its own."""
    if row.fold in EXACT or not exact.dtype.is_floating_point:
        return None
    if x.dim() == 0:
        return None
    dims = dim if dim is not None else list(range(x.dim()))
    n = int(np.prod([x.shape[d] for d in ([dims] if isinstance(dims, int) else dims)], initial=1))
    if row.fold is Fold.PROD or dict(row.fixed).get("ord") is not None or "correction" in dict(row.fixed):
        return (n + 4) * 2.0**-24 * exact.abs() + n * 2.0**-149
    total = x.abs().nan_to_num(0).sum(dims, keepdim=keepdim)
    return n * 2.0**-24 * (total / n if row.name == "mean" else total)


def check(row, host, card, dim, keepdim=False):
    results = apply(row, card, dim, keepdim)
    wide = host.dtype.is_floating_point
    exacts = apply(row, held(host) if wide else host, dim, keepdim)
    kinds = [result.dtype for result in apply(row, host, dim, keepdim)]
    for result, exact, kind in zip(results, exacts, kinds, strict=True):
        assert result.dtype == kind
        bound = slack(row, held(host).double(), dim, keepdim, exact) if kind.is_floating_point else None
        assert_rounded(result, exact, row.ulps, 2 if row.finish else 0, bound)


def takes(row, dtype):
    try:
        apply(row, draw(row.samples, dtype, (2, 3)), 1)
    except (RuntimeError, NotImplementedError):
        return False
    return True


CASES = [(name, dtype) for name, row in ROWS.items() for dtype in (*FLOATS, *INTEGERS, torch.bool) if takes(row, dtype)]


def dims_for(name, rank=2):
    every = [] if name in ALWAYS_DIM else [None]
    several = [] if name in ONE_DIM or rank < 2 else [[0, rank - 1]]
    return [*every, *range(rank), *several]


def title(value):
    return str(value).removeprefix("torch.")


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=title)
def test_every_dim_of_an_unaligned_tensor(name, dtype):
    row = ROWS[name]
    host = draw(row.samples, dtype, (9, 70))
    card = host.to("spyre")
    for dim in dims_for(name):
        for keepdim in (False, True) if dim is not None and name not in NO_KEEPDIM else (False,):
            check(row, host, card, dim, keepdim)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", FLOATS, ids=title)
def test_special_values(name, dtype):
    row = ROWS[name]
    host = draw(row.samples, dtype, (7, 70))
    for line, special in enumerate((float("inf"), float("-inf"), float("nan"), 3e38, -1e-40)):
        host[line, 10 * line + 3] = special
    host[5, 2], host[5, 69] = float("inf"), float("-inf")
    for dim in (0, 1):
        with np.errstate(all="ignore"):
            check_special(row, host, host.to("spyre"), dim)


def check_special(row, host, card, dim):
    """Where torch's own float32 leaves the numbers, so does the card; elsewhere the exact result counts."""
    for result, exact, single in zip(
        apply(row, card, dim), apply(row, held(host), dim), apply(row, held(host).float(), dim), strict=True
    ):
        if "std" in row.name:
            single = (single * single).sqrt()  # a root of the variance, which must be an fp32 number
        bound = slack(row, held(host), dim, False, exact)
        assert_rounded(result, exact, row.ulps, 2 if row.finish else 0, bound, alternative=single)


SHAPES = {
    "aligned": (lambda x: x((64, 128)), (0, 1, None)),
    "transposed": (lambda x: x((70, 9)).t(), (0, 1, None)),
    "sliced": (lambda x: x((20, 90))[3:12, 5:75], (0, 1, None)),
    "strided": (lambda x: x((9, 130))[::2, ::2], (0, 1)),
    "expanded": (lambda x: x((3, 1, 7)).expand(3, 66, 7), (0, 1, 2)),
    "size one": (lambda x: x((1, 9, 1, 65, 1)), (0, 1, 3, 4)),
    "rank 0": (lambda x: x(()), (0, None)),
    "rank 1": (lambda x: x((300,)), (0, None)),
    "rank 6": (lambda x: x((2, 3, 1, 2, 2, 66)), (1, 5)),
    "no result": (lambda x: x((3, 0, 5)), (0, 2)),
}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ROWS)
def test_shapes(name, shape):
    row = ROWS[name]
    make, dims = SHAPES[shape]
    host = make(lambda size: draw(row.samples, torch.float16, size))
    card = make(lambda size: draw(row.samples, torch.float16, size).to("spyre"))
    for dim in dims:
        if dim is not None or name not in ALWAYS_DIM:
            check(row, host, card, dim)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "nansum"])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (torch.float16, torch.float32),
        (torch.float32, torch.float16),
        (torch.int32, torch.float32),
        (torch.bool, torch.float32),
        (torch.float16, torch.bfloat16),
    ],
    ids=title,
)
def test_dtype_converts_before_the_fold(name, source, target):
    row = ROWS[name]
    host = draw(row.samples, source, (9, 70))
    operation = getattr(torch, name)
    exact = operation(through_card(held(host).float(), target), 1, dtype=torch.float64)
    result = operation(host.to("spyre"), 1, dtype=target)
    assert result.dtype == target
    bound = 70 * 2.0**-24 * (exact.abs() if name == "prod" else held(host).double().abs().sum(1))
    assert_rounded(result, exact, row.ulps, 2, bound)


@pytest.mark.parametrize(
    "name", ["sum", "mean", "amax", "amin", "any", "all", "argmax", "argmin", "var", "std", "norm2", "prod"]
)
def test_out_is_filled_and_resized(name):
    row = ROWS[name]
    host = draw(row.samples, torch.float32, (9, 70))
    (exact,) = apply(row, held(host), 1)
    kind = apply(row, host, 1)[0].dtype
    for out in (torch.empty(0, dtype=kind, device="spyre"), torch.empty(9, 3, dtype=kind, device="spyre")[:, 1]):
        operation = getattr(torch, row.aten[0].split(".")[0]) if name != "norm2" else torch.linalg.vector_norm
        assert operation(host.to("spyre"), dim=1, out=out) is out
        bound = slack(row, held(host), 1, False, exact)
        assert_rounded(out, exact, row.ulps, 2, bound)


def test_sums_along_the_stick_go_through_64_lanes():
    """N6, worked out in numpy: element r to lane r mod 64, ascending; then folded 32, 16, ... 1."""
    host = torch.randn(5, 1000, generator=torch.Generator().manual_seed(3)) * 100
    padded = np.zeros((5, 1024), np.float32)
    padded[:, :1000] = host.numpy()
    lanes = np.zeros((5, 64), np.float32)
    for block in padded.reshape(5, 16, 64).transpose(1, 0, 2):
        lanes = lanes + block
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    assert torch.equal(host.to("spyre").sum(1).cpu(), torch.from_numpy(lanes[:, 0].copy()))


def ascending(lines):
    total = np.zeros(lines.shape[1:], np.float32)
    for line in lines:
        total = total + line
    return total


def test_sums_across_sticks_ascend():
    """In slices where cores are left: 70 columns in 32 bits are 3 sticks, and of 10 cores each 9 divide 333 rows evenly (N9)."""
    host = torch.randn(333, 70, generator=torch.Generator().manual_seed(4)) * 100
    slices = [ascending(part) for part in host.numpy().reshape(9, 37, 70)]
    assert torch.equal(host.to("spyre").sum(0).cpu(), torch.from_numpy(ascending(np.stack(slices))))
    prime = host[:331]
    assert torch.equal(prime.to("spyre").sum(0).cpu(), torch.from_numpy(ascending(prime.numpy())))


@pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load
def test_sums_along_the_stick_are_divided_too():
    """4 rows leave 8 cores each, which share out 1024 elements by 128: each folds its lanes, and the slices are added in order."""
    host = torch.randn(4, 1024, generator=torch.Generator().manual_seed(4)) * 100
    slices = ascending(host.numpy().reshape(4, 8, 2, 64).transpose(2, 0, 1, 3))
    while slices.shape[2] > 1:
        half = slices.shape[2] // 2
        slices = slices[:, :, :half] + slices[:, :, half:]
    wanted = torch.from_numpy(ascending(slices[:, :, 0].T.copy()))
    assert torch.equal(host.to("spyre").sum(1).cpu(), wanted)
    assert torch.equal(torch.compile(lambda x: x.sum(1) * 2)(host.to("spyre")).cpu(), wanted * 2)


def test_the_first_of_equals_is_found():
    host = torch.tensor([[1.0, 7.0, 7.0, 0.0, 0.0] * 30, [float("nan")] * 150])
    card = host.to("spyre")
    assert card.argmax(1).cpu().tolist() == [1, 0]
    assert card.argmin(1).cpu().tolist() == [3, 0]
    assert card.argmax().item() == 150  # NaN is the largest, as in torch
    assert card.max(0).indices.cpu().tolist() == [1] * 150


def test_var_mean_gives_both():
    host = draw(ROWS["var"].samples, torch.float16, (9, 70))
    for mine, exact in zip(torch.var_mean(host.to("spyre"), 1), torch.var_mean(held(host), 1), strict=True):
        assert mine.dtype == torch.float16
        assert_rounded(mine, exact, 2, slack=80 * 2.0**-24 * held(host).abs().sum(1))


def test_a_sum_of_16_bit_floats_is_rounded_once():
    """4096 + 64 ones in SEN169 would stay 4096 if every addition were rounded."""
    for dtype in HALVES:
        card = torch.tensor([4096.0] + [1.0] * 64, dtype=dtype).to("spyre")
        assert fetch(card.sum()).item() == 4160.0


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")  # torch's, on the CPU
def test_a_reduction_of_nothing(name, dtype):
    """What torch says of it, or torch's error; fallbacks are errors here."""
    row, host = ROWS[name], torch.ones(3, 0, 70).to(dtype)
    for dim, keepdim in ((1, False), (1, True), *([] if name in ALWAYS_DIM else [(None, False)])):
        try:
            expected = apply(row, host, dim, keepdim)
        except (RuntimeError, IndexError) as error:
            assert row.of_nothing is None
            torch.spyre.set_fallback_mode("silent")  # for the CPU's error
            with pytest.raises(type(error)):
                apply(row, host.to("spyre"), dim, keepdim)
            continue
        for found, right in zip(apply(row, host.to("spyre"), dim, keepdim), expected, strict=True):
            assert found.dtype == right.dtype
            torch.testing.assert_close(found.cpu(), right, rtol=0, atol=0, equal_nan=True)


FALLS_BACK = {  # what is left to the CPU, and why
    "norm of order 3": (lambda x: torch.linalg.vector_norm(x, 3), "only orders 0, 1, 2 and infinity are rows"),
    "variance with correction 2": (lambda x: x.var(0, correction=2), "only corrections 0 and 1 are rows"),
}


@pytest.mark.parametrize("name", FALLS_BACK)
def test_what_falls_back_is_known_and_right(name):
    host = torch.rand(5, 7)
    call, _ = FALLS_BACK[name]
    with pytest.raises(NotImplementedError, match="no kernel on spyre"):
        call(host.to("spyre"))
    torch.spyre.set_fallback_mode("silent")
    mine, theirs = call(host.to("spyre")), call(host)
    for one, other in zip(mine, theirs, strict=True) if isinstance(mine, tuple) else [(mine, theirs)]:
        torch.testing.assert_close(one.cpu(), other)


def test_errors_are_those_of_torch():
    torch.spyre.set_fallback_mode("silent")  # some are found on the CPU
    host = torch.ones(3, 4)
    for wrong in (
        lambda x: x.sum(2),
        lambda x: x.sum((0, 0)),
        lambda x: x.int().mean(),
        lambda x: x.argmax(5),
        lambda x: x[:0].amax(0),
        lambda x: x[:0].argmax(),
    ):
        with pytest.raises((RuntimeError, IndexError)) as theirs:
            wrong(host)
        with pytest.raises(type(theirs.value)) as mine:
            wrong(host.to("spyre"))
        assert str(mine.value).splitlines()[0] == str(theirs.value).splitlines()[0]
