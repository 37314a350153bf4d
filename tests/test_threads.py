"""The result depends on the bundle and the inputs alone: bits are equal for 1, 2 and 7 threads, with the sanitizer and without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from journey import STEPS

PROGRAM = """
import hashlib, json
import torch
from journey import STEPS, inputs, results
card = {name: tensor.to("spyre") for name, tensor in inputs().items()}
hashes = {}

def bits(name):
    found = [result.cpu().contiguous().view(torch.uint8).numpy().tobytes() for result in results(name, card)]
    return hashlib.sha256(b"".join(found)).hexdigest()

for name in STEPS:
    hashes[name] = [bits(name), bits(name)]
print(json.dumps(hashes))
"""


def hashes(**environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "TORCH_SPYRE_FALLBACK": "error", **environment},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def alone():
    return hashes(OPENSPYRE_THREADS="1", OPENSPYRE_SANITIZE="0")


@pytest.mark.parametrize(
    "environment",
    [
        {"OPENSPYRE_THREADS": "2", "OPENSPYRE_SANITIZE": "0"},
        {"OPENSPYRE_THREADS": "7", "OPENSPYRE_SANITIZE": "0"},
        {"OPENSPYRE_THREADS": "7", "OPENSPYRE_SANITIZE": "1"},
        {"OPENSPYRE_THREADS": "1", "OPENSPYRE_SANITIZE": "1"},
        {"OPENSPYRE_THREADS": "2", "OPENSPYRE_ISA": "baseline"},
    ],
    ids=lambda environment: "-".join(environment.values()),
)
def test_bits_do_not_depend_on_threads_poison_or_instructions(alone, environment):
    found = hashes(**environment)
    assert set(found) == set(STEPS)
    assert [name for name in STEPS if found[name] != alone[name]] == []


def test_a_second_launch_gives_the_bits_of_the_first(alone):
    assert [name for name, (first, second) in alone.items() if first != second] == []
