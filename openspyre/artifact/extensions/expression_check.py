"""Whether a row's expression can take an op's operands and attributes: it is traced, as the back end will."""

from __future__ import annotations

from math import prod

from openspyre.artifact.extensions.description import Description, Iota, Operand
from openspyre.artifact.fields import Problems
from openspyre.spec.ops import TABLE, Fold, Kind
from openspyre.spec.ops.expression import Lane, Value, trace
from openspyre.spec.ops.row_expression import Along

_INDEX_FOLDS = (Fold.ARG_MAX, Fold.ARG_MIN)


def check_expression(description: Description, problems: Problems) -> None:
    """Attributes come from a file: a body may refuse them in any way, and all of them are the file's fault."""
    try:
        results = _results(description)
    except Exception as error:
        found = f"{dict(description.attributes)} for {len(description.inputs)} operands ({error})"
        problems.say("openspyre_.attributes", found[:300], f"operands and attributes {description.row} can take")
        return
    outputs = len(description.outputs)
    if results is None:
        return
    row = TABLE[description.row]
    is_row = row.kind is Kind.ROWS
    # Statistics of a normalisation and the value at an index may be left out, results of other ops may not.
    fewest = 1 if is_row or row.fold in _INDEX_FOLDS else len(results)
    if not fewest <= outputs <= len(results):
        problems.say("openspyre_", f"{outputs} outputs", f"{len(results)}, what {description.row} returns")
    elif is_row:
        _check_stored(description, results, problems)


def _check_stored(description: Description, results: tuple[Lane, ...], problems: Problems) -> None:
    """What leaves a row is stored as it is: a number in fp32 has no way into an integer. Truth is made of anything."""
    for index, (output, lane) in enumerate(zip(description.outputs, results, strict=False)):
        if _lane(output) is not Lane.BOOL and (_lane(output) is Lane.FLOAT) is not (lane is Lane.FLOAT):
            found = f"{output.dtype} for a result in {'fp32' if lane is Lane.FLOAT else 'int32'}"
            problems.say(f"openspyre_.outputs[{index}].dtype", found, "a dtype of the result's kind")


def _results(description: Description) -> tuple[Lane, ...] | None:
    """What the row returns; None where it has no expression."""
    row = TABLE[description.row]
    body = row.body
    if row.kind is Kind.REDUCTION and body is None:
        value = _lane(description.inputs[0])
        return (value, Lane.INT) if row.fold in _INDEX_FOLDS else (value,)
    if row.kind not in (Kind.POINTWISE, Kind.CREATION, Kind.RANDOM, Kind.REDUCTION, Kind.ROWS) or body is None:
        return None
    is_row = row.kind is Kind.ROWS
    along = (Along(prod(dim.size for dim in description.dims if dim.reduced)),) if is_row else ()
    attributes = dict(description.attributes) if is_row else {}
    count = row.operands if row.kind is Kind.REDUCTION else len(description.inputs)
    found: list[Value] = []

    def captured(*values: Value) -> tuple[Value, ...]:
        returned = body(*along, *values, **attributes)
        found.extend(returned if isinstance(returned, tuple) else (returned,))
        # A normalisation is cut into stages: its whole expression may need more registers than one step has.
        return values[:1] if is_row else tuple(found)

    trace(captured, tuple(_lane(operand) for operand in description.inputs[:count]))
    return tuple(value.lane for value in found)


def _lane(operand: Operand) -> Lane:
    dtype = "int32" if isinstance(operand, Iota) else operand.dtype
    return Lane.BOOL if dtype == "bool" else Lane.FLOAT if "float" in dtype else Lane.INT
