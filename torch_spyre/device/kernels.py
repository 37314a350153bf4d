"""A bundle of a directory as a kernel: prepared once, launched with tensors of the card.

The way existing Spyre code runs what a back end left on disk; graphs and eager calls launch in the C++ half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from openspyre.artifact import read
from openspyre.artifact.model import Buffer, Bundle
from openspyre.backend import FuseSteps, compile_bundle
from openspyre.backend.job_plan import JobPlan, job_plan
from openspyre.backend.spyre_code import FOLDER, read_spyre_code
from openspyre.card import programs
from openspyre.card.cards import settings_in_force
from openspyre.program.footprint import footprints
from openspyre.spec.errors import InvalidArgument
from openspyre.tools.compile import compiled
from openspyre.tools.documented import is_documented
from torch_spyre import _torch
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.layouts import device_tensor_layout
from torch_spyre.device.streams import current_stream, synchronize


@dataclass(frozen=True, slots=True)
class PreparedKernel(JobPlan):
    """A job plan whose program the cards of this process hold. Without a manifest, arguments go by their bytes."""

    bundle: Bundle | None
    loaded: programs.LoadedProgram


def prepare_kernel(directory: str | Path) -> PreparedKernel:
    """The kernel of a directory: SpyreCode that a back end left there, or a bundle, which is compiled first."""
    _torch.ensure_configured()
    settings = settings_in_force()
    path, bundle = Path(directory), None
    if (path / FOLDER).exists():
        plan, program = read_spyre_code(path, settings.machine)
    else:
        bundle = None if is_documented(path) else read(path, settings.machine)
        program = compiled(path, []) if bundle is None else compile_bundle(bundle)
        program = FuseSteps().run(program) if settings.fusion else program
        plan = job_plan(program)
    return PreparedKernel(plan.name, plan.preparation, plan.execution, bundle, programs.load(program))


def launch_jobplan(
    plan: PreparedKernel, tensors: Sequence[torch.Tensor], scalars: Mapping[str, int | float] | None = None
) -> None:
    """Run a prepared kernel on the tensors of its manifest, in its order: outputs are written into. Waits for it."""
    if plan.bundle is None:
        _launch_by_bytes(plan, tensors)
        return
    arguments = plan.bundle.arguments
    if len(tensors) != len(arguments):
        names = ", ".join(f"{buffer.name} ({buffer.role.value})" for buffer in arguments)
        raise InvalidArgument(
            f"kernel {plan.name!r} takes {len(arguments)} tensors, {names}; {len(tensors)} were given"
        )
    for buffer, tensor in zip(arguments, tensors, strict=True):
        _check(plan.name, buffer, tensor)
    card = tensors[0].device.index if tensors else torch.spyre.current_device()
    synchronize(card)  # whatever stream the tensors were written on
    places = {b.name: int(_torch.buffer_of(tensor)["address"]) for b, tensor in zip(arguments, tensors, strict=True)}
    plan.loaded.run_at(places, scalars, card, current_stream(card).stream_id)


def _launch_by_bytes(plan: PreparedKernel, tensors: Sequence[torch.Tensor]) -> None:
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
    places = {}
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
        places[name] = int(held["address"])
    card = tensors[0].device.index if tensors else torch.spyre.current_device()
    synchronize(card)  # whatever stream the tensors were written on
    plan.loaded.run_at(places, {}, card, current_stream(card).stream_id)


def launch_kernel(
    kernel: str | Path | PreparedKernel,
    tensors: Sequence[torch.Tensor],
    scalars: Mapping[str, int | float] | None = None,
) -> None:
    """As launch_jobplan; a directory is prepared first."""
    launch_jobplan(kernel if isinstance(kernel, PreparedKernel) else prepare_kernel(kernel), tensors, scalars)


def _check(kernel: str, buffer: Buffer, tensor: torch.Tensor) -> None:
    """A program goes by addresses: what lies there must be what it was compiled for."""
    found = (
        tensor.device.type,
        str(tensor.dtype).removeprefix("torch."),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        tensor.storage_offset(),
        device_tensor_layout(tensor),
    )
    wanted = (DEVICE_NAME, buffer.dtype, tuple(buffer.size), tuple(buffer.stride), 0, buffer.layout)
    if found != wanted:
        what = ("device", "dtype", "size", "stride", "storage offset", "layout")
        differs = [f"{n} {f}, not {w}" for n, f, w in zip(what, found, wanted, strict=True) if f != w]
        raise InvalidArgument(f"kernel {kernel!r}, tensor {buffer.name!r}: it has {'; '.join(differs)}")
