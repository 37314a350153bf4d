"""Operands for the operator tests: drawn from the row's own samples, with every combination of special values in front."""

import torch

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_INFINITE = [float("inf"), float("-inf"), float("nan")]
_SPECIAL = {
    torch.float16: [0.0, -0.0, 1.0, -1.0, 2.5, *_INFINITE, 65504.0, -6e-8, 0.3],
    torch.bfloat16: [0.0, -0.0, 1.0, -1.0, 2.5, *_INFINITE, 3e38, -1e-12, 1e9],
    torch.float32: [0.0, -0.0, 1.0, -1.0, 2.5, *_INFINITE, 3e38, -1e-40, 0.3],
    torch.uint8: [0, 1, 2, 255, 128, 127],
    torch.int8: [0, 1, -1, 127, -128],
    torch.int16: [0, 1, -1, 32767, -32768, 300],
    torch.int32: [0, 1, -1, 2**31 - 1, -(2**31), 2**24 + 1, 46341],
    torch.int64: [0, 1, -1, 2, 30000, -30000],  # sums and products stay within the card's int32 (N8)
    torch.bool: [True, False],
}


def draw(samples, dtype, shape, place=0, special=False, seed=0):
    """Operand number `place` of a call."""
    generator = torch.Generator().manual_seed(1000 * seed + place)
    if dtype is torch.bool:
        values = torch.rand(shape, generator=generator) > 0.5
    elif dtype.is_floating_point:
        values = samples.low + (samples.high - samples.low) * torch.rand(shape, generator=generator)
        if samples.nonzero:
            values = torch.where(values.abs() < 0.1, 0.7, values)
    else:
        low = 0 if dtype is torch.uint8 else -9
        values = torch.randint(low, 10, shape, generator=generator)
        if samples.nonzero:
            values = torch.where(values == 0, 3, values)
    if special and values.numel():
        _put_specials(values.view(-1), dtype, place, skip_zero=samples.nonzero and not dtype.is_floating_point)
    return values.to(dtype)


def _put_specials(flat, dtype, place, skip_zero):
    """Element i holds special number (i // n^place) % n: with n^operands elements, all combinations meet."""
    special = [value for value in _SPECIAL[dtype] if value or not skip_zero]
    count = len(special)
    reach = min(len(flat), count ** (place + 1) if place else count * count * count)
    index = torch.arange(reach) // count**place % count
    flat[:reach] = torch.tensor(special, dtype=torch.float64 if dtype.is_floating_point else torch.int64)[index].to(
        flat.dtype
    )
