"""Python numbers inside, at and outside the range of an integer dtype: torch's CPU cuts some and refuses others.

Every integer is 32 bits wide on the card until it is stored, so a number that was not cut first compared and divided as itself.
"""

import pytest
import torch

from openspyre.spec.errors import ValueOutOfRange

pytestmark = pytest.mark.filterwarnings("ignore")  # fallbacks are counted elsewhere
DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
VALUES = [5, 7, 3, 100]


def written(x, place, number):
    y = x.clone()
    y[place] = number
    return y


def point(number):
    return torch.tensor(number)


OPS = {
    "add": lambda x, n: x + n,
    "sub": lambda x, n: x - n,
    "rsub": lambda x, n: n - x,
    "mul": lambda x, n: x * n,
    "add_": lambda x, n: x.clone().add_(n),
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "floor_divide": lambda x, n: x // n,
    "remainder": lambda x, n: x % n,
    "fmod": torch.fmod,
    "div_trunc": lambda x, n: torch.div(x, n, rounding_mode="trunc"),
    "div_floor": lambda x, n: torch.div(x, n, rounding_mode="floor"),
    "number // x": lambda x, n: n // x,
    "number % x": lambda x, n: n % x,
    "lt": lambda x, n: x < n,
    "le": lambda x, n: x <= n,
    "gt": lambda x, n: x > n,
    "ge": lambda x, n: x >= n,
    "eq": lambda x, n: x == n,
    "ne": lambda x, n: x != n,
    "a point lt": lambda x, n: x[0] < n,
    "lt a point": lambda x, n: torch.lt(x, point(n)),
    "maximum": lambda x, n: torch.maximum(x, point(n)),
    "minimum": lambda x, n: torch.minimum(x, point(n)),
    "fmax": lambda x, n: torch.fmax(x, point(n)),
    "clamp min": lambda x, n: x.clamp(min=n),
    "clamp max": lambda x, n: x.clamp(max=n),
    "clamp both": lambda x, n: x.clamp(4, n),
    "clamp_min": torch.clamp_min,
    "clamp to a point": lambda x, n: torch.clamp(x, min=point(n)),
    "where": lambda x, n: torch.where(x > 3, x, n),
    "where, first": lambda x, n: torch.where(x > 3, n, x),
    "where, a point": lambda x, n: torch.where(x > 3, x, point(n)),
    "fill_": lambda x, n: x.clone().fill_(n),
    "fill_ with a point": lambda x, n: x.clone().fill_(point(n)),
    "full_like": torch.full_like,
    "new_full": lambda x, n: x.new_full((3,), n),
    "masked_fill": lambda x, n: x.masked_fill(x > 3, n),
    "masked_fill with a point": lambda x, n: x.masked_fill(x > 3, point(n)),
    "masked write": lambda x, n: written(x, x > 3, n),
    "write": lambda x, n: written(x, 0, n),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([1], device=x.device), n),
    "scatter": lambda x, n: torch.scatter(x, 0, torch.tensor([1], device=x.device), n),
    "index_add": lambda x, n: x.index_add(0, torch.tensor([1], device=x.device), x[:1], alpha=n),
    "threshold": lambda x, n: torch.threshold(x, 3, n),
    "pad": lambda x, n: torch.nn.functional.pad(x, (1, 1), value=n),
    "and": lambda x, n: x & n,
    "or": lambda x, n: x | n,
    "xor": lambda x, n: x ^ n,
    "left shift": lambda x, n: x << n,
    "right shift": lambda x, n: x >> n,
    "logical_and": lambda x, n: torch.logical_and(x, point(n)),
    "pow": lambda x, n: x**n,
    "number ** x": lambda x, n: torch.pow(n, x),
    "div": lambda x, n: x / n,
    "xlogy": torch.xlogy,
    "arange": lambda x, n: torch.arange(n - 2, n, dtype=x.dtype, device=x.device),
    "out= of another dtype": lambda x, n: torch.floor_divide(
        x, n, out=torch.empty(4, dtype=torch.int64, device=x.device)
    ),
}


def numbers(dtype):
    """Inside, at the ends, just beyond them, and far outside."""
    ends = torch.iinfo(dtype)
    near = (ends.min, ends.max, ends.min - 1, ends.max + 1, ends.max + 6, 2 * ends.max + 2)
    return sorted({-1, 0, 3, *near, -300, 300, 70000, -70000, 2**31, -(2**31) - 1, 2**40, 2**63 - 1, -(2**63)})


def answer(function, x, number):
    try:
        return function(x, number).cpu()
    except (RuntimeError, OverflowError, ValueError, TypeError) as error:
        return error


def as_the_card_holds_it(right):
    """int64 lives as int32 (N8): its two ends are the card's, and arithmetic wraps at 32 bits."""
    if right.dtype is not torch.int64:
        return right
    wide, narrow = torch.iinfo(torch.int64), torch.iinfo(torch.int32)
    held = right.to(torch.int32).to(torch.int64)
    return held.where(right != wide.min, narrow.min).where(right != wide.max, narrow.max)


def may_refuse(name, dtype, number):
    """Where torch computes: numbers beyond the card's int32, among int64 or as the start of a range."""
    return (dtype is torch.int64 or name == "arange") and not -(2**31) + 2 <= number < 2**31


def assert_as_on_the_cpu(name, dtype, number, found):
    what = f"{name} of {dtype} with {number}"
    right = answer(OPS[name], torch.tensor(VALUES, dtype=dtype), number)
    if isinstance(right, Exception):
        assert isinstance(found, Exception), f"{what}: {found}, where torch says {right}"
    elif isinstance(found, Exception):
        assert may_refuse(name, dtype, number), f"{what}: {found}, where torch has {right}"
        assert isinstance(found, ValueOutOfRange), what
    else:
        held = as_the_card_holds_it(right)
        assert found.dtype == held.dtype, what
        same = torch.allclose(found.double(), held.double(), rtol=1e-5, equal_nan=True)
        assert same, f"{what}: {found} is not {held}"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_numbers_are_cut_or_refused_as_on_the_cpu(name, dtype):
    torch.spyre.set_fallback_mode("silent")
    x = torch.tensor(VALUES, dtype=dtype).to("spyre")
    for number in numbers(dtype):
        assert_as_on_the_cpu(name, dtype, number, answer(OPS[name], x, number))


SAMPLE = [
    *(
        (name, torch.uint8, 261)
        for name in ("lt", "remainder", "floor_divide", "number // x", "maximum", "alpha", "and")
    ),
    *((name, torch.uint8, -1) for name in ("ge", "fill_", "clamp min", "masked_fill", "where")),
    *((name, torch.int8, 300) for name in ("fill_", "clamp max", "masked_fill", "index_fill", "eq", "left shift")),
    *((name, torch.int32, 2**31 + 5) for name in ("add", "gt", "full_like")),
    *((name, torch.int64, 2**63 - 1) for name in ("add", "mul", "floor_divide", "clamp max", "masked_fill")),
    ("add", torch.int64, 2**40),
    ("remainder", torch.int32, 0),
]


@pytest.mark.parametrize(("name", "dtype", "number"), SAMPLE, ids=str)
def test_numbers_of_graphs_are_cut_or_refused_as_on_the_cpu(name, dtype, number):
    torch.spyre.set_fallback_mode("silent")
    torch.compiler.reset()
    x = torch.tensor(VALUES, dtype=dtype).to("spyre")
    assert_as_on_the_cpu(name, dtype, number, answer(torch.compile(OPS[name]), x, number))


@pytest.mark.parametrize(("name", "number"), [("lt", 261), ("remainder", 300), ("maximum", -1)])
def test_numbers_that_a_launch_brings_are_cut(name, number):
    function = getattr(torch, name)
    x, brought = torch.tensor(VALUES, dtype=torch.uint8), torch.tensor(number)
    found = torch.compile(function)(x.to("spyre"), brought)
    assert torch.equal(found.cpu(), function(x, brought))


def test_refusals_name_the_number_and_the_range():
    x = torch.tensor(VALUES, dtype=torch.int8).to("spyre")
    with pytest.raises(ValueOutOfRange, match=r"the number 300 does not fit int8 \(-128 to 127\)"):
        x.fill_(300)
    with pytest.raises(ValueOutOfRange, match="the number 9223372036854775807 does not fit the card's int32"):
        x.to(torch.int64) + (2**63 - 1)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x // 256


@pytest.mark.parametrize("form", [lambda f: f, torch.compile], ids=["eager", "compiled"])
def test_a_zero_inside_a_tensor_of_divisors_gives_zero(form):
    """Which elements are 0 is known on the card alone, when nobody waits any more: as on other devices, nothing is raised."""
    x, y = (torch.tensor(values, dtype=torch.int32).to("spyre") for values in ([4, -5, 7], [0, 0, 2]))
    for divide in (
        torch.floor_divide,
        torch.remainder,
        torch.fmod,
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    ):
        found = form(divide)(x, y).cpu()
        expected = divide(torch.tensor([7], dtype=torch.int32), torch.tensor([2], dtype=torch.int32))
        assert found.tolist() == [0, 0, expected.item()]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int8])
def test_a_real_number_beyond_the_floats_becomes_infinity(dtype):
    """torch's CPU refuses it here and there (clamp, where, fill) and takes it for infinity elsewhere; the card does the second."""
    x = torch.tensor([1, -2], dtype=dtype).to("spyre")
    assert x.clamp(max=1e300).cpu().tolist() == [1, -2]
    assert torch.where(x > 0, x, -1e300).cpu().tolist() == [1, float("-inf")]
    assert (x * 1e300).cpu().tolist() == [float("inf"), float("-inf")]


def test_minus_infinity_to_a_power_is_what_c_says():
    """torch's CPU takes a root for the exponent 0.5 as a number, and C's pow for the same exponent in a tensor."""
    x = torch.tensor([float("-inf")])
    by_tensor = x ** torch.tensor([0.5])
    assert torch.equal((x.to("spyre") ** 0.5).cpu(), by_tensor)
    assert torch.equal(((x.to("spyre")) ** torch.tensor([0.5]).to("spyre")).cpu(), by_tensor)
