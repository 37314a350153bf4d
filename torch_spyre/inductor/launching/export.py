"""`torch_spyre.export_bundle`: what a compiled function launches, as bundles in directories that run without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from openspyre.artifact.launch_files import write_launch
from openspyre.compiler import ir, pipeline
from openspyre.compiler.emit import Emitted, emit_bundle
from openspyre.spec.encodings import sen169_decode, sen169_encode
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import DataFormats, require_supported
from openspyre.tools.explaining.planned import Asked, write_asked
from torch_spyre.inductor.border import inductor_config
from torch_spyre.inductor.graph import DrawnWord, Number
from torch_spyre.inductor.graph import from_text as graph_from_text
from torch_spyre.inductor.launching import launch as launching
from torch_spyre.inductor.launching.specialise import imported
from torch_spyre.ops.numbers import integer_of
from torch_spyre.ops.programs import planned_machine, planning

LARGEST_FILE = 256 << 20  # bytes of an input that is written beside its bundle


def export_bundle(
    function: Callable[..., Any], *inputs: Any, directory: str | Path, with_inputs: bool = True
) -> list[Path]:
    """Compiles `function`, calls it once with `inputs`, and writes every launch of a compiled graph as `directory/launch_<k>`.

    Each holds `sdsc_*.json`, `bundle.mlir` and `launch_spec.json`, `graph.ir` and `planning.json` (what it was planned from), and with `with_inputs` the values its inputs had as .npy files:
    `openspyre run` computes the same numbers from it. What the process had compiled before compiles again at its next call.
    """
    target = Path(directory)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidArgument(
            f"export_bundle: {target} exists and is no empty directory; give another one, or empty it"
        )
    with _recording(with_inputs) as launches, inductor_config.patch(force_disable_caches=True):
        torch.compile(function)(*inputs)
    if not launches:
        raise InvalidArgument(
            "export_bundle: the function launched nothing on the card; are its inputs there (x.to('spyre')), "
            "and is any of its operations compiled (torch_spyre.compile_report() tells)?"
        )
    directories = [target / f"launch_{number}" for number in range(len(launches))]
    for launch, place in zip(launches, directories, strict=True):
        write_launch(launch.emitted, place, launch.values, launch.numbers)
        write_asked(place, launch.asked)
    return directories


@dataclass(frozen=True, slots=True)
class _Launch:
    """A launch: the bundle, and the values that its arguments had before."""

    asked: Asked
    emitted: Emitted
    values: dict[str, NDArray[Any]]
    numbers: dict[str, float]


@dataclass(slots=True)
class _Recorder:
    """Stands in for what generated code calls: remembers each launch and lets it happen."""

    with_inputs: bool
    texts: dict[int, tuple[Any, str]] = field(default_factory=dict)
    launches: list[_Launch] = field(default_factory=list)
    on: bool = True

    def open(self, key: str, text: str, device: int) -> Any:
        graph = _open_graph(key, text, device)
        self.texts[id(graph)] = (graph, text)
        return graph

    def launch(self, graph: Any, inputs: list[torch.Tensor], symbols: list[int], numbers: Sequence[Any] = ()) -> Any:
        if not self.on:
            return _launch_graph(graph, inputs, symbols, numbers)
        values = [_whole(tensor) if self.with_inputs else None for tensor in inputs]
        results = _launch_graph(graph, inputs, symbols, numbers)
        # Only now do the inputs lie as the program has them: it may have re-tiled weights for itself.
        found = imported(graph_from_text(self.texts[id(graph)][1]), inputs, symbols)
        if found.program.ops:
            asked = Asked(found.program, planned_machine(), planning())
            lowered = pipeline.run(asked.graph, asked.machine, asked.planning)
            known = {name: value for name, value in zip(found.inputs, values, strict=True) if value is not None}
            words = [*found.constants, *(_number(number, numbers) for number in found.numbers)]
            given = {
                s.name: _held(word, s.dtype) for s, word in zip(lowered.scalars, words, strict=True) if word is not None
            }
            emitted = emit_bundle(lowered, k_fast=asked.planning.k_fast)
            self.launches.append(_Launch(asked, emitted, _arguments(lowered, known), given))
        return results


_open_graph, _launch_graph = launching.open_graph, launching.launch


@contextmanager
def _recording(with_inputs: bool) -> Iterator[list[_Launch]]:
    """Code that is generated inside calls the recorder; none of it is kept for later calls."""
    recorder = _Recorder(with_inputs)
    torch.compiler.reset()
    launching.open_graph, launching.launch = recorder.open, recorder.launch  # type: ignore[assignment]
    try:
        yield recorder.launches
    finally:
        recorder.on = False
        launching.open_graph, launching.launch = _open_graph, _launch_graph
        torch.compiler.reset()


def _arguments(lowered: ir.Program, known: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Values of what the program reads."""
    read = {buffer.name for buffer in lowered.buffers if buffer.role in (ir.Role.INPUT, ir.Role.UPDATE)}
    return {name: value for name, value in known.items() if name in read}


def _whole(tensor: torch.Tensor) -> NDArray[Any] | None:
    """Host values of the buffer a tensor lies in; bfloat16 and fp8 as their bits. None if it is too large for a file."""
    from torch_spyre import _torch

    record = _torch.buffer_of(tensor)
    whole = torch.as_strided(tensor.detach(), record["host_size"], record["host_stride"], 0).cpu()
    if whole.nbytes > LARGEST_FILE:
        return None
    if whole.dtype is torch.bfloat16 or "float8" in str(whole.dtype):
        whole = whole.view(torch.uint16 if whole.itemsize == 2 else torch.uint8)
    return whole.numpy()


def _held(word: float, dtype: str) -> float:
    """As the launch brings it: rounded to its own dtype, also where an op takes it in a wider one."""
    narrow = "float" in dtype and require_supported(dtype).device is DataFormats.SEN169_FP16
    return float(sen169_decode(sen169_encode(np.float32(word)))) if narrow else word


def _number(number: Number | DrawnWord, given: Sequence[Any]) -> float | None:
    """What the launch brings for a number; None for a word of a random draw."""
    if isinstance(number, DrawnWord):
        return None
    value = given[number.place]
    value = value.item() if isinstance(value, torch.Tensor) else value
    if number.encoding == "int_below":
        return float(int(value) - 1)
    whole = integer_of(value, number.encoding) if "int" in number.encoding else None
    return float(value if whole is None else whole)
