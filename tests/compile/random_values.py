"""Steps of random graphs that compute a new value."""

import torch
import torch.nn.functional as F
from random_picks import dim_of, pick, places, small


def broadcastable(x, y):
    return all(1 in pair or len(set(pair)) == 1 for pair in zip(reversed(x.shape), reversed(y.shape), strict=False))


def _pointwise(values, a, b, c, d):
    x, y = pick(values, a), pick(values, b)
    operator = (torch.add, torch.mul, torch.maximum, torch.sub)[c % 4]
    if x.dtype is torch.bool or y.dtype is torch.bool:
        operator = torch.mul if c % 2 else torch.add
    return small(operator(x, y)) if broadcastable(x, y) else None


def _where(values, a, b, c, d):
    x, y, mask = pick(values, a), pick(values, b), pick(values, c)
    if not (broadcastable(x, y) and broadcastable(x, mask) and broadcastable(y, mask)):
        return None
    return x.masked_fill(mask == 0, d % 3) if d % 2 and mask.dim() <= x.dim() == (x + mask).dim() else torch.where(
        mask > 0, x, y
    )  # fmt: skip


def _unary(values, a, b, c, d):
    x = pick(values, a)
    if x.dtype is torch.bool:
        return ~x
    return (small(x * 2 + 1), -x, x.abs(), torch.relu(x), x > 0, torch.where(x > 0, x, 1 - x), x.clone())[b % 7]


def _cast(values, a, b, c, d):
    dtypes = (torch.float32, torch.float16, torch.int32, torch.bool, torch.int64, torch.bfloat16)
    return pick(values, a).to(dtypes[b % len(dtypes)])


def _reduce(values, a, b, c, d):
    x = pick(values, a)
    if x.numel() == 0 and x.dtype is not torch.bool:
        fold = x.prod if d % 2 else x.sum
        return small(fold(b % x.dim()) if c % 2 else fold())
    if x.dtype is torch.bool or x.numel() == 0:
        return x.any() if c % 2 else x.all()
    if x.dim() == 0 or c % 5 == 4:
        return small(x.sum())
    dim, kept = b % x.dim(), bool(d % 2)
    return (small(x.sum(dim, keepdim=kept)), x.amax(dim, keepdim=kept), x.argmax(dim, keepdim=kept).int())[c % 3] * 1


def _extreme(values, a, b, c, d):
    """Values and places of the largest or smallest, the first of equal ones."""
    x = pick(values, a)
    dim = dim_of(x, b)
    if dim is None or x.dtype is torch.bool or x.numel() == 0:
        return None
    found = (x.max if c % 2 else x.min)(dim, keepdim=bool(d % 2))
    return found.indices if d % 4 > 1 else found.values


def _several(values, a, b, c, d):
    """Operators with several results, all of them kept. Of equal elements only a stable sort tells which comes first."""
    x = pick(values, a)
    dim = dim_of(x, b)
    if dim is None or x.dtype is torch.bool or x.numel() == 0:
        return None
    count = 1 + d % x.shape[dim]
    return (
        lambda: torch.sort(x, dim=dim, descending=bool(d % 2), stable=True),
        lambda: torch.topk(x, count, dim).values,
        lambda: torch.max(x, dim, keepdim=bool(d % 2)),
        lambda: torch.min(x, dim, keepdim=bool(d % 2)),
        lambda: torch.aminmax(x, dim=dim, keepdim=bool(d % 2)),
        lambda: x.split(count, dim)[:4],
        lambda: x.unbind(dim)[:3],
        lambda: (x.clone(), x.sum(dim).clamp(-4, 4), x.clone()),
    )[c % 8]()


def _copy(values, a, b, c, d):
    """The same elements in memory of their own."""
    x = pick(values, a)
    turned = x.transpose(c % x.dim(), d % x.dim()) if x.dim() else x
    return (x.clone(), turned.contiguous(), turned.clone(), x.to(x.dtype, copy=True))[b % 4]


def _centred(values, a, b, c, d):
    """What a row's elements are to the row: a reduction, and a map of it over the same row."""
    x = pick(values, a)
    if x.dim() == 0 or x.dtype is torch.bool or x.numel() == 0:
        return None
    dim = b % x.dim() if d % 4 == 3 else x.dim() - 1
    fold = (x.sum(dim, keepdim=True).clamp(-4, 4), x.amax(dim, keepdim=True), x.amin(dim, keepdim=True))[c % 3]
    return (x - fold, x * fold, torch.maximum(x, fold), (x == fold).to(x.dtype))[(c + d) % 4].clamp(-4, 4)


def _reduce_several(values, a, b, c, d):
    x = pick(values, a)
    dims = [dim for dim in range(x.dim()) if (b + 1) >> dim & 1]
    if not dims or x.dtype is torch.bool or x.numel() == 0:
        return None
    return small(x.sum(dims, keepdim=bool(c % 2))) if d % 2 else x.amax(dims, keepdim=bool(c % 2))


def _scan(values, a, b, c, d):
    x = pick(values, a)
    dim = dim_of(x, b)
    return small(x.cumsum(dim)) if dim is not None and x.dtype is not torch.bool else None


def _product(values, a, b, c, d):
    x, y = pick(values, a), pick(values, b)
    if x.dim() < 2 or x.dtype != y.dtype or x.dtype not in (torch.float32, torch.float16):
        return None  # not every CPU multiplies bfloat16
    if y.dim() < 2 or y.shape[-2] != x.shape[-1] or x.shape[:-2] != y.shape[:-2]:
        y = x.mT
    return small(x @ y) if x.numel() and y.numel() else None


def _cat(values, a, b, c, d):
    """A value with itself turned round, or behind another that differs along one dim at most."""
    x, y = pick(values, a), pick(values, c)
    if x.dim() == 0:
        return None
    dim = b % x.dim()
    fits = x.dim() == y.dim() and all(x.shape[i] == y.shape[i] for i in range(x.dim()) if i != dim)
    return torch.cat([y, x, y], dim) if fits and d % 2 else torch.cat([x, x.flip(dim)], dim)


def _stack(values, a, b, c, d):
    x, y = pick(values, a), pick(values, b)
    others = [y] if x.shape == y.shape else []
    return torch.stack([x, *others, x], c % (x.dim() + 1)) if x.dim() < 6 else None


def _pad(values, a, b, c, d):
    x = pick(values, a)
    return F.pad(x, (b % 3, c % 3), value=d % 2) if x.dim() and x.dtype is not torch.bool else None


def _triangle(values, a, b, c, d):
    x = pick(values, a)
    return (x.tril if b % 2 else x.triu)(c % 5 - 2) if x.dim() > 1 else None


def _repeat(values, a, b, c, d):
    x = pick(values, a)
    dim = dim_of(x, b)
    if dim is None:
        return None
    return (
        x.repeat_interleave(1 + c % 3, dim)
        if d % 2
        else x.repeat([1 + c % 3 if i == dim else 1 for i in range(x.dim())])
    )


def _index(values, a, b, c, d):
    x = pick(values, a)
    dim = dim_of(x, d)
    if dim is None:
        return None
    rows = places(x, dim, 1 + (b + c) % 5, b, c)
    return x[(slice(None),) * dim + (rows,)] if d % 2 else x.index_select(dim, rows)


def _index_twice(values, a, b, c, d):
    """Two index tensors that are broadcast together, side by side or apart."""
    x = pick(values, a)
    if x.dim() < 2 or x.numel() == 0:
        return None
    first, last = d % (x.dim() - 1), x.dim() - 1
    rows, columns = places(x, first, 3, b, c), places(x, last, 2, c, b)
    return x[
        (slice(None),) * first + (rows[:, None],) + (slice(None),) * (last - first - 1) + (columns - x.shape[last],)
    ]


def _gather(values, a, b, c, d):
    """An index of its own for every element, perhaps one that is stretched."""
    x = pick(values, a)
    dim = dim_of(x, b)
    if dim is None or x.numel() == 0:
        return None
    index = places(x, dim, 1 + c % 4, c, d).view([-1 if i == dim else 1 for i in range(x.dim())])
    index = index.expand([index.shape[dim] if i == dim else extent for i, extent in enumerate(x.shape)])
    return x.gather(dim, index if d % 2 else index.contiguous())


VALUES = {
    "cast": _cast,
    "cat": _cat,
    "centred": _centred,
    "copy": _copy,
    "extreme": _extreme,
    "gather": _gather,
    "index": _index,
    "index_twice": _index_twice,
    "pad": _pad,
    "pointwise": _pointwise,
    "product": _product,
    "reduce": _reduce,
    "reduce_several": _reduce_several,
    "repeat": _repeat,
    "scan": _scan,
    "several": _several,
    "stack": _stack,
    "triangle": _triangle,
    "unary": _unary,
    "where": _where,
}
