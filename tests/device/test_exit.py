"""How a process ends: quietly, also right after a backward pass, whose threads belong to torch."""

import subprocess
import sys

BACKWARD = """
import torch
x = torch.randn(8, 70).to("spyre").requires_grad_()
w = torch.randn(70, 33).to("spyre").requires_grad_()
torch.relu(x @ w).sum().backward()
"""

THREAD = """
import threading
import torch
from torch_spyre import _torch
worker = threading.Thread(target=lambda: torch.spyre.set_device(0))
worker.start()
worker.join()
torch.ones(3).to("spyre")
_torch.let_autograd_rest()
_torch.let_autograd_rest()
print("at rest")
"""


def _start(program):
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_end_quietly_after_a_backward_pass():
    """Several at once, because only a loaded host lets a thread of autograd fall behind."""
    started = [_start(BACKWARD) for _ in range(4)]
    ends = [(*process.communicate(timeout=300), process.returncode) for process in started]
    assert ends == [("", "", 0)] * len(started)


def test_autograd_rests_without_a_backward_pass_of_the_user():
    process = _start(THREAD)
    assert process.communicate(timeout=300) == ("at rest\n", "") and process.returncode == 0
