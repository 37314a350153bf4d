"""The outside judge of compiled graphs: torch on the CPU in float64, on the values the card holds.

How near a result must be follows from the formats: the same function is run again with every result of every operator moved
by up to the format's rounding error, at random, and what that does to the results is what rounding may do (Monte Carlo arithmetic).
"""

import torch
from oracle import HALVES, fetch, held
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

ROUNDING = {
    True: 2.0**-10,
    False: 2.0**-23,
}  # half a unit of SEN169's last place; fp32's functions may be two units off
RUNS = 3
_SPREAD = 6.0  # three runs of a random error see its size; the tails are a few times as far
_WIDE = dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64) | {
    torch.complex64: torch.complex128
}
_CASTS = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}


class Widened(TorchFunctionMode):
    """Every floating dtype that a function names is float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in _CASTS:
            func = torch.Tensor.double
        args, kwargs = tree_map(_wide, (args, kwargs or {}))
        return func(*args, **kwargs)


class Noise(TorchDispatchMode):
    """Every operator's floating results move by up to one rounding."""

    def __init__(self, step, seed):
        super().__init__()
        self.step, self.generator = step, torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        returned = func(*args, **(kwargs or {}))
        if not (func.is_view or torch.Tag.inplace_view in func.tags):
            for value in tree_flatten(returned)[0]:
                self.shake(value)
        return returned

    def shake(self, value):
        if isinstance(value, torch.Tensor) and _has_roundings(value) and value.numel() and _own_places(value):
            value.mul_(1 + self.step * (2 * torch.rand(value.shape, generator=self.generator, dtype=value.dtype) - 1))


def _wide(value):
    return _WIDE.get(value, value) if isinstance(value, torch.dtype) else value


def _has_roundings(value):
    if value._is_zerotensor():  # it has no memory
        return False
    return value.is_floating_point() or value.is_complex()


def _own_places(value):
    return all(stride or extent == 1 for extent, stride in zip(value.shape, value.stride(), strict=True))


def tensors(*values):
    return [value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor)]


def exact(function, inputs, step=0.0, seed=0):
    """Results and then inputs, as the function leaves them, in float64."""
    wide = [held(value).clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    noise = Noise(step, seed)
    for value in wide if step else ():
        noise.shake(value)
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Widened():
            if step:
                with noise:
                    return tensors(function(*wide), wide)
            return tensors(function(*wide), wide)
    finally:
        torch.set_default_dtype(default)


def assert_near(results, function, inputs, sixteen_bits):
    """`results` (on the card) are the function's results and then its inputs."""
    wanted = exact(function, inputs)
    runs = [exact(function, inputs, ROUNDING[sixteen_bits], seed) for seed in range(RUNS)]
    assert len(results) == len(wanted)
    for number, (result, right) in enumerate(zip(results, wanted, strict=True)):
        got = fetch(result)
        assert got.shape == right.shape, f"result {number} has shape {tuple(got.shape)}, not {tuple(right.shape)}"
        if not right.is_floating_point():
            assert torch.equal(got.to(right.dtype), right), f"result {number}: {got} is not {right}"
            continue
        moved = torch.stack([(run[number] - right).abs().nan_to_num(0.0) for run in runs])
        typical = moved.square().mean().sqrt() if moved.numel() else 0.0
        allowed = _SPREAD * torch.maximum(moved.amax(0), typical + torch.zeros_like(right))
        unit = ROUNDING[result.dtype in HALVES]
        allowed = allowed + 2 * unit * right.abs() + 1e-9
        same = (got.double() == right) | (got.isnan() & right.isnan())
        wrong = ~(same | ((got.double() - right).abs() <= allowed))
        assert not wrong.any(), _first(number, got, right, allowed, wrong)


def _first(number, got, right, allowed, wrong):
    spot = tuple(wrong.nonzero()[0].tolist())
    return (
        f"result {number} at {list(spot)} of {int(wrong.sum())} wrong: {got[spot].item()!r}, "
        f"exactly {right[spot].item()!r} within {allowed[spot].item():.3g}"
    )


def assert_same_bits(results, others):
    for number, (result, other) in enumerate(zip(results, others, strict=True)):
        mine, theirs = fetch(result), fetch(other)
        if mine.dtype is torch.float32:
            mine, theirs = mine.contiguous().view(torch.int32), theirs.contiguous().view(torch.int32)
        different = mine != theirs
        assert not different.any(), (
            f"result {number}: {int(different.sum())} of {mine.numel()} differ from eager, the first at "
            f"{different.nonzero()[0].tolist()}"
        )


def description(tensor):
    """What torch promises of a result; strides along dims of one element, and of empty tensors, mean nothing."""
    strides = [s if n > 1 else 0 for n, s in zip(tensor.shape, tensor.stride(), strict=True)]
    return tuple(tensor.shape), tensor.dtype, tuple(strides) if tensor.numel() else ()


def assert_described_alike(results, others, where, strides=True):
    for number, (result, other) in enumerate(zip(results, others, strict=True)):
        mine, theirs = description(result), description(other)
        keep = 3 if strides else 2
        assert mine[:keep] == theirs[:keep], f"result {number} is {mine}, {where} {theirs}"


def assert_aliased_alike(results, others):
    """Results that share memory on the CPU share it on the card."""
    assert _groups(results) == _groups(others), "other tensors share memory than in torch"


def _groups(values):
    first = {}
    return [first.setdefault(v.untyped_storage()._cdata, n) if v.numel() else -1 for n, v in enumerate(values)]
