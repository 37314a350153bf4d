"""Sorted rows of a flat buffer: values, and the places they had."""

from __future__ import annotations

from dataclasses import replace

from openspyre.artifact.extensions.description import Description
from openspyre.backend.extensions.flat import flat_step
from openspyre.program.model import Step, StepKind


def lower(description: Description, step: Step) -> Step:
    return replace(flat_step(description), kind=StepKind.SORT, name=step.name)
