"""The SpyreCode view of a program: what a runtime prepares and executes, as inspectable data.

Preparation: memory for the program in its segment, the program's image brought there. Execution: the host writes the launch's
addresses and scalars into a correction, which goes to the card, where the program patches itself and then computes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from openspyre.program.model import Program
from openspyre.program.text import print_program
from openspyre.spec.formats import STICK_BYTES
from openspyre.spec.machine import SPYRE, Machine

IMAGE_FILE = "init.bin"
_WORD = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Allocate:
    """Memory of the program's segment for image and correction."""

    size: int


@dataclass(frozen=True, slots=True)
class InitTransfer:
    """The program's image goes to the card, once."""

    init_bin_file: str
    dev_ptr: int
    size: int


@dataclass(frozen=True, slots=True)
class ComputeOnHost:
    """The host makes a correction from what a launch supplies: `inputs` name its words in order."""

    ihandle: str
    inputs: tuple[str, ...]
    ohandle: str
    size: int
    hcm: str = "program_correction"


@dataclass(frozen=True, slots=True)
class DataTransfer:
    """Bytes between a host buffer and the card."""

    to_host: bool
    host_handle: str
    size: int
    dev_ptr: int


@dataclass(frozen=True, slots=True)
class ComputeOnDevice:
    """The cores run the program whose image begins there."""

    job_bin_ptr: int


Preparation = Allocate | InitTransfer
Execution = ComputeOnHost | DataTransfer | ComputeOnDevice


@dataclass(frozen=True, slots=True)
class JobPlan:
    name: str
    preparation: tuple[Preparation, ...]
    execution: tuple[Execution, ...]


def job_plan(program: Program, machine: Machine = SPYRE) -> JobPlan:
    """The plan of a program; a program that takes nothing from its launch needs no correction."""
    base = machine.segment_base(machine.program_segment)
    image_bytes = _sticks(len(image(program)))
    words = correction_words(program)
    correction_bytes = _sticks(len(words) * _WORD.size)
    execution: tuple[Execution, ...] = (ComputeOnDevice(base),)
    if words:
        execution = (
            ComputeOnHost("launch", words, "correction", correction_bytes),
            DataTransfer(False, "correction", correction_bytes, base + image_bytes),
            *execution,
        )
    preparation = (Allocate(image_bytes + correction_bytes), InitTransfer(IMAGE_FILE, base, image_bytes))
    return JobPlan(program.name, preparation, execution)


def image(program: Program) -> bytes:
    """What the preparation brings to the card: this card's programs are their own text."""
    return print_program(program).encode()


def correction_words(program: Program) -> tuple[str, ...]:
    """Names of what a launch supplies, in order: addresses, the pool's last, then scalars."""
    addresses = [*program.symbols, *(["pool"] if program.pool_bytes else [])]
    return (*(f"address of {name}" for name in addresses), *(f"scalar {name}" for name in program.scalars))


def _sticks(count: int) -> int:
    return -(-count // STICK_BYTES) * STICK_BYTES


def spyre_code(plan: JobPlan) -> dict[str, list[dict[str, object]]]:
    """The plan in the fields of `spyrecode.json`: numbers are decimal texts."""
    return {
        "JobPreparationPlan": [_command(step) for step in plan.preparation],
        "JobExecPlan": [_command(step) for step in plan.execution],
    }


def _command(step: Preparation | Execution) -> dict[str, object]:
    match step:
        case Allocate(size=size):
            properties: dict[str, object] = {"size": str(size)}
        case InitTransfer():
            properties = {"init_bin_file": step.init_bin_file, "dev_ptr": str(step.dev_ptr), "size": str(step.size)}
        case ComputeOnHost():
            properties = {
                "ihandle": step.ihandle,
                "ishape": [str(len(step.inputs))],
                "ohandle": step.ohandle,
                "size": str(step.size),
                "hcm": {"function": step.hcm, "words": list(step.inputs)},
            }
        case DataTransfer():
            properties = {
                "dirn": "true" if step.to_host else "false",
                "host_handle": step.host_handle,
                "size": str(step.size),
                "dev_ptr": str(step.dev_ptr),
            }
        case ComputeOnDevice(job_bin_ptr=pointer):
            properties = {"job_bin_ptr": str(pointer)}
    return {"command": type(step).__name__, "properties": properties}


def problems(plan: JobPlan, machine: Machine = SPYRE) -> list[str]:
    """What a runtime would refuse; empty for every plan made here."""
    found = []
    if len(plan.preparation) < 2 or not isinstance(plan.preparation[0], Allocate):
        found.append("preparation must have at least two steps and begin with Allocate")
    kinds = [type(step) for step in plan.execution]
    if kinds[:1] == [ComputeOnHost] and kinds != [ComputeOnHost, DataTransfer, ComputeOnDevice]:
        found.append("a correction must be made on the host, transferred, then computed with")
    base = machine.segment_base(machine.program_segment)
    for pointer in _pointers(plan):
        if not base <= pointer < base + machine.segment_bytes or pointer % STICK_BYTES:
            found.append(f"address {pointer:#x} is no stick of the program's segment, which begins at {base:#x}")
    return found


def _pointers(plan: JobPlan) -> list[int]:
    steps = (*plan.preparation, *plan.execution)
    moved = [step.dev_ptr for step in steps if isinstance(step, (InitTransfer, DataTransfer))]
    return [*moved, *(step.job_bin_ptr for step in steps if isinstance(step, ComputeOnDevice))]
