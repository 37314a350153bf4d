"""An op of the hardware under other divisions: which are legal, how each divides its tensors, and what each would take.

The hardware's op is made once; a division changes nothing in it but the slices of its dims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from openspyre.artifact.superdsc import Component, SuperDsc
from openspyre.clock.kernels import Division, Matmul, Pointwise
from openspyre.clock.predict import predict
from openspyre.clock.prediction import Prediction
from openspyre.clock.work import kernel_of
from openspyre.compiler.emit.operation import Operand, Operation
from openspyre.compiler.emit.shared import Template, template_anywhere
from openspyre.compiler.hints import asked_division
from openspyre.compiler.ir import Buffer, Op
from openspyre.compiler.planner.constraints import Undividable, constraints_of
from openspyre.compiler.planner.core_order import core_slices
from openspyre.compiler.planner.op_space import op_space
from openspyre.compiler.planner.space import Space, Splits, divisors
from openspyre.compiler.scratchpad.views import View, is_product, view_of
from openspyre.compiler.spans import widest
from openspyre.spec.machine import Machine
from openspyre.spec.sharing import Memo

Inside = frozenset[str]  # buffers of an op that lie in the scratchpads
NOWHERE: Inside = frozenset()


@dataclass(frozen=True, slots=True)
class Bounds:
    """What every division keeps to."""

    machine: Machine
    k_fast: bool = True


@dataclass(frozen=True, slots=True)
class _Dividing:
    """What of each kept dim can be divided: 1 of what must stay whole, nothing at all if the op's division stays. `space`: if spans count."""

    units: tuple[int, ...]
    space: Space | None

    @classmethod
    def of(cls, op: Op, buffers: Mapping[str, Buffer], bounds: Bounds, kept: tuple[int, ...]) -> _Dividing:
        spaced = op_space(op, buffers)
        space = spaced.space
        try:
            constraints = constraints_of(space, bounds.machine.cores)
        except Undividable:
            return cls((), None)
        if constraints.pinned or spaced.dims != kept:
            return cls((), None)
        units = tuple([1 if n in constraints.blocked else symbol.units for n, symbol in enumerate(space.symbols)])
        if any(op.dims[d].split > 1 and count == 1 for d, count in zip(kept, units, strict=True)):
            return cls((), None)  # a core would reach too far otherwise
        layouts = [buffers[access.buffer].layout for access in op.accesses]
        limit = bounds.machine.max_span_bytes_per_core_and_tensor
        wide = any(layout is None or layout.device_bytes > limit for layout in layouts)
        return cls(units, space if wide else None)


@dataclass(frozen=True, slots=True)
class _MatmulRoles:
    """A product's kernel, and which of its dims are which: other divisions differ in nothing else."""

    given: Matmul
    roles: tuple[tuple[int, str], ...]  # dims of the op
    names: tuple[str, str, str]  # of the first operand, the second and the result

    @classmethod
    def of(cls, priced: PricedOp) -> _MatmulRoles:
        kernel = kernel_of(priced.template.shared.op)
        operation = priced.template.operation
        assert isinstance(kernel, Matmul) and operation is not None
        first, second, result = (*operation.inputs[:2], operation.targets[0])
        roles = []
        for place, d in enumerate(priced.kept):
            a, b, c = (o.walk is not None and place in (*o.walk.order, o.walk.lane) for o in (first, second, result))
            roles.append((d, "k" if not c else "b" if a and b else "m" if a else "n"))
        accesses = priced.op.accesses
        names = [accesses[o.access].buffer if o.access is not None else "" for o in (first, second, result)]
        return cls(kernel, tuple(roles), (names[0], names[1], names[2]))

    def kernel(self, splits: Splits, inside: Inside) -> Matmul:
        slices = {"b": 1, "m": 1, "n": 1, "k": 1}
        for d, role in self.roles:
            slices[role] *= splits[d]
        division = Division(slices["b"], slices["m"], slices["n"], slices["k"])
        first, second, result = (name in inside for name in self.names)
        return replace(
            self.given, division=division, cores=division.cores,
            first_resident=first, second_resident=second, result_resident=result,
        )  # fmt: skip


_known: Memo[tuple[Template, Machine, Prediction]] = (
    Memo()
)  # by ids of the first two, which live as long as it knows them


@dataclass(slots=True)
class PricedOp:
    """An op as it was divided first (`given`: slices per dim), and everything that is asked about its other divisions, once."""

    op: Op
    buffers: Mapping[str, Buffer]
    bounds: Bounds
    given: Splits
    template: Template
    kept: tuple[int, ...] = ()  # dims of the op that are dims of the hardware's op; none if its division stays
    _dividing: _Dividing | None = None
    _matmul: _MatmulRoles | None = None
    _operations: dict[Splits, Operation] = field(default_factory=dict)
    _views: dict[tuple[Splits, str], View | str] = field(default_factory=dict)
    _prices: dict[tuple[Splits, Inside, bool], Prediction] = field(default_factory=dict)
    _legal: dict[Splits, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, op: Op, buffers: Mapping[str, Buffer], bounds: Bounds) -> PricedOp:
        template = template_anywhere(op, buffers, k_fast=bounds.k_fast)
        found = cls(op, buffers, bounds, tuple([dim.split for dim in op.dims]), template)
        operation = template.operation
        if operation is None or operation.index is not None or any(operand.owners for operand in operation.inputs):
            return found
        if asked_division(op):
            return found  # the user's own
        order = sorted(range(len(op.dims)), key=lambda d: op.dims[d].reduced)
        kept = tuple([d for d in order if op.dims[d].size != 1])
        extents = [(extent.valid, extent.split) for extent in operation.dims]
        if [(op.dims[d].size, op.dims[d].split) for d in kept] == extents:
            found.kept = kept
        return found

    # --- divisions
    @property
    def reduced(self) -> Splits:
        """Slices of the dims that are summed: they decide bits, so that no neighbour may change them."""
        return tuple([split for split, dim in zip(self.given, self.op.dims, strict=True) if dim.reduced])

    @property
    def dividing(self) -> _Dividing:
        """What its division must keep to."""
        if self._dividing is None:
            self._dividing = _Dividing.of(self.op, self.buffers, self.bounds, self.kept)
        return self._dividing

    def is_legal(self, splits: Splits) -> bool:
        if splits == self.given:
            return True
        if splits not in self._legal:
            self._legal[splits] = self._check(splits)
        return self._legal[splits]

    def _check(self, splits: Splits) -> bool:
        dividing = self.dividing
        if not dividing.units or prod(splits) > self.bounds.machine.cores:
            return False
        for d, units in zip(self.kept, dividing.units, strict=True):
            if units % splits[d]:
                return False
        if dividing.space is None:
            return True
        limit = self.bounds.machine.max_span_bytes_per_core_and_tensor
        return widest(self.op, self.buffers, splits)[0] <= limit and (
            dividing.space.widest([splits[d] for d in self.kept])[0] <= limit
        )

    def divisions(self, *, sums: bool = False) -> Iterator[Splits]:
        """All that use as many cores as the given one or more, and leave sums as they are; with `sums`, products may divide them."""
        cores, given = self.bounds.machine.cores, prod(self.given)
        each: list[Iterable[int]] = []
        for d, units in zip(self.kept, self.dividing.units, strict=bool(self.dividing.units)):
            fixed = self.op.dims[d].reduced and not sums
            each.append([self.given[d]] if fixed else divisors(units, cores))
        for chosen in product(*each):
            if given <= prod(chosen) <= cores:
                splits = self._spread(dict(zip(self.kept, chosen, strict=True)))
                if self.is_legal(splits):
                    yield splits

    def _spread(self, chosen: Mapping[int, int]) -> Splits:
        return tuple(chosen.get(d, 1) for d in range(len(self.given)))

    def aligned(self, buffer: str, view: View) -> Splits | None:
        """The division that sees a tensor just so, with all its cores; None if there is no legal one."""
        operation = self.template.operation
        if not self.kept or operation is None:
            return None
        if self.view(self.given, buffer) == view:
            return self.given
        operand = self._operand(operation, buffer)
        if operand is None or operand.walk is None:
            return None
        wanted = {one.stride: one.split for one in view.slices}
        chosen = {d: self.given[d] for d in self.kept if self.op.dims[d].reduced}
        for place in operand.walk.order:
            if operand.walk.strides[place] in wanted:
                chosen[self.kept[place]] = wanted[operand.walk.strides[place]]
        splits = self._spread(chosen)
        changed = tuple(s for s, dim in zip(splits, self.op.dims, strict=True) if dim.reduced) != self.reduced
        if changed or not self.is_legal(splits) or self.view(splits, buffer) != view:
            return None
        return splits

    # --- tensors
    def _operand(self, operation: Operation, buffer: str) -> Operand | None:
        accesses = self.op.accesses
        among = [*operation.targets, *operation.inputs]
        return next((o for o in among if o.access is not None and accesses[o.access].buffer == buffer), None)

    def operation(self, splits: Splits) -> Operation:
        assert self.template.operation is not None
        if splits == self.given:
            return self.template.operation
        if splits not in self._operations:
            dims = tuple(
                replace(extent, split=splits[d])
                for d, extent in zip(self.kept, self.template.operation.dims, strict=True)
            )
            self._operations[splits] = replace(self.template.operation, dims=dims)
        return self._operations[splits]

    def view(self, splits: Splits, buffer: str) -> View | str:
        """How a division divides a tensor; of one that it takes twice in different ways, nothing can be said."""
        key = splits, buffer
        if key not in self._views:
            self._views[key] = self._view(splits, buffer)
        return self._views[key]

    def _view(self, splits: Splits, buffer: str) -> View | str:
        if self.template.operation is None:
            return "it takes it by elements"
        operation = self.operation(splits)
        accesses = self.op.accesses
        found = {
            view_of(operation, operand, self.buffers[buffer], k_fast=self.bounds.k_fast)
            for operand in (*operation.inputs, *operation.targets)
            if operand.access is not None and operand.walk is not None and accesses[operand.access].buffer == buffer
        }
        return found.pop() if len(found) == 1 else "it takes it in several ways"

    # --- prices
    def price(self, splits: Splits, inside: Inside = NOWHERE, *, waits: bool = False) -> Prediction:
        """What it takes with these tensors in the scratchpads. `waits`: it reads from memory what was just written there."""
        key = splits, inside, waits
        if key not in self._prices:
            self._prices[key] = self._known_price(splits, inside, waits)
        return self._prices[key]

    def _known_price(self, splits: Splits, inside: Inside, waits: bool) -> Prediction:
        """Ops of one template have one price, whatever their tensors are called."""
        machine, lies = self.bounds.machine, tuple([access.buffer in inside for access in self.op.accesses])
        key = id(self.template), id(machine), splits, lies, waits
        return _known.get(key, lambda: (self.template, machine, self._priced(splits, inside, waits)))[2]

    def _priced(self, splits: Splits, inside: Inside, waits: bool) -> Prediction:
        machine = self.bounds.machine
        if self.is_matmul:
            return predict(self._product(splits, inside), machine)
        kernel = kernel_of(self._superdsc(splits, inside))
        found = predict(kernel, machine)
        if waits and isinstance(kernel, Pointwise) and kernel.read_bytes:
            return replace(found, time_us=found.time_us * machine.rates.chain.reader)
        return found

    def _superdsc(self, splits: Splits, inside: Inside) -> SuperDsc:
        made, operation = self.template.shared.op, self.template.operation
        if operation is None:
            return made
        axes = made.axes
        if splits != self.given:
            first = len(axes) - len(operation.dims) - (operation.lane is None)
            own = [replace(axis, split=splits[d]) for d, axis in zip(self.kept, axes[first:], strict=False)]
            axes = (*axes[:first], *own, *axes[first + len(own) :])
        last = self.bounds.k_fast and is_product(operation) and axes[-1].split > 1
        slices = core_slices(tuple(axis.split for axis in axes), last_fastest=last)
        accesses = self.op.accesses
        operands = (*(() if operation.index is None else (operation.index,)), *operation.inputs, *operation.targets)
        tensors = tuple(
            replace(tensor, component=Component.SCRATCHPAD)
            if operand.access is not None and accesses[operand.access].buffer in inside
            else tensor
            for tensor, operand in zip(made.tensors, operands, strict=True)
        )
        return replace(made, axes=axes, slices=slices, tensors=tensors)

    # --- products
    @property
    def is_matmul(self) -> bool:
        """Whether it is a product of the hardware whose division can be another."""
        return bool(self.kept) and self.template.operation is not None and is_product(self.template.operation)

    def _product(self, splits: Splits, inside: Inside) -> Matmul:
        if self._matmul is None:
            self._matmul = _MatmulRoles.of(self)
        return self._matmul.kernel(splits, inside)

    def price_of_shape(self, splits: Splits) -> Prediction:
        """What a product takes, however its operands lie: matrices of a batch may lie otherwise in eager than inside a launch."""
        return predict(replace(self._product(splits, NOWHERE), plain=None), self.bounds.machine)

    def product_bytes(self) -> int:
        """Bytes of a product's first operand and of its result."""
        kernel = self._product(self.given, NOWHERE)
        return 2 * kernel.b * kernel.m * (kernel.k + kernel.n)
