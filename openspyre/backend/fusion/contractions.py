"""A rule for contractions: a second operand that was only turned for them is read as it lay before, along k."""

from __future__ import annotations

from dataclasses import replace

from openspyre.backend.fusion.maps import code_of
from openspyre.backend.fusion.memory import itemsize
from openspyre.backend.fusion.nests import Reference, fit, lane_of
from openspyre.program.model import Contraction, LaneBlock, Loop, Operand, OperandKind, Step, StepKind
from openspyre.spec.formats import STICK_BYTES

_B = 1  # place of the second operand


def is_copy(step: Step) -> bool:
    """Whether a map moves bits, element by element."""
    if step.kind is not StepKind.MAP or (len(step.inputs), len(step.outputs)) != (1, 1):
        return False
    (source,), (target,) = step.inputs, step.outputs
    same = (source.dtype, source.data_format) == (target.dtype, target.data_format)
    code = code_of(step)
    return same and not code.instructions and code.results == (0,) and source.kind is target.kind is OperandKind.SPLAT


def reading_along_k(reader: Step, copy: Step) -> Step | None:
    """The contraction on the copy's source, where that has sticks along k."""
    contraction, lane, b = reader.contraction, lane_of(reader), reader.inputs[_B]
    if contraction is None or contraction.b_along_k or not is_copy(copy) or lane_of(copy).extent != 1:
        return None
    if itemsize(copy.outputs[0].data_format) != itemsize(b.data_format) or not _ends_with_a_block(reader, contraction):
        return None
    stick = STICK_BYTES // itemsize(b.data_format)
    points = _elements(reader, contraction, lane, stick)
    found = fit(points, Reference(False, 0), copy, Reference(True, 0))
    if found is None or found.frame.loops != points.loops:
        return None
    source = found.carried(copy.inputs[0])
    *strides, along_k, per_stick, row = source.strides
    whole = [source.offset, row, *(s for s, loop in zip(strides, reader.loops, strict=True) if loop.extent > 1)]
    if along_k != 1 or contraction.k_lanes != stick or any(step % stick for step in whole):
        return None
    if lane.lanes > stick and per_stick != stick * row:
        return None
    turned = Operand(
        OperandKind.VECTOR, source.symbol, source.offset, tuple(strides), 0, b.dtype, b.data_format, source.space
    )
    along = replace(contraction, b_row_stride=row, b_along_k=True)
    return replace(reader, inputs=(reader.inputs[0], turned), contraction=along)


def _ends_with_a_block(reader: Step, contraction: Contraction) -> bool:
    blocks = next((loop.extent for loop in reversed(reader.loops) if loop.reduced), 1)
    return contraction.k_extent == blocks * contraction.k_lanes


def _elements(reader: Step, contraction: Contraction, lane: LaneBlock, stick: int) -> Step:
    """The second operand, element by element: rows of a block of k, sticks of a block of n, lanes of a stick."""
    b = reader.inputs[_B]
    loops = (
        *(Loop(loop.extent) for loop in reader.loops),
        Loop(contraction.k_lanes),
        Loop(lane.lanes // stick),
        Loop(stick),
    )
    strides = (*b.strides, contraction.b_row_stride, b.tile_stride, 1)
    element = replace(b, kind=OperandKind.SPLAT, strides=strides, tile_stride=0)
    return Step(reader.name, StepKind.MAP, loops, LaneBlock(lane.lanes, 1, -1), (element,), ())
