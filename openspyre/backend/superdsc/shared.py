"""From what the compiler emits to a program. Ops that share a SuperDSC share its steps: only their bases differ.

Numbers of the launch are scalars of the program, numbers that are known are constants of its code: no memory is needed for them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from openspyre.artifact import emitted as emitted_nodes
from openspyre.artifact.bundle_function import Address
from openspyre.artifact.emitted import Emitted, Execution, Shared
from openspyre.artifact.launch_spec import Argument
from openspyre.artifact.superdsc import Indirection
from openspyre.backend.known_numbers import with_known_numbers
from openspyre.backend.superdsc.instance import Arguments, Workspace, filled_by
from openspyre.backend.superdsc.lowering import lowered_op
from openspyre.program.model import Node, Operand, OperandKind, Program, Relayout, Repeat, Space, Step, Use
from openspyre.program.reach import itemsize
from openspyre.spec.errors import InternalError
from openspyre.spec.sharing import Memo

_USES = {"input": Use.READ, "output": Use.FRESH, "update": Use.SHARED, "constant": Use.READ}


@dataclass(frozen=True, slots=True)
class _Template:
    """Steps whose symbols are numbers of bases, and of a workspace behind them. `shared` keeps its id from being used again."""

    shared: Shared
    steps: tuple[Step, ...]
    workspace: int


_known: Memo[_Template] = Memo()


@dataclass(frozen=True, slots=True)
class _Symbols:
    """Where the arguments of a launch are to its program: a symbol and a byte of it, or the number of a scalar."""

    places: dict[int, tuple[int, int]]
    scalars: dict[int, int]


def compile_emitted(emitted: Emitted) -> Program:
    """The program of a launch: symbols are the tensors among its arguments, scalars its numbers; the pool comes behind them."""
    arguments = emitted.arguments
    tensors = [number for number, argument in enumerate(arguments) if argument.role != "pool" and _is_tensor(argument)]
    pool = sum(argument.bytes for argument in arguments if argument.role == "pool")
    places = {number: (symbol, 0) for symbol, number in enumerate(tensors)}
    places |= {number: (len(tensors), 0) for number, argument in enumerate(arguments) if argument.role == "pool"}
    numbers = {
        number: emitted.scalars.index(argument.name)
        for number, argument in enumerate(arguments)
        if argument.role == "number"
    }
    symbols = _Symbols(places, numbers)
    filled: dict[int, int] = {}
    pools = frozenset(n for n, a in enumerate(arguments) if a.role == "pool")
    sizes = Arguments(tuple(a.bytes for a in arguments), pools, filled)
    indexed = any(_chooses(execution) for execution in emitted.executions)
    workspace = 0

    def nodes(body: tuple[emitted_nodes.Node, ...]) -> Iterator[Node]:
        nonlocal workspace
        for node in body:
            match node:
                case Execution():
                    template = _template(node, sizes)
                    workspace = max(workspace, template.workspace)
                    if indexed:
                        filled.update(_filled(node, sizes))
                    bases = (*node.bases, None)
                    for step in template.steps:
                        yield _bound(step, node.name, bases, symbols, (len(tensors), pool))
                case emitted_nodes.Loop(count, inner):
                    yield Repeat(count, tuple(nodes(inner)))

    steps = tuple(nodes(emitted.body))
    return Program(
        name=emitted.name,
        symbols=tuple(arguments[number].name for number in tensors),
        scalars=emitted.scalars,
        body=steps,
        pool_bytes=pool + workspace,
        uses=tuple(_USES[arguments[number].role] for number in tensors),
    )


def _is_tensor(argument: Argument) -> bool:
    return argument.role != "number" and argument.value is None


def _template(execution: Execution, arguments: Arguments) -> _Template:
    key = (id(execution.shared), _sizes_that_count(execution, arguments))
    return _known.get(key, lambda: _lowered(execution, arguments))


def _sizes_that_count(execution: Execution, arguments: Arguments) -> Hashable:
    """Bytes behind each base where lengths of arguments say what no field does: rows of a table, rows that are not there."""
    if _chooses(execution):
        return _behind(execution, arguments).bytes
    if execution.shared.op.op != "ReStickifyOpHBM":
        return None
    found = _behind(execution, arguments)
    return tuple(None if base in found.pools else bytes_ for base, bytes_ in enumerate(found.bytes))


def _chooses(execution: Execution) -> bool:
    return any(tensor.indirection is Indirection.VALUE for tensor in execution.shared.op.tensors)


def _filled(execution: Execution, arguments: Arguments) -> dict[int, int]:
    """Tensors of the pool that an execution writes."""
    op, offsets, bases = execution.shared.op, execution.shared.offsets, execution.bases
    if not any(base.parameter in arguments.pools for base in bases):
        return {}

    def locate(symbol: int) -> Address:
        base, byte = offsets[-1 - symbol]
        return bases[base] + byte

    return dict(filled_by(op, locate, arguments))


def _behind(execution: Execution, arguments: Arguments) -> Arguments:
    """The bases as arguments of their own."""
    bases = execution.bases
    return Arguments(
        tuple(arguments.behind(base) for base in bases),
        frozenset(number for number, base in enumerate(bases) if base.parameter in arguments.pools),
    )


def _lowered(execution: Execution, arguments: Arguments) -> _Template:
    shared = execution.shared
    offsets = shared.offsets
    own = _behind(execution, arguments)
    workspace = Workspace(len(execution.bases))
    steps = lowered_op(shared.op, lambda symbol: Address(*offsets[-1 - symbol]), own, workspace)
    return _Template(shared, tuple(with_known_numbers(step, shared.known) for step in steps), workspace.bytes)


def _bound(
    step: Step, name: str, bases: Sequence[Address | None], symbols: _Symbols, workspace: tuple[int, int]
) -> Step:
    def bound(operand: Operand) -> Operand:
        if not operand.kind.in_memory or operand.space is Space.SCRATCHPAD:
            return operand
        base = bases[operand.symbol]
        if base is not None and base.parameter in symbols.scalars:
            return _scalar(step, operand, symbols.scalars[base.parameter])
        symbol, byte = workspace if base is None else symbols.places[base.parameter or 0]
        byte += 0 if base is None else base.byte
        bytes_each = itemsize(operand.data_format)
        advance = operand.advance
        if base is not None and base.advance:
            advance = tuple(by // bytes_each for by in base.advance)
        o, offset = operand, operand.offset + byte // bytes_each
        element = (o.dtype, o.data_format)
        return Operand(o.kind, symbol, offset, o.strides, o.tile_stride, *element, o.space, o.owner, advance)

    return replace(
        step,
        name=name,
        inputs=tuple([bound(operand) for operand in step.inputs]),
        outputs=tuple([bound(operand) for operand in step.outputs]),
    )


def _scalar(step: Step, operand: Operand, number: int) -> Operand:
    moves = isinstance(step, Relayout) or any(
        stride for dim, stride in zip(step.dims, operand.strides, strict=True) if dim.extent > 1
    )
    if operand.kind is not OperandKind.SPLAT or moves or operand.offset:
        raise InternalError(f"{step.name}: takes a number of the launch for more than one value")
    return replace(operand, kind=OperandKind.SCALAR, symbol=number, strides=(0,) * len(operand.strides), tile_stride=0)
