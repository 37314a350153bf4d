"""Every pointwise row against torch: all dtypes it takes, all shapes of operands, special values everywhere."""

import pytest
import torch
from calls import has_in_place, has_out, packet, parameters, rounding, rows
from oracle import HALVES, assert_rounded, held, through_card
from samples import FLOATS, INTEGERS, draw

from openspyre.spec.ops import Kind, Precision, Promotion

ROWS = {row.name: row for row in rows(Kind.POINTWISE)}
TRUTH = {"where": 0, "masked_fill": 1}  # operands that are conditions
NUMBER = {"masked_fill": 2}  # operands that must have rank 0


def dtypes_of(row, dtype):
    return [torch.bool if place == TRUTH.get(row.name) else dtype for place in range(row.operands)]


def operands(row, dtype, shapes, special=False):
    """Operands on the host, of the given shapes."""
    shapes = [() if place == NUMBER.get(row.name) else shape for place, shape in enumerate(shapes)]
    drawn = enumerate(zip(dtypes_of(row, dtype), shapes, strict=True))
    return [draw(row.samples, kind, shape, place, special) for place, (kind, shape) in drawn]


def reference(row, hosts, dtype):
    """The exact result in float64, or torch's own for integers."""
    keywords = parameters(row, dtype)
    if dtype.is_floating_point:
        keywords = {k: _encoded(v, dtype) for k, v in keywords.items()}
        return packet(row)(*map(held, hosts), **keywords)
    kind = target_dtype(row, dtype)
    if kind.is_floating_point:  # integers are rounded to fp32 before a function sees them
        return packet(row)(*(h.float().double() for h in hosts), **keywords)
    # In int64 nothing overflows, and narrowing wraps (N8); torch's own int32 division crashes on -2**31 // -1.
    wide = [h.long() if h.dtype in INTEGERS else h for h in hosts]
    exact = packet(row)(*wide, **keywords).to(kind)
    return exact.int().long() if kind is torch.int64 else exact  # int64 lives as int32 (N8)


def _encoded(value, dtype):
    """Scalars are rounded to the op's format first (N7)."""
    return float(through_card(torch.tensor(value), dtype)) if isinstance(value, float) else value


def slack(row, hosts, dtype, exact):
    """What a rounding of an operand makes of a composite's exact result: the ops inside round, too (N4)."""
    if not rounding(row).composite or not dtype.is_floating_point or not exact.dtype.is_floating_point:
        return None
    values, total = [held(host) for host in hosts], torch.zeros_like(exact)
    rounding_error = 2.0**-10 if row.composite is Precision.OWN and dtype in HALVES else 2.0**-23
    for place, value in enumerate(values):
        for step in (-rounding_error, rounding_error) if value.dtype.is_floating_point else ():
            moved = [*values[:place], value * (1 + step), *values[place + 1 :]]
            total += (packet(row)(*moved, **parameters(row, dtype)) - exact).abs().nan_to_num(0, 0)
    return total


STEPS = {  # what torch computes at once, op by op
    "add_scaled": lambda a, b, alpha: a + b * alpha,
    "sub_scaled": lambda a, b, alpha: a - b * alpha,
    "rsub_scaled": lambda a, b, alpha: b - a * alpha,
    "addcmul": lambda a, b, c, value: a + b * value * c,
}


def as_torch(row, hosts, dtype):
    """torch's own float32 result of a composite: where an intermediate overflows, that is the answer."""
    if not rounding(row).composite or not dtype.is_floating_point:
        return None
    if row.name in STEPS:
        return STEPS[row.name](*(held(h).float() for h in hosts), **parameters(row, dtype))
    return packet(row)(*(held(h).float() if h.dtype.is_floating_point else h for h in hosts), **parameters(row, dtype))


def check(row, hosts, cards, dtype, result=None):
    result = packet(row)(*cards, **parameters(row, dtype)) if result is None else result
    exact = reference(row, hosts, dtype)
    assert result.dtype == target_dtype(row, dtype)
    alternative = as_torch(row, hosts, dtype)
    assert_rounded(result, exact, row.ulps, rounding(row).fp32_ulps, slack(row, hosts, dtype, exact), alternative)


def takes(row, dtype):
    """Whether torch itself has the op for this dtype."""
    try:
        packet(row)(*operands(row, dtype, [(2,)] * row.operands), **parameters(row, dtype))
    except (RuntimeError, NotImplementedError):
        return False
    return True


CASES = [(name, dtype) for name, row in ROWS.items() for dtype in (*FLOATS, *INTEGERS, torch.bool) if takes(row, dtype)]
SHAPED = [(name, next(dtype for other, dtype in CASES if other == name)) for name in ROWS]


def title(value):
    return str(value).removeprefix("torch.")


@pytest.mark.filterwarnings("ignore:(?s).*integer-wrap:openspyre.spec.errors.SanitizerWarning")  # as they shall (N8)
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=title)
def test_unaligned_tensors_with_special_values(name, dtype):
    row = ROWS[name]
    hosts = operands(row, dtype, [(33, 70)] * row.operands, special=True)
    check(row, hosts, [h.to("spyre") for h in hosts], dtype)


SHAPES = {
    "aligned": lambda x, place: x((64, 128)),
    "broadcast": lambda x, place: x([(5, 1, 70), (4, 1), (1,)][place]),
    "transposed": lambda x, place: x((70, 33)).t() if place != 1 else x((33, 70)),
    "all transposed": lambda x, place: x((70, 33)).t(),
    "sliced": lambda x, place: x((40, 90))[3 + place : 36 + place, 7 * place + 5 : 7 * place + 75],
    "strided": lambda x, place: x((9, 130))[::2, ::2],
    "expanded": lambda x, place: x((3, 1, 7)).expand(3, 66, 7),
    "size one": lambda x, place: x((1, 9, 1, 65, 1)),
    "empty": lambda x, place: x((3, 0, 5)),
    "rank 0": lambda x, place: x(()),
    "rank 6": lambda x, place: x((2, 3, 1, 2, 2, 66)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "dtype"), SHAPED, ids=title)
def test_shapes(name, dtype, shape):
    row = ROWS[name]
    if shape == "broadcast" and row.aten == ("gelu_backward",):
        pytest.skip("torch's own kernel does not broadcast")
    hosts, cards = [], []
    for place, kind in enumerate(dtypes_of(row, dtype)):
        shaped = (lambda x, _: x(())) if place == NUMBER.get(name) else SHAPES[shape]
        hosts.append(shaped(lambda s, k=kind, p=place: draw(row.samples, k, s, p), place))
        cards.append(shaped(lambda s, k=kind, p=place: draw(row.samples, k, s, p).to("spyre"), place))
    check(row, hosts, cards, dtype)


def target_dtype(row, dtype):
    return packet(row)(
        *(h.to("meta") for h in operands(row, dtype, [(2,)] * row.operands)), **parameters(row, dtype)
    ).dtype


@pytest.mark.parametrize(("name", "dtype"), [case for case in SHAPED if has_in_place(ROWS[case[0]])], ids=title)
def test_in_place_on_a_slice_leaves_its_neighbours_alone(name, dtype):
    row = ROWS[name]
    if target_dtype(row, dtype) not in (dtype, torch.bool) or TRUTH.get(name) == 0:
        pytest.skip("torch has no in-place form for this dtype")
    hosts = operands(row, dtype, [(33, 70)] * row.operands)
    cards = [h.to("spyre") for h in hosts]
    base = draw(row.samples, dtype, (40, 90)).to("spyre")
    inside = (slice(2, 35), slice(11, 81))
    base[inside] = cards[0]
    before = base.cpu()
    result = packet(row, "_")(base[inside], *cards[1:], **parameters(row, dtype))
    assert result.data_ptr() == base[inside].data_ptr()
    exact = reference(row, hosts, dtype)
    assert_rounded(base[inside], exact, row.ulps, slack=slack(row, hosts, dtype, exact))
    after = base.cpu()
    after[inside] = before[inside]
    assert torch.equal(after, before)


@pytest.mark.parametrize(("name", "dtype"), [case for case in SHAPED if has_out(ROWS[case[0]])], ids=title)
def test_out_is_filled_and_resized(name, dtype):
    row = ROWS[name]
    hosts = operands(row, dtype, [(33, 70)] * row.operands)
    cards = [h.to("spyre") for h in hosts]
    kind = target_dtype(row, dtype)
    for out in (torch.empty(0, dtype=kind, device="spyre"), torch.empty(70, 33, dtype=kind, device="spyre").t()):
        assert packet(row)(*cards, **parameters(row, dtype), out=out) is out
        check(row, hosts, cards, dtype, out)


def takes_number(row, dtype, number):
    try:
        packet(row)(torch.ones(2, dtype=dtype), number, **parameters(row, dtype))
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    return True


BINARY = [
    (name, dtype, zero_dim)
    for name, dtype in SHAPED
    for zero_dim in (False, True)
    if ROWS[name].operands == 2 and takes_number(ROWS[name], dtype, torch.tensor(3) if zero_dim else 3)
]


@pytest.mark.parametrize(("name", "dtype", "zero_dim"), BINARY, ids=title)
def test_a_number_as_second_operand(name, dtype, zero_dim):
    row = ROWS[name]
    host = operands(row, dtype, [(33, 70)] * 2)[0]
    number = 1.7 if dtype.is_floating_point else 3
    given = torch.tensor(number) if zero_dim else number
    result = packet(row)(host.to("spyre"), given, **parameters(row, dtype))
    other = torch.tensor(_encoded(number, dtype)).double() if dtype.is_floating_point else torch.tensor(number)
    keywords = parameters(row, dtype)
    exact = packet(row)(held(host) if dtype.is_floating_point else host, other, **keywords)
    assert result.dtype == packet(row)(host, given, **keywords).dtype
    moved = slack(row, [host, other], dtype, exact) if row.composite else None
    assert_rounded(result, exact, row.ulps, rounding(row).fp32_ulps, moved)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.promotion is Promotion.COMPARE])
def test_integers_beyond_float_precision_compare_as_torch_does(name):
    whole = torch.tensor([2**24 + 1, 2**24, -(2**24) - 1, 7], dtype=torch.int32)
    for other in (torch.tensor([2.0**24, 2.0**24, -(2.0**24), 7.0]), 2.0**24, 2**24 + 1, torch.tensor(2**24)):
        mine = packet(ROWS[name])(whole.to("spyre"), other.to("spyre") if getattr(other, "ndim", 0) else other)
        assert torch.equal(mine.cpu(), packet(ROWS[name])(whole, other))


PROMOTIONS = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.bool,
]


@pytest.mark.parametrize("first", PROMOTIONS, ids=title)
@pytest.mark.parametrize("second", [*PROMOTIONS, 2, 2.5, True], ids=title)
def test_types_promote_as_in_torch(first, second):
    """Tensors with tensors, with 0-d tensors of the card and the CPU, and with numbers."""
    if first in (torch.uint8, torch.int8) and isinstance(second, torch.dtype) and not second.is_floating_point:
        torch.spyre.set_fallback_mode("silent")  # the CPU cuts a point of a wider integer
    x = torch.tensor([[1, 0, 1], [1, 1, 1]], dtype=first)
    others = [second]
    if isinstance(second, torch.dtype):
        others = [torch.ones(2, 3, dtype=second), torch.ones((), dtype=second)]
    for operation in (torch.add, torch.mul, torch.div, torch.eq, torch.where):
        for other in others:
            for moved in (
                [other.to("spyre"), other][: 2 - (other.dim() > 0)] if isinstance(other, torch.Tensor) else [other]
            ):
                arguments = (x > 0, x, other) if operation is torch.where else (x, other)
                cards = (*(a.to("spyre") for a in arguments[:-1]), moved)
                mine, theirs = operation(*cards), operation(*arguments)
                assert mine.dtype == theirs.dtype, operation.__name__
                torch.testing.assert_close(mine.cpu(), theirs, rtol=2**-8, atol=0)


def test_scalars_that_choose_a_row_belong_to_the_key():
    x = torch.tensor([1.0, 2.0]).to("spyre")
    assert [(x.add(x, alpha=alpha) + x.pow(power)).tolist() for alpha, power in ((1, 2), (2, 3), (1, 2), (2.5, 0.0))] == [
        [3.0, 8.0], [4.0, 14.0], [3.0, 8.0], [4.5, 8.0]
    ]  # fmt: skip


def test_bounds_of_clamp_may_be_left_out():
    host = torch.tensor([-2.0, 0.5, 2.0, float("nan")])
    low, high = torch.tensor([-1.0, 1.0, 1.0, 0.0]), torch.tensor([1.0, 1.5, 3.0, 0.0])
    for bounds in ((-1.0, 1.0), (-1.0, None), (None, 1.0), (0, 1), (2.0, 1.0), (low, high), (low, None), (None, high)):
        mine = host.to("spyre").clamp(*(b.to("spyre") if isinstance(b, torch.Tensor) else b for b in bounds))
        torch.testing.assert_close(mine.cpu(), host.clamp(*bounds), rtol=0, atol=0, equal_nan=True)


def test_integer_division_rounds_as_torch_does():
    a = torch.tensor([7, -7, 7, -7, 0, 2**31 - 1], dtype=torch.int32)
    b = torch.tensor([2, 2, -2, -2, 5, -1], dtype=torch.int32)
    for operation in (
        torch.floor_divide,
        torch.remainder,
        torch.fmod,
        lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        lambda x, y: torch.div(x, y, rounding_mode="floor"),
    ):
        assert torch.equal(operation(a.to("spyre"), b.to("spyre")).cpu(), operation(a, b))
        assert torch.equal(operation(a.to("spyre"), -3).cpu(), operation(a, -3))


def test_nothing_may_be_divided_by_zero():
    nothing = torch.empty(0, 3, dtype=torch.int64, device="spyre")
    for result in (nothing // 0, nothing % 0, torch.fmod(nothing, 0)):
        assert result.shape == (0, 3) and result.dtype == torch.int64


def test_a_number_beyond_int32_is_refused():
    """Wrapped, 2**40 would be 0, and nothing would be below it."""
    whole = torch.tensor([1, 2]).to("spyre")
    assert (whole < 2**31 - 1).cpu().tolist() == [True, True]
    with pytest.raises(OverflowError, match=f"the number {2**40} does not fit the card's int32"):
        _ = whole < 2**40


def test_floats_divided_by_zero():
    host = torch.tensor([1.0, -1.0, 0.0, float("inf")])
    for operation in (torch.div, torch.floor_divide, torch.remainder, torch.fmod):
        mine = operation(host.to("spyre"), 0.0).cpu()
        torch.testing.assert_close(mine, operation(host, 0.0), rtol=0, atol=0, equal_nan=True)


def test_errors_are_those_of_torch():
    torch.spyre.set_fallback_mode("silent")  # some are found on the CPU
    host = torch.ones(3, 4)
    for wrong in (
        lambda x: x + x.t(),
        lambda x: x.int().add_(1.5),
        lambda x: -(x > 0),
        lambda x: (x > 0) - (x > 0),
        lambda x: (x > 0) % (x > 0),
        lambda x: x.bitwise_and(x),
        lambda x: x.int() ** -1,
        lambda x: x.int().div_(2),
        lambda x: torch.add(x, x, out=x.int()),
        lambda x: x.clamp(),
        lambda x: x[:1].expand(3, 4).add_(1),
        lambda x: x[:1].expand(3, 4).copy_(torch.ones(3, 4)),
        lambda x: x[:1].expand(3, 4).copy_(x),
        lambda x: x[:1].expand(3, 4).addmm_(x[:, :3], x),
        lambda x: x[:1].expand(3, 4).index_add_(0, x[0, :1].long(), x[:1]),
        lambda x: x[:1].expand(3, 4).scatter_(0, x.long(), 1.0),
    ):
        with pytest.raises((RuntimeError, ValueError)) as theirs:
            wrong(host)
        with pytest.raises(type(theirs.value)) as mine:
            wrong(host.to("spyre"))
        # torch's own words; where neither card nor CPU has a kernel, with the way out around them
        assert str(theirs.value).splitlines()[0] in str(mine.value).splitlines()[0]


FALLS_BACK = {  # what is left to the CPU, and why
    "rank 7": (lambda x: x.view(3, 1, 1, 1, 1, 1, 4) + 1, "an op has at most six dims"),
    "logit with eps": (lambda x: torch.logit(x / 12, eps=0.1), "only without eps is it a row"),
    "polygamma": (lambda x: torch.polygamma(1, x + 1), "no row"),
}


@pytest.mark.parametrize("name", FALLS_BACK)
def test_what_falls_back_is_known_and_right(name):
    host = torch.arange(12.0).view(3, 4)
    call, _ = FALLS_BACK[name]
    with pytest.raises(NotImplementedError, match="no kernel on spyre"):
        call(host.to("spyre"))
    torch.spyre.set_fallback_mode("silent")
    torch.testing.assert_close(call(host.to("spyre")).cpu(), call(host))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_number_beyond_the_range_of_floats_is_infinite(dtype):
    x = torch.tensor([1.0, -2.0, 0.0], dtype=dtype)
    for number in (1e300, -1e300, torch.tensor(1e300, dtype=torch.float64)):
        expected = x.float() * number
        torch.testing.assert_close((x.to("spyre").float() * number).cpu(), expected, equal_nan=True)
        assert ((x.to("spyre") < number).cpu() == (x < number)).all()


def test_a_result_lies_as_the_input_of_its_shape_does():
    """In the order of that input's sticks no operand is turned on its way into the next operator."""
    layout = torch.spyre.SpyreTensorLayout([96, 200], [200, 1], torch.float16, [1, 0])
    x = torch.randn(96, 200, dtype=torch.float16).to("spyre", device_layout=layout)
    assert torch.relu(x).device_tensor_layout() == layout
    assert (x + x).device_tensor_layout() == layout
