"""What must be true of an IR program, before and after every pass. Reports all problems, each naming op, operand and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

from openspyre.compiler.ir import Access, Buffer, Constant, InPool, Iota, Loop, Node, Op, Program, Role, Scalar
from openspyre.compiler.loops import ends, lifetimes, listed, moved
from openspyre.compiler.sticks import Misfit, StickAccess, stick_access
from openspyre.spec.addressing import host_elements
from openspyre.spec.errors import InvalidLayout
from openspyre.spec.formats import STICK_BYTES, formats_of, is_supported
from openspyre.spec.machine import SPYRE
from openspyre.spec.ops import TABLE, Kind
from openspyre.spec.packing import value_bytes


@dataclass(frozen=True, slots=True)
class Verifier:
    """`cores` a program may use; `lowered` asks for what the emitter needs: layouts, legal sticks, places."""

    cores: int = SPYRE.cores
    lowered: bool = False

    def problems(self, program: Program) -> list[str]:
        """Everything that is wrong, in the program's order; empty if nothing is."""
        found = [f"two buffers are named {name!r}" for name in _repeated(buffer.name for buffer in program.buffers)]
        found += [f"two scalars are named {name!r}" for name in _repeated(scalar.name for scalar in program.scalars)]
        for buffer in program.buffers:
            found += [f"buffer {buffer.name!r}: {what}" for what in self._buffer(buffer, program.pool_bytes)]
        buffers = {buffer.name: buffer for buffer in program.buffers}
        found += _loops(program.body, ())
        for op, counts in listed(program.body):
            found += [f"op {op.name!r}: {what}" for what in self._op(op, counts, program, buffers)]
        return [*found, *_order(program, buffers), *_overlaps(program, buffers)]

    def _buffer(self, buffer: Buffer, pool_bytes: int) -> Iterator[str]:
        if not _is_tensor(buffer):
            yield f"size {list(buffer.size)} and stride {list(buffer.stride)} describe no tensor"
            return
        if not is_supported(buffer.dtype):
            yield f"dtype {buffer.dtype} has no format on the card"
        elif buffer.layout is not None:
            wanted = formats_of(buffer.dtype).device
            if buffer.layout.device_dtype is not wanted:
                yield f"its layout holds {buffer.layout.device_dtype.name}, {buffer.dtype} is {wanted.name}"
            try:
                buffer.layout.addressing(buffer.size, buffer.stride)
            except InvalidLayout as error:
                yield str(error)
        if self.lowered and buffer.layout is None:
            yield "it has no layout"
        yield from _values(buffer)
        yield from self._place(buffer, pool_bytes)

    def _place(self, buffer: Buffer, pool_bytes: int) -> Iterator[str]:
        place = buffer.place
        if place is None:
            if self.lowered and buffer.role is Role.TEMP:
                yield "a temp without a place"
            return
        if buffer.role is not Role.TEMP:
            yield f"it is an {buffer.role} of the program, yet has a place of its own"
        elif place.byte < 0 or place.byte % STICK_BYTES:
            yield f"its place {place.byte} is not the start of a stick"
        elif isinstance(place, InPool) and buffer.layout is not None:
            end = place.byte + buffer.layout.device_bytes
            yield from [f"it ends at byte {end} of a pool of {pool_bytes}"] if end > pool_bytes else []

    def _op(self, op: Op, counts: tuple[int, ...], program: Program, buffers: dict[str, Buffer]) -> Iterator[str]:
        if op.row not in TABLE:
            yield f"the op table has no row {op.row!r}"
            return
        yield from self._dims(op)
        row = TABLE[op.row]
        expected = row.operands + len(row.scalars)
        if row.kind in (Kind.POINTWISE, Kind.RANDOM) and len(op.inputs) != expected:
            yield f"{op.row} takes {expected} inputs, not {len(op.inputs)}"
        if not op.outputs:
            yield "it has no output"
        for number, operand in enumerate((*op.inputs, *op.outputs)):
            writes = number >= len(op.inputs)
            title = f"output {number - len(op.inputs)}" if writes else f"input {number}"
            match operand:
                case Scalar():
                    problems = iter(() if operand in program.scalars else (f"{operand} is no scalar of the program",))
                case Constant():
                    problems = iter(() if 0 <= operand.bits < 1 << 32 else (f"{operand} has more than 32 bits",))
                case Iota():
                    problems = _strides(op, operand.strides)
                case Access():
                    problems = self._access(op, counts, operand, buffers.get(operand.buffer), writes)
            yield from (f"{title}: {what}" for what in problems)

    def _dims(self, op: Op) -> Iterator[str]:
        for name in _repeated(dim.name for dim in op.dims):
            yield f"two dims are named {name!r}"
        cores = 1
        for dim in op.dims:
            cores *= dim.split
            if dim.size < 0 or dim.split < 1 or dim.split > max(dim.size, 1):
                yield f"dim {dim.name!r} of size {dim.size} cannot be split into {dim.split}"
        if cores > self.cores:
            yield f"its splits ask for {cores} cores of {self.cores}"

    def _access(
        self, op: Op, counts: tuple[int, ...], access: Access, buffer: Buffer | None, writes: bool
    ) -> Iterator[str]:
        if buffer is None:
            yield f"there is no buffer {access.buffer!r}"
            return
        wrong = [*_strides(op, access.strides), *_advance(access, counts)]
        yield from wrong
        if not is_supported(access.dtype) or not is_supported(buffer.dtype):
            yield f"reads {buffer.dtype} as {access.dtype}"
        elif formats_of(access.dtype).device.bits != formats_of(buffer.dtype).device.bits:
            yield f"takes the bits of {buffer.name!r}, {buffer.dtype}, for {access.dtype}"
        if writes:
            yield from _output(op, access, buffer)
        if not wrong and _is_tensor(buffer) and all(dim.size for dim in op.dims):
            yield from _reach(op, counts, access, buffer)
            goes_by_views = TABLE[op.row].by_view and not TABLE[op.row].documented
            if self.lowered and buffer.layout is not None and not goes_by_views:
                found = stick_access(access, op.dims, buffer)
                if isinstance(found, Misfit):
                    yield f"{buffer.name!r} needs a relayout first: {found.reason}"
                elif any(access.advance) and not _moves_evenly(op, counts, access, buffer, found):
                    yield f"{buffer.name!r} lies otherwise in its sticks from iteration to iteration: {list(access.advance)} moves it"


# Rows are written where they were read; a scatter writes along the dim its index counts.
_WRITES_ALONG = (Kind.ROWS, Kind.INDEXED)


def _values(buffer: Buffer) -> Iterator[str]:
    if (buffer.values is None) is (buffer.role is Role.CONSTANT):
        yield f"it is a {buffer.role} " + ("without values" if buffer.values is None else "that has values")
    elif buffer.values is not None and is_supported(buffer.dtype):
        needed = value_bytes(buffer.size, buffer.stride, buffer.dtype)
        if len(buffer.values) != needed:
            yield f"its values take {len(buffer.values)} bytes, not {needed}"


def _is_tensor(buffer: Buffer) -> bool:
    return len(buffer.size) == len(buffer.stride) and min((*buffer.size, *buffer.stride, 0)) >= 0


def _repeated(names: Iterator[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _strides(op: Op, strides: tuple[int, ...]) -> Iterator[str]:
    if len(strides) != len(op.dims):
        yield f"{len(strides)} strides for {len(op.dims)} dims"


def _loops(body: tuple[Node, ...], counts: tuple[int, ...]) -> Iterator[str]:
    """Loops that end."""
    for node in body:
        if not isinstance(node, Loop):
            continue
        if node.count < 1 or not node.body:
            yield f"a loop of {len(node.body)} nodes, {node.count} times: it must have some, and run at least once"
        elif prod(counts) * node.count > SPYRE.max_iterations_per_op:
            yield f"loops run their body {prod(counts) * node.count} times, {SPYRE.max_iterations_per_op} are the most"
        elif len(counts) == SPYRE.max_loop_depth:
            yield f"more than {SPYRE.max_loop_depth} loops in each other"
        else:
            yield from _loops(node.body, (*counts, node.count))


def _advance(access: Access, counts: tuple[int, ...]) -> Iterator[str]:
    if len(access.advance) > len(counts):
        yield f"moves with {len(access.advance)} loops, there are {len(counts)} around the op"


def _moves_evenly(op: Op, counts: tuple[int, ...], access: Access, buffer: Buffer, first: StickAccess) -> bool:
    """Whether all iterations read the same sticks, by so many elements further in memory with each."""
    at = {where: stick_access(moved(access, where), op.dims, buffer) for where in ends(counts)}
    offsets = {}
    for where, found in at.items():
        if isinstance(found, Misfit) or replace(found, offset=first.offset) != first:
            return False
        offsets[where] = found.offset - first.offset
    lanes = formats_of(buffer.dtype).device.elems_per_stick()
    steps = [offsets[_second(k, counts)] for k in range(len(counts))]
    even = all(
        offset == sum(i * step for i, step in zip(where, steps, strict=True)) for where, offset in offsets.items()
    )
    return even and all(step % lanes == 0 for step in steps)


def _second(loop: int, counts: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(min(1, count - 1) if k == loop else 0 for k, count in enumerate(counts))


def _output(op: Op, access: Access, buffer: Buffer) -> Iterator[str]:
    if buffer.role in (Role.INPUT, Role.CONSTANT):
        yield f"writes into {buffer.name!r}, {'an input' if buffer.role is Role.INPUT else 'a constant'}"
    for dim, stride in zip(op.dims, access.strides, strict=False):
        if dim.reduced and stride and dim.size > 1 and TABLE[op.row].kind not in _WRITES_ALONG:
            yield f"moves by {stride} along {dim.name!r}, which is reduced"


def _reach(op: Op, counts: tuple[int, ...], access: Access, buffer: Buffer) -> Iterator[str]:
    """The first and the last element it touches, in any iteration, lie in the buffer."""
    reaches = [stride * (dim.size - 1) for dim, stride in zip(op.dims, access.strides, strict=True)]
    reaches += [step * (count - 1) for count, step in zip(counts, access.advance, strict=False)]
    first = access.offset + sum(end for end in reaches if end < 0)
    last = access.offset + sum(end for end in reaches if end > 0)
    elements = host_elements(buffer.size, buffer.stride)
    if first < 0 or last >= elements:
        yield f"reaches from {first} to {last} in {buffer.name!r}, which has {elements} elements"


def _order(program: Program, buffers: dict[str, Buffer]) -> Iterator[str]:
    """Nothing is read before it is written, and every output is written, but for what begins as whatever lies there."""
    given = (Role.INPUT, Role.UPDATE, Role.CONSTANT)
    written = {buffer.name for buffer in program.buffers if buffer.role in given or buffer.unset}
    for op, _ in listed(program.body):
        for operand in op.inputs:
            if isinstance(operand, Access) and operand.buffer in buffers and operand.buffer not in written:
                yield f"op {op.name!r}: reads {operand.buffer!r}, which nothing has written yet"
        written |= {output.buffer for output in op.outputs}
    for buffer in program.buffers:
        nonempty = all(buffer.size)
        if buffer.role is Role.OUTPUT and buffer.name not in written and nonempty:
            yield f"buffer {buffer.name!r}: no op writes this output"


def _overlaps(program: Program, buffers: dict[str, Buffer]) -> Iterator[str]:
    """Temps that live at the same time share no byte."""
    alive = lifetimes(program)
    bytes_of = {
        name: range(buffer.place.byte, buffer.place.byte + buffer.layout.device_bytes)
        for name, buffer in buffers.items()
        if name in alive and isinstance(buffer.place, InPool) and buffer.layout is not None
    }
    for one, other in combinations(bytes_of, 2):
        together = alive[one][0] <= alive[other][1] and alive[other][0] <= alive[one][1]
        shared = max(bytes_of[one].start, bytes_of[other].start) < min(bytes_of[one].stop, bytes_of[other].stop)
        if together and shared:
            yield f"buffers {one!r} and {other!r} live at the same time and share bytes of the pool"
