"""Steps of random graphs on real values: row operators, their copies, casts and views, and layers made of them.

Errors must not grow on the way: eps keeps norms from dividing by noise, and no step jumps.
"""

import torch
import torch.nn.functional as F
from random_picks import pick
from random_values import broadcastable
from random_writes import overlaps

_EPS = 0.25


def _operand(values, a, b):
    """A real value, or a whole one as a real."""
    if values.reals and a % 3:
        return pick(values.reals, a // 3)
    x = pick(values, a)
    return x.to(torch.float16 if b % 2 else torch.float32) * (1.0 if x.dtype is torch.bool else 0.5)


def _row(values, a, b, c, d):
    """Mostly along the last dim, where the lanes are."""
    x = _operand(values, a, b)
    if x.dim() == 0 or x.numel() == 0:
        return None
    dim = b % x.dim() if c % 4 == 3 else x.dim() - 1
    return (
        lambda: x.softmax(dim),
        lambda: x.log_softmax(dim),
        lambda: F.layer_norm(x, x.shape[-1:], eps=_EPS),
        lambda: F.rms_norm(x, x.shape[-1:], eps=_EPS),
        lambda: x - x.mean(dim, keepdim=True),
        lambda: x - x.amax(dim, keepdim=True),
        lambda: x / (1 + x.abs().sum(dim, keepdim=True)),
        lambda: torch.var_mean(x, dim, correction=0, keepdim=bool(d % 2)),
        lambda: x.logsumexp(dim, keepdim=bool(d % 2)),
    )[(c + d) % 9]()


def _copy(values, a, b, c, d):
    return _copied(_operand(values, a, b), b, c, d)


def _row_and_copy(values, a, b, c, d):
    """A row, and what is made of it, side by side."""
    made = _row(values, a, b, c, d)
    return (made, _copied(made, d, b, a)) if isinstance(made, torch.Tensor) else made


def _copied(x, b, c, d):
    """The same elements in memory of their own, perhaps in another order or format."""
    turned = x.transpose(c % x.dim(), d % x.dim()) if x.dim() else x
    other = torch.float32 if x.dtype is torch.float16 else torch.float16
    return (x.clone(), turned.contiguous(), x.to(other), x.clone(), turned.clone(), x.to(other).to(x.dtype))[b % 6]


def _view(values, a, b, c, d):
    x = _operand(values, a, 0)
    if x.dim() == 0 or x.numel() == 0:
        return x.reshape(1) if x.dim() == 0 else None
    dim = b % x.dim()
    return (
        lambda: x.transpose(dim, c % x.dim()),
        lambda: x.flatten(),
        lambda: x.narrow(dim, 0, 1 + c % x.shape[dim]),
        lambda: x.select(dim, c % x.shape[dim]),
        lambda: x.unsqueeze(dim),
        lambda: x.chunk(1 + c % 3, dim),
        lambda: x.unbind(dim)[:3],
        lambda: x.view_as(x),
    )[d % 8]()


def _pointwise(values, a, b, c, d):
    x, y = _operand(values, a, d), _operand(values, b, d)
    if d % 2 or not broadcastable(x, y):
        return (torch.sigmoid, torch.tanh, F.gelu, torch.neg, F.silu, torch.relu)[c % 6](x)
    return (x + y, x - y, x * torch.tanh(y), torch.maximum(x, y))[c % 4]


def _total(values, a, b, c, d):
    x = _operand(values, a, b)
    if x.numel() == 0:
        return None
    return x.mean() if x.dim() == 0 or c % 3 == 0 else x.mean(b % x.dim(), keepdim=bool(d % 2))


def _write(values, a, b, c, d):
    """In place, into what may be returned as well, or be a view of it."""
    if not values.reals:
        return
    x, y = pick(values.reals, a), pick(values.reals, b)
    if overlaps(x) or x.numel() == 0:
        return
    part = x.narrow(c % x.dim(), 0, (x.shape[c % x.dim()] + 1) // 2) if x.dim() and d % 2 else x
    if y.shape == part.shape and b % 2:
        part.copy_(y.clone())
    else:
        (part.mul_(0.5), part.add_(1), part.fill_(0.25))[c % 3]
    return


def _weight(rows, columns, x):
    """Small numbers of both signs, the same wherever they are made."""
    count = torch.arange(rows * columns, device=x.device).view(rows, columns)
    return ((count * 5 % 7) - 3).to(x.dtype) / (4.0 * rows)


def _layer(values, a, b, c, d):
    """A residual block, normalised before or after, perhaps two of them."""
    x = _operand(values, a, b)
    if x.dim() < 2 or x.numel() == 0:
        return None
    width = x.shape[-1]
    inner = (16, 64, 96)[c % 3]
    for _ in range(1 + d % 2):
        h = F.layer_norm(x, (width,), eps=_EPS) if b % 2 else x
        x = x + F.gelu(h @ _weight(width, inner, x)) @ _weight(inner, width, x)
        x = x if b % 2 else F.layer_norm(x, (width,), eps=_EPS)
    return x


def _attention(values, a, b, c, d):
    x = _operand(values, a, b)
    if not 2 <= x.dim() <= 4 or x.numel() == 0:
        return None
    if d % 2:  # how its result lies is each device's own matter
        return F.scaled_dot_product_attention(x, x, x, is_causal=bool(c % 2)).contiguous()
    weights = (x @ x.mT * (0.5 / x.shape[-1])).softmax(-1)
    return (weights, weights @ x) if c % 2 else weights @ x


REALS = {
    "real_attention": _attention,
    "real_copy": _copy,
    "real_layer": _layer,
    "real_pointwise": _pointwise,
    "real_row": _row,
    "real_row_and_copy": _row_and_copy,
    "real_total": _total,
    "real_view": _view,
    "real_write": _write,
}
