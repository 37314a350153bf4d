"""The inputs of a fused step: those of both, each once, and where every one of them is found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from openspyre.backend.fusion.memory import in_memory
from openspyre.program.model import MAX_OPERANDS, Operand
from openspyre.spec.ops.expression import Lane


@dataclass(slots=True)
class Gathered:
    """Inputs in the order they were asked for; the same operand asked for again is the same input."""

    operands: list[Operand] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)

    def place(self, operand: Operand, lane: Lane) -> int:
        for place, (known, known_lane) in enumerate(zip(self.operands, self.lanes, strict=True)):
            if known == operand and known_lane is lane:
                return place
        self.operands.append(operand)
        self.lanes.append(lane)
        return len(self.operands) - 1

    def places(self, operands: Iterable[Operand], lanes: Iterable[Lane]) -> list[int]:
        return [self.place(operand, lane) for operand, lane in zip(operands, lanes, strict=True)]

    @property
    def fits(self) -> bool:
        return len(self.operands) <= MAX_OPERANDS

    @property
    def grid(self) -> tuple[bool, ...]:
        return tuple(on_grid(operand) for operand in self.operands)


def on_grid(operand: Operand) -> bool:
    """Whether what is loaded is a SEN169 value already (contract N1)."""
    return in_memory(operand) and operand.data_format == "SEN169_FP16"
