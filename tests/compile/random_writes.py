"""Steps of random graphs that write: in place into a value, an input perhaps, or into places that an index names."""

import torch
from random_picks import dim_of, pick, places


def overlaps(x):
    """torch refuses to write where elements share a place; windows are left out as well."""
    reach = 1
    for stride, extent in sorted((s, n) for s, n in zip(x.stride(), x.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach = stride * extent
    return False


def _write(values, a, b, c, d):
    """A part of a value is written in place, every second row perhaps."""
    x, y = pick(values, a), pick(values, b)
    if overlaps(x):
        return
    part = x
    if x.dim():
        dim = c % x.dim()
        part = (
            x.narrow(dim, 0, (x.shape[dim] + 1) // 2) if b % 2 else x[(slice(None),) * dim + (slice(c % 2, None, 2),)]
        )
    if d % 3 == 0 and part.shape == y.shape:
        part.copy_(y.clone())
    elif d % 3 == 1 and x.dtype is not torch.bool:
        part.mul_(-1).clamp_(-3, 3)
    else:
        part.fill_(1 + d % 3)


def _write_rows(values, a, b, c, d):
    """Rows that an index names, none of them twice, are written in place."""
    x = pick(values, a)
    dim = dim_of(x, b)
    if dim is None or overlaps(x):
        return
    rows = torch.arange(c % x.shape[dim], x.shape[dim], 1 + d % 3, device=x.device)
    source = x.index_select(dim, rows.flip(0))
    if d % 3 == 0:
        x[(slice(None),) * dim + (rows,)] = source
    elif d % 3 == 1:
        x.index_copy_(dim, rows, source)
    else:
        x.index_fill_(dim, rows, 1)


def _put(values, a, b, c, d):
    """A new value in which some rows are others."""
    x = pick(values, a)
    dim = dim_of(x, b)
    if dim is None or x.dtype is torch.bool or x.numel() == 0:
        return None
    rows = places(x, dim, 1 + c % 4, c, d)
    ones = x.narrow(dim, 0, 1).expand([len(rows) if i == dim else extent for i, extent in enumerate(x.shape)])
    if d % 3 == 0:
        return x.index_add(dim, rows, ones).clamp(-4, 4)
    index = rows.view([-1 if i == dim else 1 for i in range(x.dim())]).expand(ones.shape)
    if d % 3 == 1:
        return x.scatter_add(dim, index, ones).clamp(-4, 4)
    return x.scatter(dim, index, 1)


def _masked_write(values, a, b, c, d):
    x = pick(values, a)
    if overlaps(x) or x.dim() == 0:  # Dynamo cannot tell how often a mask without dims is true
        return
    if d % 2:
        x.masked_fill_(x > c % 3, 2)
    else:
        x[x > c % 3] = 1


WRITES = {"masked_write": _masked_write, "put": _put, "write": _write, "write_rows": _write_rows}
