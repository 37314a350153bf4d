"""One op of the hardware as a SuperDSC: labels, roles, scales, gaps, masks and where each core begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from openspyre.artifact.bundle_function import Address
from openspyre.artifact.superdsc import (
    BROADCAST,
    ONE_LANE,
    PRESENT,
    Axis,
    Component,
    Constant,
    Indirection,
    Mask,
    Stick,
    SuperDsc,
    Tensor,
)
from openspyre.compiler.emit.walk import Walk
from openspyre.compiler.planner.core_order import core_slices
from openspyre.spec.formats import STICK_BYTES, DataFormats
from openspyre.spec.hardware import HARDWARE, Shape

_LABELS = ("mb", "x", "y", "i", "j", "ki", "kj")
_PRODUCT_LABELS = ("ki", "kj", "y", "x", "mb", "out", "in")
MOST_DIMS = len(_LABELS)
_ROLES = ("OUTPUT", "KERNEL", "INPUT")
_PRODUCT_ROLES = ("INPUT", "KERNEL", "OUTPUT")


@dataclass(frozen=True, slots=True)
class Extent:
    """A dim of the op: what is computed, what is walked (whole sticks), and over how many cores."""

    valid: int
    size: int
    split: int = 1


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of the op. Without a walk it is a number: lane 0 of one stick, for all elements. `indexed`: dim an index chooses along."""

    format: DataFormats
    base: Address
    walk: Walk | None = None
    indirection: Indirection = Indirection.NONE
    indexed: int | None = None
    one_lane: bool = False  # lane 0 serves all lanes, though it moves from stick to stick
    access: int | None = None  # of the op: the first that is the same
    owners: tuple[tuple[int, int], ...] = ()  # its own division, if it has one: slices and cores between them, per dim

    @property
    def in_scratchpads(self) -> bool:
        return self.base.parameter is None


@dataclass(frozen=True, slots=True)
class Operation:
    """What a SuperDSC states, dims by number. `lane`: the dim along the sticks; None if every tensor has one value a stick."""

    op: str
    dims: tuple[Extent, ...]
    lane: int | None
    inputs: tuple[Operand, ...]
    targets: tuple[Operand, ...]
    constants: tuple[Constant, ...] = ()
    masked: tuple[int, ...] = ()
    accumulates: bool = False  # the result is listed among the inputs
    index: Operand | None = None
    unit: str = "sfp"


def superdsc_of(operation: Operation, symbol: Callable[[Address], int], *, k_fast: bool = True) -> SuperDsc:
    """An operation's SuperDSC, still without its number; symbols are asked for as addresses are found."""
    return _Writer(operation, symbol, k_fast).superdsc()


class _Writer:
    def __init__(self, operation: Operation, symbol: Callable[[Address], int], k_fast: bool) -> None:
        self.operation, self.symbol, self.k_fast = operation, symbol, k_fast
        known = HARDWARE.get(operation.op.removesuffix("nonstick"))
        self.unit = operation.unit if known is None else known.unit
        self.product = known is not None and known.shape is Shape.CONTRACTION
        self.own_dims = self.product or (known is not None and known.shape is Shape.SEARCH)
        count = len(operation.dims)
        self.labels = (
            list(_PRODUCT_LABELS[len(_PRODUCT_LABELS) - count :])
            if self.product
            else [*_LABELS[: count - 1], "out"][:count]
        )
        walks = [operand.walk for operand in self.operands if operand.walk is not None]
        free = [label for label in _LABELS[count:] if label not in self.labels]
        # A dim of one stick for the lanes where no dim runs along them, and one of size 1 for sticks that are left out.
        self.extra = _LABELS[count] if operation.lane is None else None
        free = [label for label in free if label != self.extra]
        self.filler = free[0] if any(walk.skipped > 1 for walk in walks) else None
        self.stick_of_all = self.extra or self.labels[operation.lane or 0]

    @property
    def operands(self) -> tuple[Operand, ...]:
        index = () if self.operation.index is None else (self.operation.index,)
        return (*index, *self.operation.inputs, *self.operation.targets)

    def superdsc(self) -> SuperDsc:
        operation = self.operation
        axes = self._axes()
        slices = self._slices(axes)
        tensors = self._tensors(slices)
        first = 0 if operation.index is None else 1
        results = tuple(range(len(tensors) - len(operation.targets), len(tensors)))
        inputs = tuple(range(first, results[0]))
        name = operation.op
        return SuperDsc(
            name=name,
            op=name,
            unit=self.unit,
            format=_said_format(self.operation.op, self.operands[first].format),
            axes=axes,
            slices=slices,
            tensors=tensors,
            inputs=(*inputs, *results) if operation.accumulates else inputs,
            outputs=results,
            index=0 if operation.index is not None else None,
            constants=operation.constants,
            masks=tuple(Mask(self.labels[d], operation.dims[d].valid) for d in operation.masked),
        )

    def _axes(self) -> tuple[Axis, ...]:
        axes = [
            Axis(label, extent.size, extent.split, extent.valid)
            for label, extent in zip(self.labels, self.operation.dims, strict=True)
        ]
        filler = [] if self.filler is None else [Axis(self.filler, 1)]
        lanes = min(operand.format.elems_per_stick() for operand in self.operands)
        extra = [] if self.extra is None else [Axis(self.extra, lanes, valid=1)]
        return (*filler, *axes, *extra)

    def _slices(self, axes: tuple[Axis, ...]) -> tuple[tuple[int, ...], ...]:
        """A divided sum over k has neighbours add up."""
        k_first = self.k_fast and self.product and axes[-1].split > 1
        return core_slices(tuple([axis.split for axis in axes]), last_fastest=k_first)

    def _tensors(self, slices: tuple[tuple[int, ...], ...]) -> tuple[Tensor, ...]:
        roles: dict[tuple[frozenset[str], str, int], tuple[str, tuple[str, ...]]] = {}
        names = iter(_PRODUCT_ROLES if self.product else _ROLES)
        found = []
        for number, operand in enumerate(self.operands):
            order = self._order(operand)
            stick = self._stick(operand)
            key = (frozenset(order), stick, operand.format.elems_per_stick())
            if operand.indirection is Indirection.INDEX:
                role, role_order = "KERNEL_IDX", order
            else:
                if key not in roles:
                    roles[key] = next(names), order
                role, role_order = roles[key]
            found.append(
                Tensor(
                    name=f"Tensor{number}",
                    role=role,
                    format=operand.format,
                    order=order,
                    sticks=(Stick(stick, operand.format.elems_per_stick()),),
                    scales=tuple((label, self._scale(operand, label)) for label in role_order),
                    component=Component.SCRATCHPAD if operand.in_scratchpads else Component.MEMORY,
                    starts=self._starts(operand, slices),
                    gaps=self._gaps(operand),
                    indirection=operand.indirection,
                    indexed=None if operand.indexed is None else self.labels[operand.indexed],
                    owners=self._owners(operand, len(slices)),
                )
            )
        return tuple(found)

    def _owners(self, operand: Operand, cores: int) -> tuple[tuple[tuple[str, int], ...], ...]:
        return tuple(
            tuple(
                (label, core // apart % split)
                for label, (split, apart) in zip(self.labels, operand.owners, strict=True)
            )
            for core in range(cores if operand.owners else 0)
        )

    def _stick(self, operand: Operand) -> str:
        lane = None if operand.walk is None else operand.walk.lane
        return self.stick_of_all if lane is None else self.labels[lane]

    def _order(self, operand: Operand) -> tuple[str, ...]:
        """Dims it moves along, then those it is the same for; products and searches list their own dims alone."""
        walk = operand.walk
        moving = [self.labels[d] for d in walk.order] if walk is not None else []
        if self.filler is not None:
            moving.insert(0 if walk is not None and walk.skipped > 1 else len(moving), self.filler)
        if operand.indirection is Indirection.INDEX or self.own_dims:
            return tuple(moving)
        missing = [label for label in self.labels if label not in moving and label != self.stick_of_all]
        own = [self.stick_of_all] if self.stick_of_all not in moving else []
        if operand.indexed is not None and moving[-1] == self.labels[operand.indexed]:
            return (*moving[:-1], *missing, *own, moving[-1])  # the outermost dim's extent need not be known
        if walk is None:
            return (*moving, *missing, *own)
        return (*moving, *own, *missing) if walk.lane is None else (*moving, *missing, *own)

    def _scale(self, operand: Operand, label: str) -> int:
        walk = operand.walk
        if label == self.filler:
            return PRESENT
        if label == self.extra:
            moves = walk is not None and bool(walk.order) and not operand.one_lane
            target = self.operation.targets[0].walk
            return PRESENT if moves or (walk is not None and target is not None and not target.order) else ONE_LANE
        if walk is not None and self.labels.index(label) in walk.order:
            return PRESENT
        return ONE_LANE if label == self._stick(operand) else BROADCAST

    def _gaps(self, operand: Operand) -> tuple[tuple[str, int], ...]:
        if operand.walk is None:
            return ()
        skipped = [(self.filler, operand.walk.skipped - 1)] if self.filler and operand.walk.skipped > 1 else []
        gaps = [(self.labels[d], gap) for d, gap in operand.walk.gaps if d != operand.indexed]
        return (*skipped, *gaps)

    def _starts(self, operand: Operand, slices: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
        """The symbol of each core's first byte; in the scratchpads the byte itself, the same on every core."""
        walk, lanes = operand.walk, operand.format.elems_per_stick()
        if operand.in_scratchpads:
            return (operand.base.byte,) * len(slices)
        if walk is None:
            return (self.symbol(operand.base),) * len(slices)
        bytes_each = STICK_BYTES // lanes
        first = 0 if self.filler is None else 1
        steps = []  # place among the axes, bytes from slice to slice
        for d in walk.order:
            extent = self.operation.dims[d]
            if extent.split > 1 and d != operand.indexed:
                per_core = extent.size // extent.split
                steps.append(
                    (first + d, (per_core // lanes if d == walk.lane else per_core) * walk.strides[d] * bytes_each)
                )
        base = operand.base + walk.offset * bytes_each
        bytes_of = [sum([chosen[place] * step for place, step in steps]) for chosen in slices]
        known = {byte: self.symbol(base + byte) for byte in dict.fromkeys(bytes_of)}
        return tuple([known[byte] for byte in bytes_of])


def _said_format(op: str, form: DataFormats) -> DataFormats:
    """The format an op is said to compute in: integers that only move are called fp32, as the documents have it."""
    return DataFormats.IEEE_FP32 if op == "identity" and form is DataFormats.IEEE_INT32 else form
