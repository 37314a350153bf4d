"""How a view lies in its buffer while one of the graph's symbols varies: does its padded dim follow the buffer's, and where does it begin."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from torch_spyre.inductor.graph import Extent, Value, evaluate, names_in

_SAMPLES = (997, 1009)  # sizes that no stride of a model is a multiple of
_OTHERS = 8209  # and that of the other symbols


class NotAligned(ValueError):
    """A view along which rows of padding would come between others."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A view's dims as steps along its buffer's (None: it has one element there, or the same one always), and its first element.

    `tail` is the buffer's padded dim if the view begins so many rows (`back`) before the end of it: a place that only a launch knows.
    It lies so where the symbol is `least` or more, and where of each pair in `inside` the first is less than the second: smaller
    sizes have the same place in another block, `x.flatten(0, 1)[40]`.
    """

    steps: tuple[tuple[int, int] | None, ...]
    start: tuple[int, ...]
    tail: int | None = None
    back: int = 0
    least: int = 0
    inside: tuple[tuple[str, str], ...] = ()

    def in_buffer(self, stride: tuple[Extent, ...]) -> tuple[tuple[Extent, ...], Extent]:
        """Strides and offset in a buffer with other strides."""
        own: tuple[Extent, ...] = tuple(0 if step is None else f"({stride[step[0]]})*{step[1]}" for step in self.steps)
        return own, " + ".join(f"({step})*{place}" for place, step in zip(self.start, stride, strict=True)) or 0


def placement(view: Value, whole: Value, symbol: str, symbols: tuple[str, ...]) -> Placement:
    """NotAligned where the padded dim of the view is none of the buffer's. Dims are those of the two in blocks."""
    view, whole = in_blocks(view, symbol), in_blocks(whole, symbol)
    if not all(map(_only_sums_and_products, (*view.stride, view.offset, *whole.stride))):
        raise NotAligned(f"a view of {whole.buffer} begins or steps by a part of {symbol}")
    first, second = (_placed(view, whole, dict.fromkeys(symbols, _OTHERS) | {symbol: n}) for n in _SAMPLES)
    if first[0] != second[0]:
        raise NotAligned(f"a view of {whole.buffer} steps otherwise for other sizes")
    start, tail, back = [], None, 0
    for dim, (a, b) in enumerate(zip(first[1], second[1], strict=True)):
        varies = a != b
        behind = shift_of(whole.size[dim], symbol)
        if varies and (behind is None or _SAMPLES[0] - a != _SAMPLES[1] - b or tail is not None):
            raise NotAligned(f"a view of {whole.buffer} begins at {view.offset}")
        if varies:
            tail, back = dim, _SAMPLES[0] - a
        start.append(0 if varies else a)
    found = Placement(first[0], tuple(start), tail, back)
    least = _check_rows(view, whole, symbol, found)
    return replace(found, least=least, inside=_inside(view, whole, symbol, symbols, found))


def shift_of(extent: Extent, symbol: str) -> int | None:
    """c of an extent that is the symbol + c; None for any other."""
    blocks = blocks_of(extent, symbol)
    return blocks[1] if blocks is not None and blocks[0] == 1 else None


def blocks_of(extent: Extent, symbol: str) -> tuple[int, int] | None:
    """k and c of an extent that is k * (symbol + c): so many blocks of rows, as a batch that is flattened; None for any other."""
    if isinstance(extent, int):
        return None
    factor, rest = _line(extent, symbol) or (0, 0)
    return (factor, rest // factor) if factor >= 1 and rest % factor == 0 else None


def in_blocks(value: Value, symbol: str) -> Value:
    """The value with flattened dims as two: blocks, and rows of a block."""
    sizes: list[Extent] = []
    strides: list[Extent] = []
    for extent, step in zip(value.size, value.stride, strict=True):
        blocks, rows = blocks_of(extent, symbol) or (1, 0)
        if blocks == 1:
            sizes.append(extent)
            strides.append(step)
        else:
            sizes += [blocks, f"{symbol} + {rows}"]
            strides += [f"({step})*({symbol} + {rows})", step]
    return Value(value.buffer, value.dtype, tuple(sizes), tuple(strides), value.offset)


@lru_cache(maxsize=1 << 14)
def _line(extent: str, symbol: str) -> tuple[int, int] | None:
    """a and b of an extent that is a * symbol + b, whatever the symbol is."""
    return _line_of(ast.parse(extent, mode="eval").body, symbol)


def _line_of(node: ast.AST, symbol: str) -> tuple[int, int] | None:
    match node:
        case ast.Constant(value=int(number)):
            return 0, number
        case ast.Name(id=name):
            return (1, 0) if name == symbol else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            found = _line_of(operand, symbol)
            return found and (-found[0], -found[1])
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _line_of(left, symbol), _line_of(right, symbol)
            if first is None or second is None:
                return None
            match op:
                case ast.Add():
                    return first[0] + second[0], first[1] + second[1]
                case ast.Sub():
                    return first[0] - second[0], first[1] - second[1]
                case ast.Mult() if 0 in (first[0], second[0]):
                    return first[0] * second[1] + first[1] * second[0], first[1] * second[1]
    return None


@lru_cache(maxsize=1 << 14)
def _only_sums_and_products(extent: Extent) -> bool:
    """Two samples tell how it grows: no quotient, no remainder, nothing that is cut."""
    return isinstance(extent, int) or _is_polynomial(ast.parse(extent, mode="eval").body)


def _is_polynomial(node: ast.AST) -> bool:
    match node:
        case ast.Constant() | ast.Name():
            return True
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_polynomial(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Pow(), right=right):
            return _is_polynomial(left) and _is_polynomial(right)
        case ast.Call(
            func=ast.Name(id="max"), args=[ast.Constant(value=1), size]
        ):  # strides beside a dim that is never empty
            return _is_polynomial(size)
    return False


def _check_rows(view: Value, whole: Value, symbol: str, found: Placement) -> int:
    """A padded dim goes along a padded dim, row by row, and ends with it or before. The symbol's least value for which it does."""
    for extent, step in zip(view.size, found.steps, strict=True):
        shift = shift_of(extent, symbol)
        if step is not None and step[0] == found.tail and shift is not None:
            raise NotAligned(f"a view of {whole.buffer} begins at {view.offset}")
        if shift is None or step is None:
            continue
        room = shift_of(whole.size[step[0]], symbol)
        if room is None or step[1] != 1 or found.start[step[0]] + shift > room:
            raise NotAligned(f"a view of {whole.buffer} has its rows in another order")
    if sum(step is not None and step[0] == found.tail for step in found.steps) > 1:
        raise NotAligned(f"a view of {whole.buffer} begins at {view.offset}")
    rooms = ((dim, shift_of(extent, symbol)) for dim, extent in enumerate(whole.size))
    return max(
        (_least_with_rows(view, whole, symbol, found, dim, room) for dim, room in rooms if room is not None), default=0
    )


def _least_with_rows(view: Value, whole: Value, symbol: str, found: Placement, dim: int, room: int) -> int:
    """The least symbol for which all rows of the view are rows of one block of the padded dim, which has symbol + `room`."""
    padded, more = [], 0
    for extent, step in _along(view, found, dim):
        shift = shift_of(extent, symbol)
        if shift is not None:
            padded.append(shift)
        elif isinstance(extent, int):
            more += (extent - 1) * step
        else:
            raise NotAligned(f"a view of {whole.buffer} has {extent} rows")
    if len(padded) > 1 or (padded and found.start[dim] + padded[0] + more > room):
        raise NotAligned(f"a view of {whole.buffer} reaches beyond its rows")
    if dim == found.tail:
        if more - found.back >= room:
            raise NotAligned(f"a view of {whole.buffer} reaches beyond its rows")
        return found.back
    return 0 if padded else found.start[dim] + more + 1 - room


def _inside(
    view: Value, whole: Value, symbol: str, symbols: tuple[str, ...], found: Placement
) -> tuple[tuple[str, str], ...]:
    """That the view stays inside the dims that are not padded: what other symbols decide. NotAligned if it never does."""
    pairs = []
    for run in _runs(whole, symbol, symbols):
        ends, unit = ["0"], "1"
        for dim in reversed(run):
            ends.append(f"{found.start[dim]}*{unit}")
            ends += [f"(({extent}) - 1)*{step}*{unit}" for extent, step in _along(view, found, dim)]
            unit = f"{unit}*({whole.size[dim]})"
        pair = " + ".join(ends), unit
        if set().union(*map(names_in, pair)):
            pairs.append(pair)
        elif evaluate(pair[0], {}) >= evaluate(pair[1], {}):
            raise NotAligned(f"a view of {whole.buffer} reaches beyond a dim")
    return tuple(pairs)


def _runs(whole: Value, symbol: str, symbols: tuple[str, ...]) -> list[list[int]]:
    """Dims that are not padded, those together that lie as one: a view may go from a row of the inner to the next of the outer."""
    samples = [dict.fromkeys(symbols, _OTHERS) | {symbol: n} for n in _SAMPLES]
    sizes, strides = (
        [[evaluate(extent, known) for extent in extents] for known in samples] for extents in (whole.size, whole.stride)
    )
    runs: list[list[int]] = []
    outer = None
    for dim in sorted((d for d, n in enumerate(sizes[0]) if n > 1), key=lambda d: -strides[0][d]):
        if shift_of(whole.size[dim], symbol) is not None:
            outer = None
            continue
        follows = outer is not None and all(s[outer] == n[dim] * s[dim] for n, s in zip(sizes, strides, strict=True))
        if follows:
            runs[-1].append(dim)
        else:
            runs.append([dim])
        outer = dim
    return runs


def _along(view: Value, found: Placement, dim: int) -> list[tuple[Extent, int]]:
    """The view's dims that step along this one of the buffer: their extents and steps."""
    return [
        (extent, step[1])
        for extent, step in zip(view.size, found.steps, strict=True)
        if step is not None and step[0] == dim
    ]


def _placed(
    view: Value, whole: Value, known: Mapping[str, int]
) -> tuple[tuple[tuple[int, int] | None, ...], tuple[int, ...]]:
    size = [evaluate(extent, known) for extent in whole.size]
    stride = [evaluate(step, known) for step in whole.stride]
    steps: list[tuple[int, int] | None] = []
    for extent, step in zip(view.size, view.stride, strict=True):
        distance = evaluate(step, known)
        if evaluate(extent, known) == 1 or distance == 0:
            steps.append(None)
            continue
        moved = [(dim, digit) for dim, digit in enumerate(_digits(distance, size, stride, whole)) if digit]
        if len(moved) != 1:
            raise NotAligned(f"a view of {whole.buffer} steps along several dims at once")
        steps.append(moved[0])
    return tuple(steps), _digits(evaluate(view.offset, known), size, stride, whole)


def _digits(offset: int, size: list[int], stride: list[int], whole: Value) -> tuple[int, ...]:
    """The coordinates of an element of the buffer."""
    digits = [0] * len(size)
    for dim in sorted((d for d in range(len(size)) if size[d] > 1), key=lambda d: -stride[d]):
        digits[dim], offset = divmod(offset, stride[dim]) if stride[dim] else (0, offset)
        if digits[dim] >= size[dim]:
            raise NotAligned(f"a view of {whole.buffer} reaches beyond a dim")
    if offset:
        raise NotAligned(f"a view of {whole.buffer} lies between its elements")
    return tuple(digits)
