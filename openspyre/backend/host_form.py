"""A launch as the host computes it: what lies in the scratchpads becomes values in memory, behind the pool.

The host has no scratchpads; what it gains is that steps hand values on in registers. Which op reads what which op wrote is found from
the bundle's addresses alone: what writes over bytes makes a new value, what reads them gets the last one. A copy into the scratchpads,
or from core to core, is no work here. Only a launch after which nobody looks at the scratchpads may be seen this way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from openspyre.artifact.bundle_function import Address
from openspyre.artifact.emitted import Emitted, Execution, Loop, Node, Shared
from openspyre.artifact.launch_spec import Argument
from openspyre.artifact.superdsc import PRESENT, Component, SuperDsc, Tensor
from openspyre.backend.fusion import Fused, FuseSteps
from openspyre.backend.superdsc.shared import compile_emitted
from openspyre.spec.machine import SPYRE
from openspyre.spec.resting_pool import Life, resting_pool
from openspyre.spec.sharing import Memo

_COPIES = ("identity", "shuffle")
_RESTING_PERCENT = 150  # beside the pool, whose temporaries rest too


def fused_on_host(emitted: Emitted) -> Fused:
    """What the host computes; what the bundle says step by step, where fusion made a wrong program. Nobody looks at scratchpads after it."""
    fused = FuseSteps().fused(compile_emitted(host_form(emitted)))
    return Fused(compile_emitted(emitted), fused.problems) if fused.problems else fused


def host_form(emitted: Emitted) -> Emitted:
    """The same launch without scratchpads; itself if it has none, or if its values cannot be told apart."""
    if not any(map(_uses_pads, emitted.executions)):
        return emitted
    found = _Values(emitted)
    if not all(map(found.follow, emitted.body)):
        return emitted
    return _written(emitted, found.kept)


@dataclass(frozen=True, slots=True)
class _Value:
    """What one op has written into bytes [first, end) of each scratchpad. `alias`: where the same already lies in memory.

    `loops`: those around the op, by numbers of their own.
    """

    number: int
    first: int
    end: int
    bytes: int  # of the whole tensor
    alias: Address | None = None
    loops: tuple[int, ...] = ()

    def meets(self, first: int, end: int) -> bool:
        return self.first < end and first < self.end


class _Held(NamedTuple):
    """Bytes [first, end) of each scratchpad that a tensor has, and the bytes of all of it."""

    first: int
    end: int
    bytes: int


@dataclass(frozen=True, eq=False, slots=True)
class _Form:
    """What is known of a SuperDSC, which is here to keep its id: its tensors in the scratchpads, and itself with those in memory."""

    shared: Shared
    held: Mapping[int, _Held]
    on_host: Shared


_forms: Memo[_Form] = Memo()  # by id
_equal: Memo[Shared] = Memo()


def _form(shared: Shared) -> _Form:
    return _forms.get(id(shared), lambda: _found_form(shared))


def _found_form(shared: Shared) -> _Form:
    op = shared.op
    held = {n: _held(op, tensor) for n, tensor in enumerate(op.tensors) if _in_pads(tensor)}
    return _Form(shared, held, _interned(_in_memory(shared)) if held else shared)


def _uses_pads(execution: Execution) -> bool:
    return bool(_form(execution.shared).held)


def _in_pads(tensor: Tensor) -> bool:
    return tensor.component is Component.SCRATCHPAD


@dataclass(frozen=True, slots=True)
class _Kept:
    """An op that stays, with the value of each of its tensors in the scratchpads."""

    node: Execution
    values: tuple[_Value, ...] = ()


@dataclass(frozen=True, slots=True)
class _Round:
    """A loop that stays."""

    count: int
    body: tuple[_Tree, ...]


_Tree = _Kept | _Round


class _Values:
    """Follows the ops of a launch, a loop's once: which of them stay, and what they find in the scratchpads."""

    def __init__(self, emitted: Emitted) -> None:
        self.emitted = emitted
        self.now: list[_Value] = []  # what the scratchpads hold
        self.kept: list[_Tree] = []
        self.count = self.rounds = 0
        self.loops: tuple[int, ...] = ()
        self.carried: list[_Value] = []  # read in a loop, made before it

    def follow(self, node: Node) -> bool:
        """False where a read has no single write, or where an iteration would find another value than the one before."""
        return self._follow_loop(node) if isinstance(node, Loop) else self._follow_op(node)

    def _follow_loop(self, loop: Loop) -> bool:
        outer, around, before = self.kept, self.loops, len(self.carried)
        self.rounds += 1
        self.kept, self.loops = [], (*around, self.rounds)
        if not all(map(self.follow, loop.body)):
            return False
        outer.append(_Round(loop.count, tuple(self.kept)))
        came_in = [value for value in self.carried[before:] if value.loops[: len(self.loops)] != self.loops]
        self.kept, self.loops = outer, around
        still = [(value.number, value.first, value.end) for value in self.now]
        return all((value.number, value.first, value.end) in still for value in came_in)

    def _follow_op(self, node: Execution) -> bool:
        held, outputs = _form(node.shared).held, node.shared.op.outputs
        found: dict[int, _Value] = {}
        for number, tensor in held.items():
            if number not in outputs:
                value = self._read(tensor)
                if value is None:
                    return False
                found[number] = value
        same = _copied(node, found, self.emitted)
        for number in outputs:
            if number in held:
                found[number] = self._written(held[number], same, [*found.values()])
        if same is None:
            self.kept.append(_Kept(node, tuple([found[number] for number in sorted(found)])))
        return True

    def _read(self, held: _Held) -> _Value | None:
        met = [value for value in self.now if value.meets(held.first, held.end)]
        if len(met) != 1 or (met[0].first, met[0].end, met[0].bytes) != held:
            return None
        (value,) = met
        if value.loops != self.loops:
            self.carried.append(value)
            if value.alias is not None and value.alias.advance:
                return None  # what moves with a loop lies where it does in that loop alone
        return value

    def _written(self, held: _Held, same: _Value | None, read: Sequence[_Value]) -> _Value:
        updated = next((value for value in read if same is None and self._is_updated(value, held)), None)
        self.now = [value for value in self.now if not value.meets(held.first, held.end)]
        if updated is not None:
            self.now.append(updated)
            return updated
        self.count += 1
        value = _Value(self.count, *held, loops=self.loops)
        if same is not None:
            value = replace(value, number=same.number, alias=same.alias)
        self.now.append(value)
        return value

    def _is_updated(self, value: _Value, held: _Held) -> bool:
        """Whether an op writes over what it reads of a value from outside its loop: the next iteration finds it there."""
        alone = sum(other.number == value.number for other in self.now) == 1
        same_bytes = (value.first, value.end, value.bytes) == held
        return value.loops != self.loops and value.alias is None and alone and same_bytes


def _copied(execution: Execution, read: Mapping[int, _Value], emitted: Emitted) -> _Value | None:
    """What an op that only copies into the scratchpads makes another name of; None if it does something."""
    op = execution.shared.op
    if op.op not in _COPIES or len(op.inputs) != 1 or not _in_pads(op.tensors[op.outputs[0]]):
        return None
    source, target = op.tensors[op.inputs[0]], op.tensors[op.outputs[0]]
    if (source.order, source.sticks, source.scales, source.gaps) != (target.order, target.sticks, target.scales, ()):
        return None
    if op.inputs[0] in read:
        return read[op.inputs[0]]
    places = [execution.shared.offsets[-1 - start] for start in source.starts]
    base, byte = places[0]
    regular = places == [(base, byte + step) for step in _starts(op, source)]
    argument = execution.bases[base].parameter
    # An update may be the same memory as an input, and is written while the copy keeps what was there.
    stays = argument is not None and emitted.arguments[argument].role == "input"
    if not regular or not stays or any(other.role == "update" for other in emitted.arguments):
        return None
    return _Value(0, 0, 0, 0, execution.bases[base] + byte)


def _held(op: SuperDsc, tensor: Tensor) -> _Held:
    steps = [_steps(op, tensor, label) for label in tensor.order]
    own = [count // _split(op, tensor, label) for count, label in zip(steps, tensor.order, strict=True)]
    first = tensor.starts[0]
    return _Held(first, first + SPYRE.stick_bytes * prod(own), SPYRE.stick_bytes * prod(steps))


def _split(op: SuperDsc, tensor: Tensor, label: str) -> int:
    if tensor.owners:
        return 1 + max(dict(own).get(label, 0) for own in tensor.owners)
    return op.axis[label].split if tensor.scale(label) == PRESENT else 1


def _steps(op: SuperDsc, tensor: Tensor, label: str) -> int:
    """Steps of a dim of the whole tensor: sticks where they run along it."""
    if tensor.scale(label) != PRESENT:
        return 1
    per_stick = prod(stick.size for stick in tensor.sticks if stick.label == label)
    return max(1, -(-op.axis[label].size // per_stick))


def _starts(op: SuperDsc, tensor: Tensor) -> list[int]:
    """Where each core begins in the whole tensor, as the op's division has it."""
    inner, steps = SPYRE.stick_bytes, []
    places = {axis.label: place for place, axis in enumerate(op.axes)}
    for label in tensor.order:
        count, split = _steps(op, tensor, label), op.axis[label].split
        if tensor.scale(label) == PRESENT and split > 1:
            steps.append((places[label], count // split * inner))
        inner *= count
    return [sum(slices[place] * step for place, step in steps) for slices in op.slices]


def _written(emitted: Emitted, kept: Sequence[_Tree]) -> Emitted:
    """The launch with its values in memory. Their bytes rest as those of temporaries do."""
    pool = resting_pool(_lives(kept), percent=_RESTING_PERCENT)
    added = emitted.arguments[0].role != "pool"
    arguments = [Argument("pool", "pool", 0)] * added + list(emitted.arguments)
    begin = arguments[0].bytes
    arguments[0] = replace(arguments[0], bytes=begin + pool.bytes)

    def place(value: _Value) -> Address:
        if value.alias is not None:
            return _moved(value.alias, added)
        return Address(0, begin + pool.places[str(value.number)])

    def on_host(tree: _Tree) -> Node:
        match tree:
            case _Round(count, body):
                return Loop(count, tuple(map(on_host, body)))
            case _Kept(node, values):
                own = [_moved(base, added) for base in node.bases] if added else node.bases
                bases = (*own, *map(place, values))
                return Execution(node.name, _form(node.shared).on_host, bases, node.provenance)

    return replace(emitted, arguments=tuple(arguments), body=tuple(map(on_host, kept)))


@dataclass(frozen=True, slots=True)
class _Touch:
    """An op that uses a value: its place in the order, and first and last of each loop around it."""

    when: int
    loops: tuple[tuple[int, int], ...]


def _lives(kept: Sequence[_Tree]) -> tuple[Life, ...]:
    """A value lives from its first use to its last; one that comes into a loop, or leaves it, as long as the loop runs."""
    nodes: list[Execution] = []
    touches: dict[int, list[_Touch]] = {}
    sizes: dict[int, int] = {}

    def walk(trees: Sequence[_Tree], loops: tuple[tuple[int, int], ...]) -> None:
        for tree in trees:
            if isinstance(tree, _Round):
                walk(tree.body, (*loops, (len(nodes), len(nodes) + _ops(tree.body) - 1)))
                continue
            for value in tree.values:
                if value.alias is None:
                    touches.setdefault(value.number, []).append(_Touch(len(nodes), loops))
                    sizes[value.number] = value.bytes
            nodes.append(tree.node)

    walk(kept, ())
    found, products = [], _next_products(nodes)
    for number, uses in touches.items():
        shared = _depth_of_all([use.loops for use in uses])
        spans = [use.loops[shared] if len(use.loops) > shared else (use.when, use.when) for use in uses]
        last = max(end for _, end in spans)
        first = min(begin for begin, _ in spans)
        found.append(Life(str(number), first, last, products[last], sizes[number]))
    return tuple(found)


def _depth_of_all(paths: Sequence[tuple[tuple[int, int], ...]]) -> int:
    """How many loops all of these have around them."""
    levels = zip(*paths, strict=False)
    return next((depth for depth, loops in enumerate(levels) if len(set(loops)) > 1), min(map(len, paths)))


def _ops(trees: Sequence[_Tree]) -> int:
    return sum(_ops(tree.body) if isinstance(tree, _Round) else 1 for tree in trees)


def _next_products(nodes: Sequence[Execution]) -> list[int]:
    """Of each op the next contraction at or behind it: what comes before may become one step."""
    found, following = [0] * len(nodes), len(nodes) - 1
    for number in reversed(range(len(nodes))):
        if nodes[number].shared.op.op.startswith("batchmatmul"):
            following = number
        found[number] = following
    return found


def _moved(address: Address, added: bool) -> Address:
    """An argument's address, where a pool has come before all arguments."""
    return Address((address.parameter or 0) + added, address.byte, address.advance)


def _interned(shared: Shared) -> Shared:
    """Ops of equal layers that differ in bytes of the scratchpads alone are one here, and lowered once."""
    if shared.op.extension is not None:  # its attributes may be equal and not alike
        return shared
    valid = tuple(axis.valid for axis in shared.op.axes)  # axes that differ in it compare equal
    return _equal.get((shared.op, valid, shared.offsets, repr(shared.known)), lambda: shared)


def _in_memory(shared: Shared) -> Shared:
    op, base = shared.op, len(shared.known)
    offsets = {offset: number for number, offset in enumerate(shared.offsets)}
    tensors = []
    for tensor in op.tensors:
        if _in_pads(tensor):
            symbols = [-1 - offsets.setdefault((base, byte), len(offsets)) for byte in _starts(op, tensor)]
            tensor = replace(tensor, component=Component.MEMORY, starts=tuple(symbols), owners=())
            base += 1
        tensors.append(tensor)
    known = (*shared.known, *[None] * (base - len(shared.known)))
    name = "identity" if op.op == "shuffle" else op.op  # in one memory there are no divisions to go between
    return Shared(replace(op, op=name, tensors=tuple(tensors)), tuple(offsets), known)
