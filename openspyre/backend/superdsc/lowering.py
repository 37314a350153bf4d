"""From a bundle to a program: the steps of every execution, in order. Nothing is placed, divided or reordered here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from openspyre.artifact.bundle import Bundle, addresses
from openspyre.artifact.bundle_function import Execute
from openspyre.artifact.superdsc import Indirection, SuperDsc
from openspyre.backend.superdsc.contraction import lower_contraction
from openspyre.backend.superdsc.extension import lower_extension
from openspyre.backend.superdsc.indexed import lower_indexed
from openspyre.backend.superdsc.instance import Arguments, Locate, Workspace, filled_by, instances
from openspyre.backend.superdsc.norms import lower_norm, lower_scale
from openspyre.backend.superdsc.pointwise import CASTS, Lowering, lower_copy, lower_pointwise
from openspyre.backend.superdsc.reduction import lower_exx2, lower_reduction
from openspyre.backend.superdsc.repeats import repeated
from openspyre.backend.superdsc.restickify import lower_restickify
from openspyre.backend.superdsc.shuffle import lower_shuffle
from openspyre.backend.superdsc.staging import lower_staged, needs_staging
from openspyre.backend.superdsc.topk import lower_topk
from openspyre.program.model import Node, Program, Space, Step, Use
from openspyre.program.tree import steps_of
from openspyre.program.verify import step_problems
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.hardware import HARDWARE
from openspyre.spec.ops import TABLE, Kind

_OWN: dict[str, Lowering] = {
    **dict.fromkeys(CASTS, lower_copy),
    "ReStickifyOpHBM": lower_restickify,
    "shuffle": lower_shuffle,
    "exx2": lower_exx2,
    "layernormscale": lower_scale,
    "layernormnorm": lower_norm,
    "batchmatmul": lower_contraction,
    "batchmatmulfp8": lower_contraction,
    "topkvalue": lower_topk,
    "topkindex": lower_topk,
}
# Several rows may be one op of the card: the first that takes the op's operands in their order.
_ROWS = {row.artifact: row for row in reversed(TABLE.values()) if row.artifact in HARDWARE and row.order is None}


def lowering_of(op: SuperDsc) -> Lowering | None:
    """How the card computes an op; None if it does not know it."""
    if any(tensor.indirection is Indirection.VALUE for tensor in op.tensors):
        return lower_indexed
    return lowering_of_name(op.op)


def lowering_of_name(op: str) -> Lowering | None:
    if op in _OWN:
        return _OWN[op]
    row = _ROWS.get(op.removesuffix("nonstick"))
    if row is None:
        return None
    match row.kind:
        case Kind.POINTWISE:
            return partial(lower_pointwise, row=row)
        case Kind.REDUCTION:
            return partial(lower_reduction, row=row)
    return None


def compile_bundle(bundle: Bundle, argument_bytes: Sequence[int]) -> Program:
    """The program of a bundle whose arguments have so many bytes: its symbols are the arguments in order."""
    workspace = Workspace(len(argument_bytes))
    indexed = any(tensor.indirection is Indirection.VALUE for op in bundle.ops.values() for tensor in op.tensors)
    filled: dict[int, int] = {}

    def steps(execute: Execute, iterations: tuple[int, ...]) -> list[Step]:
        arguments = Arguments(tuple(argument_bytes), frozenset({0} if bundle.has_pool else ()), filled)
        op, locate = bundle.ops[execute.file], addresses(execute, iterations)
        found = lowered_op(op, locate, arguments, workspace)
        if indexed:
            filled.update(filled_by(op, locate, arguments))
        return found

    body = repeated(bundle.function.body, steps)
    uses = tuple(_uses(bundle, body))
    return Program(bundle.name, bundle.argument_names, (), body, workspace.bytes, whole_sticks=True, uses=uses)


def _uses(bundle: Bundle, body: tuple[Node, ...]) -> Iterator[Use]:
    """Nothing says which arguments are fresh or lie apart; only a pool, which comes first, is nobody else's."""
    written = {o.symbol for step, _ in steps_of(body) for o in step.outputs if o.space is Space.MEMORY}
    for number in range(bundle.arguments):
        if bundle.has_pool and number == 0:
            yield Use.SCRATCH
        else:
            yield Use.SHARED if number in written else Use.READ


def lowering_problems(bundle: Bundle, argument_bytes: int) -> list[tuple[str, str]]:
    """Files whose op cannot become steps, and why. Executions of a file whose places lie alike are tried once."""
    sizes = [argument_bytes] * bundle.arguments
    found: dict[tuple[str, str], None] = {}
    tried: set[tuple[str, object]] = set()
    for execute in bundle.function.listed():
        for iteration in (0, 1):
            # Loops may be of any depth: an index too many moves nothing.
            iterations = (iteration,) * max((len(at.advance) for _, at in execute.symbols), default=0)
            form = (execute.file, _form(execute, iterations))
            if form in tried:
                continue
            tried.add(form)
            found |= dict.fromkeys((execute.file, what) for what in _problems_of(bundle, execute, iterations, sizes))
    return list(found)


def _form(execute: Execute, iterations: tuple[int, ...]) -> tuple[tuple[int, int | None, int], ...]:
    """How the places of an execution lie to each other: each one counted from the first of its argument."""
    first: dict[int | None, int] = {}
    form = []
    for symbol, address in execute.symbols:
        byte = address.at(iterations).byte
        form.append((symbol, address.parameter, byte - first.setdefault(address.parameter, byte)))
    return tuple(form)


def _problems_of(bundle: Bundle, execute: Execute, iterations: tuple[int, ...], sizes: Sequence[int]) -> Iterator[str]:
    try:
        arguments = Arguments(tuple(sizes), frozenset({0} if bundle.has_pool else ()))
        locate = addresses(execute, iterations)
        steps = lowered_op(bundle.ops[execute.file], locate, arguments, Workspace(len(sizes)))
    except InvalidArgument as error:
        yield str(error)
        return
    for step in steps:
        yield from step_problems(step, len(sizes) + 1, 0)


def lowered_op(op: SuperDsc, locate: Locate, arguments: Arguments, workspace: Workspace) -> list[Step]:
    """The steps of one execution of an op."""
    if op.extension is not None:
        return [lower_extension(op, op.extension, locate)]
    lower = lowering_of(op)
    if lower is None:
        raise InvalidArgument(
            f"{op.name}: opFuncName {op.op!r} is none the card knows (`openspyre ops --hardware` lists them)"
        )
    steps: list[Step] = []
    for instance in instances(op, locate, arguments):
        workspace.begin()
        steps += lower_staged(instance, workspace, lower) if needs_staging(instance) else lower(instance, workspace)
    return steps
