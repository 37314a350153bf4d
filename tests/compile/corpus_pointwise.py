"""Pointwise graphs: broadcasting, mixed dtypes, masks, numbers beside tensors, creations."""

import math

import torch
import torch.nn.functional as F
from graphs import bfloat, graph, half, int32, int64, on_host, single, truth


def activations(x):
    return F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.softplus(x), F.elu(x), F.hardswish(x), F.mish(x)


def functions(x):
    return torch.exp(x), torch.sin(x), torch.cos(x), torch.tanh(x), torch.erf(x), torch.sigmoid(x), torch.atan(x)


def of_positive(x):
    return torch.log(x), torch.sqrt(x), torch.rsqrt(x), torch.reciprocal(x), torch.log1p(x), torch.log2(x), x**0.3


def comparisons(x, y):
    return x < y, x <= y, x > y, x >= y, x == y, x != y, torch.maximum(x, y), torch.minimum(x, y)


def logic(x, y):
    return x & y, x | y, x ^ y, ~x, torch.logical_and(x, ~y)


def whole_numbers(x, y):
    return x + y, x - 2 * y, x * y, x // 3, x % 4, -x, x.abs(), x.clamp(-3, 3), x & y, x | 1, x ^ y


def conversions(x):
    return x.float(), x.to(torch.bfloat16), x.to(torch.int32), x.to(torch.int64), x.bool(), x.to(torch.int8)


def ladder(x):
    for step in range(12):
        x = torch.tanh(x * 1.5 + 0.1 * step)
    return x


def rope_angles(x):
    positions = torch.arange(x.shape[0], device=x.device, dtype=torch.float32)
    inverse = 1.0 / 100.0 ** (torch.arange(0, 16, 2, device=x.device, dtype=torch.float32) / 16)
    angles = positions[:, None] * inverse
    return x * torch.cat([angles.cos(), angles.sin()], -1)


def made_here(x):
    ones, zeros = torch.ones(4, 33, device=x.device), torch.zeros(33, device=x.device)
    return x + ones + zeros + torch.full((4, 1), 0.5, device=x.device) + torch.empty_like(x).fill_(2.0)


def ranges(x):
    a = torch.arange(33, device=x.device)
    return x * torch.arange(0.0, 33.0, device=x.device), a + 1, torch.arange(3, 30, 4, device=x.device), a.float() / 2


def composed_by_torch(x):
    """What torch composes of other operators: in eager it would round each of them to 16 bits, in a graph it does not."""
    grid = F.affine_grid(x[:, :6].view(-1, 2, 3), (x.shape[0], 1, 3, 4), align_corners=False)
    window = torch.hann_window(x.shape[1], dtype=x.dtype, device=x.device)
    losses = F.soft_margin_loss(x, x.sign()), F.soft_margin_loss(x, x.sign(), reduction="none")
    return *losses, grid, window, x.deg2rad(), x.rad2deg(), F.celu(x, 1.3), torch.addr(x, x[:, 0], x[0], beta=0.5)


GRAPHS = (
    graph("composed_by_torch", composed_by_torch, half(5, 70)),
    graph("composed_by_torch_in_fp32", composed_by_torch, single(5, 70)),
    graph("sigmoid_times_row", lambda x, y: torch.sigmoid(x) * y + x.exp(), half(4, 33), half(33)),
    graph("activations", activations, half(5, 70)),
    graph("activations_in_fp32", activations, single(5, 37)),
    graph("functions", functions, half(3, 65)),
    graph("functions_in_fp32", functions, single(3, 33)),
    graph("functions_of_positive_numbers", of_positive, half(3, 65, low=0.25, high=4.0)),
    graph("functions_of_positive_numbers_in_fp32", of_positive, single(3, 65, low=0.25, high=4.0)),
    graph("bfloat16_mix", lambda x, y: (x * y + 1).relu() - y, bfloat(4, 33), bfloat(4, 33)),
    graph("comparisons", comparisons, half(4, 40), half(4, 40)),
    graph("comparisons_of_integers", comparisons, int32(4, 40), int32(4, 40)),
    graph("logic", logic, truth(4, 33), truth(4, 33)),
    graph("integers", whole_numbers, int32(5, 40), int32(40)),
    graph("integers_of_64_bits", whole_numbers, int64(5, 40), int64(5, 1)),
    graph("conversions", conversions, half(4, 33)),
    graph("conversions_from_fp32", conversions, single(4, 33)),
    graph("fp16_and_fp32", lambda x, y: x * y + x.float(), half(4, 33), single(4, 33), rounds_to_16_bits=True),
    graph("fp16_and_integers", lambda x, n: x * n + n.to(x.dtype) / 2, half(4, 33), int32(4, 33)),
    graph("bool_and_numbers", lambda x, m: x * m + m + (x > 0), half(4, 33), truth(33)),
    graph("sum_of_truths", lambda m: m + m, truth(4, 33)),
    graph("broadcast_from_all_sides", lambda x, y, z: x * y + z, half(4, 1, 33), half(5, 1), half(33)),
    graph("broadcast_of_one", lambda x, y: x + y, half(4, 33), half(1, 1)),
    graph("size_one_dims", lambda x, y: (x + y).exp() * x, half(1, 4, 1, 33, 1), half(1, 33, 1)),
    graph("zero_dim_operand", lambda x, y: x * y + y, half(4, 33), half()),
    graph("zero_dims_only", lambda x, y: (x * y).exp() - 1, single(), single()),
    graph("number_on_the_host", lambda x, y: x * y + 1, half(4, 33), on_host(single())),
    graph("python_numbers", lambda x: (2 * x - 0.1) / 3 + x**2 - x**3 + 2.0**x, half(4, 33)),
    graph("numbers_of_integers", lambda x: x * 3 - 1 + x // 2, int64(4, 33)),
    graph("integer_divided", lambda x, y: x / y + x / 3, int32(4, 33, low=1), int32(4, 33, low=1)),
    graph("where_and_masked_fill", lambda x: torch.where(x > 0, x, -x).masked_fill(x > 1, 0.0), half(4, 33)),
    graph("where_of_numbers", lambda x, m: torch.where(m, x, 0.0) + torch.where(m, 1.0, x), half(4, 33), truth(33)),
    graph("mask_with_infinity", lambda x, m: x.masked_fill(m, float("-inf")).softmax(-1), half(4, 40), truth(4, 40)),
    graph("clamp_round_power", lambda x: x.clamp(-1, 1).pow(3) + x.round() + x.floor() + x.ceil() + x.trunc(), half(8, 16)),
    graph("clamp_by_tensors", lambda x, lo: x.clamp(lo, lo + 1), half(8, 16), half(16)),
    graph("lerp_and_addcmul", lambda x, y, z: torch.lerp(x, y, 0.3) + torch.addcmul(x, y, z, value=2.0) - torch.addcdiv(x, y, z.exp()),
          half(8, 16), half(8, 16), half(8, 16)),
    graph("alpha", lambda x, y: torch.add(x, y, alpha=3) + torch.sub(x, y, alpha=0.5) + torch.rsub(x, 2), half(8, 16), half(8, 16)),
    graph("long_chain", ladder, single(3, 70)),
    graph("shared_subexpression", lambda x: (x.exp() + 1) * (x.exp() - 1) + x.exp(), half(4, 33)),
    graph("unaligned_large", lambda x, y: x * y + 1, half(129, 257), half(257)),
    graph("rope_angles", rope_angles, single(9, 16)),
    graph("creations", made_here, single(4, 33)),
    graph("creations_only", lambda x: torch.ones_like(x) * 3 + torch.full_like(x, 0.5), half(4, 33)),
    graph("ranges", ranges, single(4, 33)),
    graph("linspace_and_eye", lambda x: torch.linspace(0, 1, 16, device=x.device) * x + torch.eye(8, 16, device=x.device), single(8, 16)),
    graph("triangles", lambda x: torch.tril(x) + torch.ones_like(x).triu(1) - x.triu(-2), half(8, 16)),
    graph("empty_operand", lambda x: (x * 2 + 1).exp(), half(0, 33), bundles=0),
    graph("empty_and_not", lambda x, y: (x * 2, y + 1, torch.cat([x, y])), half(0, 33), half(4, 33)),
    graph("fmod_remainder", lambda x, y: torch.fmod(x, y) + torch.remainder(x, 0.7), single(4, 33), single(4, 33, low=0.5, high=1.5)),
    graph("atan2_hypot", lambda x, y: torch.atan2(x, y) + torch.sqrt(x * x + y * y), single(4, 33), single(4, 33)),
    graph("nan_to_num", lambda x: torch.nan_to_num(1 / (x - x), nan=1.0, posinf=2.0, neginf=3.0), single(4, 33)),
    graph("is_finite", lambda x: (torch.isnan(x / 0), torch.isinf(x), torch.isfinite(x)), single(4, 33)),
    graph("constant_of_math", lambda x: x * math.pi + math.e, single(4, 33)),
    graph("glu", lambda x: F.glu(x, -1) + F.silu(x[..., :33]) * x[..., 33:], half(4, 66)),
)  # fmt: skip
