"""Every seam names something the installed torch has, every wrapper is in place and reachable back, and nothing else was changed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torch_spyre import _torch
from torch_spyre.torch_seams import SEAMS, original_of, resolve

# Changed by torch itself, when the backend gets its name and when Inductor first meets one.
_BY_TORCH = {
    "torch._C._profiler.ProfilerActivity.__repr__",
    "torch._C._profiler.ProfilerActivity.__str__",
    "torch._C._autograd.DeviceType.__repr__",
    "torch._C._autograd.DeviceType.__str__",
    "torch._opaque_base._FakeScriptObject_cls",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while Inductor loads
@pytest.mark.parametrize("seam", SEAMS, ids=lambda seam: seam.symbol)
def test_a_seam_is_pinned(seam):
    from torch_spyre.inductor import backend

    backend.register()  # the last ones to be put in place
    found = resolve(seam.symbol)
    assert found is not None and seam.why and seam.remove_when and torch.__version__.startswith(seam.since)
    if seam.replaced:
        assert callable(original_of(found))
    if seam.extended:
        assert _torch.takes_device_layout(found)


def test_no_symbol_stands_twice():
    assert len({seam.symbol for seam in SEAMS}) == len(SEAMS)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # as above
def test_the_table_has_every_symbol_that_differs_from_torch_alone():
    script = Path(__file__).with_name("changed_symbols.py")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True, check=True, timeout=300
    )
    found = json.loads(run.stdout)
    changed = {*found["replaced"], *found["new"]} - _BY_TORCH
    assert sorted(changed) == sorted(_home(s.symbol) for s in SEAMS if s.replaced or s.added)
    # The types torch.FloatTensor, torch.sparse.HalfTensor and so on hold the methods of TensorBase.
    extended = {re.sub(r"^torch\.(\w+\.)*\w*Tensor(Base)?\.", "torch.Tensor.", name) for name in found["extended"]}
    assert sorted(extended) == sorted(seam.symbol for seam in SEAMS if seam.extended)


def _home(symbol: str) -> str:
    """The name under which a class is defined, rather than exported."""
    owner, _, name = symbol.rpartition(".")
    holder = resolve(owner)
    return f"{holder.__module__}.{holder.__qualname__}.{name}" if isinstance(holder, type) else symbol
