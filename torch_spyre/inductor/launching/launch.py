"""What generated code calls: a graph is opened once, and each launch of it is one call into the C++ half."""

from __future__ import annotations

import torch

from torch_spyre import _torch
from torch_spyre.inductor.launching.growing import GrowingGraph

open_graph = _torch.CompiledGraph  # (key, text, device of a graph without inputs)
launch = _torch.launch_graph  # (graph, inputs, symbols, numbers=()): the tensors the graph makes, on the current stream
open_growing_graph = GrowingGraph  # the same for a graph with symbols
launch_growing = GrowingGraph.launch


def counts() -> dict[str, int]:
    """Launches of graphs, specialisations, and specialised programs kept."""
    launches, specialisations, programs = _torch.graph_counts()
    return {"launches": launches, "specialisations": specialisations, "programs": programs}


def clear() -> None:
    """Forget the specialised programs of all graphs in this process."""
    _torch.clear_graph_plans()


def get_raw_stream(device: int) -> int:
    """The stream generated code runs on; launches find it by themselves."""
    return torch.spyre.current_stream(device).stream_id  # type: ignore[attr-defined]
