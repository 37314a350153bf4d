"""How often eager calls compile (D7): loops over a tensor, caches that grow, numbers that change, a cache that stays bounded."""

import pytest
import torch

from openspyre.card import _card
from torch_spyre import _torch
from torch_spyre.ops import eager

_NUMBERS = ("number", "Optional[number]", "float", "Optional[float]")
_WHOLE = ("bitwise", "__lshift__", "__rshift__")  # operators of integers
_EXCEPTIONS = {  # overload: why each value is a case of its own
    "linalg_vector_norm": "the order is the operation: 0, 1, 2, inf and -inf are rows",
    "var.correction": "0 and 1 are rows", "std.correction": "0 and 1 are rows",
    "var_mean.correction": "0 and 1 are rows", "std_mean.correction": "0 and 1 are rows",
    "arange.start": "the numbers decide the result's size",
    "native_layer_norm": "eps is part of the row's expression; a model has one or two",
    "_fused_rms_norm": "eps is part of the row's expression; a model has one or two",
    "_scaled_dot_product_fused_attention_overrideable": "the scale is part of the row's expression; a model has one or two",
    "logit": "only without eps is it a row",
}  # fmt: skip


def _base(name):
    """An overload's name without what marks its in-place and out= forms."""
    for form in (".grad_input", "_out", ".out", "_"):
        name = name.removesuffix(form)
    return name


def _with_numbers(drawn):
    torch.empty(0, device="spyre")
    for name, (binding, lowering) in sorted(eager._bindings.items()):
        numbers = [str(argument.type) in _NUMBERS for argument in binding.overload._schema.arguments]
        is_drawn = torch.Tag.nondeterministic_seeded in binding.overload.tags
        if lowering.eager and any(numbers) and _base(name) not in _EXCEPTIONS and is_drawn == drawn:
            yield name


def _tensor(name, argument, whole):
    if argument in ("mask", "condition"):
        return torch.arange(12).reshape(3, 4) % 2 == 0
    if argument == "index":
        return torch.tensor([0, 2, 1]) if name.startswith("index") else torch.tensor([[0, 2, 1, 0]])
    base = torch.arange(1, 13, dtype=torch.int32).reshape(3, 4)
    if argument in ("mat2", "batch2", "vec"):
        base = base.T[:, 0] if argument == "vec" else base.T
    if name.startswith("addmv") and argument == "self":
        base = base[:, 0]
    if name.startswith(("addmm", "baddbmm")) and argument == "self":
        base = base[:, :3]
    if name.startswith("baddbmm"):
        base = base[None]
    return base if whole else base * 0.125


_OTHERS = {"dim": 0, "diagonal": 1, "steps": 9, "approximate": "none", "rounding_mode": "floor", "is_result": False,
           "self_is_result": False, "generator": None, "train": True}  # fmt: skip


def _is_out(argument):
    return argument.alias_info is not None and argument.kwarg_only


def _arguments(name, binding, number):
    """Positional and keyword arguments on the host, every number set to `number`."""
    whole = name.startswith(_WHOLE)
    given = []
    for argument in binding.overload._schema.arguments:
        if _is_out(argument):
            given.append((argument, None))
        elif "Tensor" in str(argument.type):
            given.append((argument, _tensor(name, argument.name, whole)))
        elif str(argument.type) in _NUMBERS:
            given.append((argument, number if whole else number + 0.5))
        else:
            given.append((argument, _OTHERS[argument.name]))
    return given


def _call(overload, given, device, out):
    """`out` goes where the overload writes a result, if it takes one."""
    values = [(a, out if _is_out(a) else v.clone().to(device) if isinstance(v, torch.Tensor) else v) for a, v in given]
    return overload(*(v for a, v in values if not a.kwarg_only), **{a.name: v for a, v in values if a.kwarg_only})


@pytest.mark.parametrize("name", list(_with_numbers(drawn=True)))
def test_a_number_is_no_part_of_the_key_of_a_draw(name):
    binding, _ = eager._bindings[name]
    compilations = []
    for number in (-0.25, -0.125, 0):  # a half is added: all are probabilities
        before = eager.counts()["compilations"]
        _call(binding.overload, _arguments(name, binding, number), "spyre", torch.empty(0, device="spyre"))
        compilations.append(eager.counts()["compilations"] - before)
    assert compilations[1:] == [0, 0]


@pytest.mark.parametrize("name", list(_with_numbers(drawn=False)))
def test_a_number_is_no_part_of_the_key(name):
    binding, _ = eager._bindings[name]
    dtype = torch.int32 if name.startswith(_WHOLE) else torch.float32
    compilations = []
    for number in (3, 4, 5):
        given = _arguments(name, binding, number)
        expected = _call(binding.overload, given, "cpu", torch.empty(0, dtype=dtype))
        before = eager.counts()["compilations"]
        found = _call(binding.overload, given, "spyre", torch.empty_like(expected, device="spyre"))
        compilations.append(eager.counts()["compilations"] - before)
        torch.testing.assert_close(found.cpu(), expected)
    assert compilations[1:] == [0, 0]


def test_the_exceptions_exist():
    bases = {_base(name) for name in eager._bindings}
    assert set(_EXCEPTIONS) <= bases


@pytest.mark.parametrize("alpha", [1, -1, 2.5])
def test_values_with_a_program_of_their_own_are_told_apart(alpha):
    x, y = torch.ones(3, 70), torch.full((3, 70), 2.0)
    for value in (3.0, alpha, 3.0):
        assert torch.equal(torch.add(x.to("spyre"), y.to("spyre"), alpha=value).cpu(), torch.add(x, y, alpha=value))


def test_negative_powers_of_integers_are_refused_as_torch_refuses_them():
    x = torch.arange(1, 5).to("spyre")
    assert x.pow(3).tolist() == [1, 8, 27, 64]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="negative integer powers"):
            x.pow(-3)


def _compilations(step, times=12):
    step(0)
    before = eager.counts()["compilations"]
    for t in range(1, times):
        step(t)
    return eager.counts()["compilations"] - before


def test_a_loop_over_a_tensor_compiles_once():
    host = torch.randn(12, 5, 70).half()
    card = host.to("spyre")
    rows = []
    assert _compilations(lambda i: rows.append((card[i] + 1).cpu())) == 0
    expected = host.to(torch.float32) + 1
    torch.testing.assert_close(torch.stack(rows).float(), expected, rtol=2**-9, atol=2**-9)


def test_writing_into_a_cache_step_by_step_compiles_once():
    steps = torch.randn(12, 2, 8, 64).half()
    cache, host = torch.zeros(2, 12, 8, 64).half().to("spyre"), torch.zeros(2, 12, 8, 64).half()

    def write(t):
        cache[:, t] = steps[t].to("spyre")
        host[:, t] = steps[t].to("spyre").cpu()

    assert _compilations(write) == 0
    assert torch.equal(cache.cpu(), host)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_a_cache_that_grows_by_cat_compiles_nothing(dim):
    step = torch.arange(2 * 3 * 70).reshape(2, 3, 70).to(torch.int32)
    card, host = step.to("spyre"), step
    before = eager.counts()["compilations"]
    for t in range(12):
        host = torch.cat([host, step + t], dim)
        card = torch.cat([card, (step + t).to("spyre")], dim)
    assert eager.counts()["compilations"] == before
    assert torch.equal(card.cpu(), host)


@pytest.mark.parametrize(
    "piece",
    [
        lambda x, t: x[:, : t + 1].clone(),
        lambda x, t: x[:, : t + 1].transpose(1, 2).contiguous(),
        lambda x, t: x[:, : t + 1].float(),
        lambda x, t: torch.stack([x[0]] * (t + 1)),
        lambda x, t: x.roll(t, 1),
        lambda x, t: torch.arange(t, t + 3, device=x.device),
        lambda x, t: x[0].tril(t - 3),
    ],
    ids=["clone", "contiguous", "convert", "stack", "roll", "arange", "tril"],
)
def test_copies_of_growing_pieces_compile_at_most_once(piece):
    host = torch.arange(2 * 12 * 70).reshape(2, 12, 70).to(torch.int32)
    card = host.to("spyre")
    piece(card, 11)
    before = eager.counts()["compilations"]
    for t in range(12):
        assert torch.equal(piece(card, t).cpu(), piece(host, t))
    assert eager.counts()["compilations"] == before


def test_plans_that_were_not_used_for_longest_are_forgotten():
    x = torch.ones(3, 70).to("spyre")
    _torch.clear_eager_cache()
    _torch.limit_eager_plans(8)
    try:
        for size in range(1, 40):
            torch.neg(x)
            torch.neg(x[:, :size])
        before = eager.counts()
        torch.neg(x)
        assert eager.counts()["compilations"] == before["compilations"]
        assert before["programs"] <= 8
        assert torch.equal(torch.neg(x[:, :1]).cpu(), -torch.ones(3, 1))
    finally:
        _torch.limit_eager_plans(4096)


def test_a_program_concatenates_as_the_copies_do():
    """Graphs compile what an eager call copies without a program."""
    host = torch.arange(3 * 70).reshape(3, 70).to(torch.int32)
    card = host.to("spyre")
    calls = [
        ([[card, card[1:]], 0], torch.cat([host, host[1:]])),
        ([[card.t(), card.t()[:5]], 0], torch.cat([host.t(), host.t()[:5]])),
        ([[card, card[:, 3:]], 1], torch.cat([host, host[:, 3:]], 1)),
    ]
    for values, expected in calls:
        plan = eager.compile_call("aten::cat", values)
        out = torch.empty_strided(plan.results[0].size, plan.results[0].stride, dtype=torch.int32, device="spyre")
        given = eager.Call(eager._bindings["cat"][0], values).tensors
        tensors = [out if symbol < 0 else given[symbol] for symbol in plan.symbols]
        if plan.pool_bytes:
            tensors.append(torch.empty(plan.pool_bytes // 2, dtype=torch.float16, device="spyre"))
        torch.spyre.synchronize()
        _card.run_program(plan.program, 0, 0, [_torch.buffer_of(tensor)["address"] for tensor in tensors], [])
        assert torch.equal(out.cpu(), expected)


_MULTIPLIER, _MASK = 0xC6A4A7935BD1E995, (1 << 64) - 1


def _mixed(word, back=False):
    """A block of MurmurHash64A, which libstdc++ hashes texts with; its steps can be undone."""
    factor = pow(_MULTIPLIER, -1, 1 << 64) if back else _MULTIPLIER
    word = word * factor & _MASK
    return (word ^ word >> 47) * factor & _MASK


def _text_with_the_hash_of(text):
    """Another text of printable characters with the same std::hash: the second of its two blocks is solved for."""
    start = lambda length: 0xC70F6907 ^ length * _MULTIPLIER & _MASK  # noqa: E731
    wanted = start(len(text)) ^ int.from_bytes(text.encode(), "little")
    for number in range(1 << 20):
        first = f"{number:08x}".encode()
        state = (start(16) ^ _mixed(int.from_bytes(first, "little"))) * _MULTIPLIER & _MASK
        second = _mixed(state ^ wanted, back=True).to_bytes(8, "little")
        if second.isascii() and second.decode().isprintable():
            return (first + second).decode()
    raise AssertionError("no such text")


def test_texts_that_hash_alike_share_no_plan():
    """Arguments that are texts are in the key with all their characters."""
    x = torch.randn(4, 33).to("spyre")
    torch.nn.functional.gelu(x, approximate="tanh")
    other = _text_with_the_hash_of("tanh")
    with pytest.raises(RuntimeError, match="approximate"):
        torch.nn.functional.gelu(x, approximate=other)
