"""A bundle of a directory as a kernel: prepared once, launched with tensors of the card.

The way existing Spyre code runs what a back end left on disk; graphs and eager calls launch in the C++ half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from openspyre.artifact.bundle import read_bundle
from openspyre.artifact.launch_spec import Argument, read_launch_spec
from openspyre.backend import FuseSteps
from openspyre.backend.job_plan import JobPlan, job_plan
from openspyre.backend.spyre_code import FOLDER, read_spyre_code
from openspyre.card import _card, cards, programs
from openspyre.card.cards import settings_in_force
from openspyre.clock import ClassTime, time_bundle
from openspyre.clock.counting import launch_work, steps_work
from openspyre.clock.programs import time_program
from openspyre.program.footprint import footprints
from openspyre.spec.addressing import row_major
from openspyre.spec.errors import InvalidArgument
from openspyre.tools.compile import compiled
from openspyre.tools.launch_images import number_image
from openspyre.tools.launches import image_of
from torch_spyre import _torch
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.layouts import device_tensor_layout
from torch_spyre.device.streams import current_stream, synchronize

_TENSORS = ("input", "output", "update")


@dataclass(frozen=True, slots=True)
class PreparedKernel(JobPlan):
    """A job plan whose program the cards of this process hold. Without a launch spec, arguments go by their bytes."""

    spec: tuple[Argument, ...] | None
    images: dict[int, bytes]  # what a launch spec brings itself: constants, and numbers that have a value
    loaded: programs.LoadedProgram
    predicted: tuple[ClassTime, ...]  # how long a real card would take


def prepare_kernel(directory: str | Path) -> PreparedKernel:
    """The kernel of a directory: SpyreCode that a back end left there, or a bundle, which is compiled first."""
    _torch.ensure_configured()
    settings = settings_in_force()
    path = Path(directory)
    spec = read_launch_spec(path)
    if (path / FOLDER).exists():
        plan, program = read_spyre_code(path, settings.machine)
        timing = time_program(program, settings.machine)
        work = steps_work(timing, settings.machine)
    else:
        program = compiled(path, [])
        bundle = read_bundle(path)
        timing = time_bundle(bundle, settings.machine)
        work = launch_work(bundle, timing, settings.machine)
        program = FuseSteps().run(program) if settings.fusion else program
        plan = job_plan(program)
    if spec is not None and len(spec) != len(program.symbols):
        raise InvalidArgument(f"{path}: launch_spec.json has {len(spec)} arguments, the kernel {len(program.symbols)}")
    known = [
        (number, argument) for number, argument in enumerate(spec or ()) if argument.role in ("number", "constant")
    ]
    images = {number: image for number, argument in known if (image := image_of(argument, path)) is not None}
    loaded = programs.load(program, work)
    return PreparedKernel(plan.name, plan.preparation, plan.execution, spec, images, loaded, timing.by_class())


def launch_jobplan(
    plan: PreparedKernel, tensors: Sequence[torch.Tensor], scalars: Mapping[str, int | float] | None = None
) -> None:
    """Run a prepared kernel on its tensors, in their order: outputs are written into. Waits for it.

    With a launch spec these are its inputs, outputs and updates, and `scalars` are its numbers by name; otherwise all arguments.
    """
    card = (
        tensors[0].device.index if tensors and tensors[0].device.type == DEVICE_NAME else torch.spyre.current_device()  # type: ignore[attr-defined]
    )
    names = plan.loaded.program.symbols
    held: Sequence[object]
    if plan.spec is None:
        places, held = _by_bytes(plan, tensors)
    else:
        places, held = _by_spec(plan, plan.spec, tensors, scalars or {}, cards.get(card))
    synchronize(card)  # whatever stream the tensors were written on
    plan.loaded.run_at(dict(zip(names, places, strict=True)), {}, card, current_stream(card).stream_id)
    del held  # it was needed until here
    _torch.tell_launch(plan.name, plan.predicted)


def _by_spec(
    plan: PreparedKernel,
    spec: tuple[Argument, ...],
    tensors: Sequence[torch.Tensor],
    scalars: Mapping[str, int | float],
    card: _card.Card,
) -> tuple[list[int], list[_card.Buffer]]:
    """Addresses in the order of the spec, and the memory of what is no tensor of the caller's."""
    wanted = [argument for argument in spec if argument.role in _TENSORS]
    if len(tensors) != len(wanted):
        told = ", ".join(f"{argument.name} ({argument.role})" for argument in wanted)
        raise InvalidArgument(f"kernel {plan.name!r} takes {len(wanted)} tensors, {told}; {len(tensors)} were given")
    for argument, tensor in zip(wanted, tensors, strict=True):
        _check(plan.name, argument, tensor)
    given = iter(tensors)
    places, held = [], []
    for number, argument in enumerate(spec):
        if argument.role in _TENSORS:
            places.append(int(_torch.buffer_of(next(given))["address"]))
            continue
        image = _number(plan, number, argument, scalars) if argument.role == "number" else plan.images.get(number)
        memory = card.allocate(max(128, argument.bytes))
        if image is not None:
            memory.write_memory(image)
        held.append(memory)
        places.append(memory.address)
    return places, held


def _number(plan: PreparedKernel, number: int, argument: Argument, scalars: Mapping[str, int | float]) -> bytes:
    if argument.name in scalars and argument.layout is not None:
        return number_image(scalars[argument.name], argument.layout)
    if number not in plan.images:
        raise InvalidArgument(f"kernel {plan.name!r} needs a number for {argument.name!r}: give it among `scalars`")
    return plan.images[number]


def _by_bytes(plan: PreparedKernel, tensors: Sequence[torch.Tensor]) -> tuple[list[int], Sequence[torch.Tensor]]:
    """Arguments in the order of the bundle's parameters; the pool, which is the first of them, may be left out."""
    names = plan.loaded.program.symbols
    touched = footprints(plan.loaded.program)
    if "pool" in names and len(tensors) == len(names) - 1:
        size = max(128, touched[0].end if 0 in touched else 128)
        tensors = [
            torch.empty(size // 2, dtype=torch.float16, device=tensors[0].device if tensors else DEVICE_NAME),
            *tensors,
        ]
    if len(tensors) != len(names):
        raise InvalidArgument(
            f"kernel {plan.name!r} takes {len(names)} tensors, {', '.join(names)}; {len(tensors)} were given"
        )
    places = []
    for number, (name, tensor) in enumerate(zip(names, tensors, strict=True)):
        if tensor.device.type != DEVICE_NAME or tensor.storage_offset() != 0:
            raise InvalidArgument(
                f"kernel {plan.name!r}, {name}: a tensor of the card that begins its storage is wanted"
            )
        held = _torch.buffer_of(tensor)
        needed = touched[number].end if number in touched else 0
        if held["device_bytes"] < needed:
            raise InvalidArgument(
                f"kernel {plan.name!r}, {name}: it has {held['device_bytes']} bytes, the kernel reaches byte {needed - 1}"
            )
        places.append(int(held["address"]))
    return places, tensors


def launch_kernel(
    kernel: str | Path | PreparedKernel,
    tensors: Sequence[torch.Tensor],
    scalars: Mapping[str, int | float] | None = None,
) -> None:
    """As launch_jobplan; a directory is prepared first."""
    launch_jobplan(kernel if isinstance(kernel, PreparedKernel) else prepare_kernel(kernel), tensors, scalars)


def _check(kernel: str, argument: Argument, tensor: torch.Tensor) -> None:
    """A program goes by addresses: what lies there must be what it was compiled for."""
    found = (
        tensor.device.type,
        str(tensor.dtype).removeprefix("torch."),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        tensor.storage_offset(),
        device_tensor_layout(tensor),
    )
    stride = row_major(argument.size) if argument.stride is None else argument.stride
    wanted = (DEVICE_NAME, argument.dtype, argument.size, tuple(stride), 0, argument.layout)
    if found != wanted:
        what = ("device", "dtype", "size", "stride", "storage offset", "layout")
        differs = [f"{n} {f}, not {w}" for n, f, w in zip(what, found, wanted, strict=True) if f != w]
        raise InvalidArgument(f"kernel {kernel!r}, tensor {argument.name!r}: it has {'; '.join(differs)}")
