"""Profiles and traces: what torch.profiler tells of the card is read back from the files it writes."""

import json

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

BOTH = (ProfilerActivity.CPU, ProfilerActivity.PrivateUse1)


@pytest.fixture
def traced(tmp_path):
    """Runs something in a profile; the profile, and the events of its Chrome trace."""

    def run(work, **options):
        options.setdefault("activities", BOTH)
        with profile(**options) as found:
            work()
        path = tmp_path / "trace.json"
        found.export_chrome_trace(str(path))
        return found, json.loads(path.read_text())

    return run


@pytest.fixture
def block():
    """A small compiled model, warm, and an input on the host."""

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.norm, self.down = (
                torch.nn.Linear(256, 512),
                torch.nn.LayerNorm(512),
                torch.nn.Linear(512, 256),
            )

        def forward(self, x):
            h = self.norm(self.up(x))
            h = torch.nn.functional.gelu(h)
            return self.down(h)

    torch.compiler.reset()
    torch.manual_seed(0)
    model, x = Block().half().to("spyre"), torch.randn(64, 256).half()
    compiled = torch.compile(model)
    with torch.no_grad():
        compiled(x.to("spyre"))
        model(x.to("spyre"))
    torch.spyre.synchronize()
    return model, compiled, x
