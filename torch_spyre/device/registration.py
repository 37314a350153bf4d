"""Registration of the device with torch: called once, at the end of `import torch`. Starts no card."""

import os

import torch

from openspyre.spec import errors, recent_errors
from openspyre.spec.logs import split_torch_logs
from torch_spyre import _torch, torch_seams
from torch_spyre.constants import DEVICE_NAME


def register() -> None:
    """Name the device, hang up `torch.spyre`, and install the seams."""
    from torch_spyre.device import api, libraries, replacements
    from torch_spyre.inductor.launching import artifacts

    _take_our_logs()
    _torch.connect(_configure, _raise_fault, _announce_fallback, _compile_call, _specialise, _planning_number)
    torch_seams.rename_backend()
    torch_seams.register_device_module(DEVICE_NAME, api)
    torch.utils.generate_methods_for_privateuse1_backend(  # type: ignore[attr-defined]
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    torch.Tensor.device_tensor_layout = api.device_tensor_layout  # type: ignore[attr-defined]
    torch.accelerator.manual_seed = api.manual_seed  # type: ignore[attr-defined]
    torch.accelerator.manual_seed_all = api.manual_seed_all  # type: ignore[attr-defined]
    replacements.install()
    libraries.install()
    artifacts.register()


logs_as_given: dict[str, str] = {}  # variables as the user set them, where we moved something; "" is none


def _take_our_logs() -> None:
    """torch refuses names in TORCH_LOGS that it does not know, and reads it after us: our entries move to OPENSPYRE_LOGS."""
    others, ours = split_torch_logs(os.environ.get("TORCH_LOGS", ""))
    if ours:
        logs_as_given.update({name: os.environ.get(name, "") for name in ("TORCH_LOGS", "OPENSPYRE_LOGS")})
        # Behind what is there already: of two entries about one logger the later wins.
        os.environ["OPENSPYRE_LOGS"] = ",".join(filter(None, (os.environ.get("OPENSPYRE_LOGS"), ours)))
        if others:
            os.environ["TORCH_LOGS"] = others
        else:
            del os.environ["TORCH_LOGS"]


def _configure() -> None:
    """Read the switches and configure the cards: first use of the device, and not before."""
    from torch_spyre.device import start

    start.configure()


def _raise_fault(fault: str, message: str) -> None:
    recent_errors.note(fault, message)
    raise torch.OutOfMemoryError(message) if fault == "OutOfMemory" else errors.by_fault[fault](message)


def _announce_fallback(operator: str, mode: str) -> None:
    from torch_spyre.ops import fallbacks

    fallbacks.announce(operator, mode)


def _compile_call(operator: str, arguments: list[object]) -> object:
    from torch_spyre.ops import eager

    return eager.compile_call(operator, arguments)


def _specialise(
    key: str, text: str, inputs: list[torch.Tensor], symbols: list[int], offset_classes: list[int]
) -> object:
    from torch_spyre.inductor.launching import specialise

    return specialise.specialise(key, text, inputs, symbols, offset_classes)


def _planning_number() -> int:
    from torch_spyre.ops import programs

    return programs.planning_number()
