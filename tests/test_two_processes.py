"""Compiler and card in two processes with nothing between them but bundle directories.

The first process never computes: its card is the null card. The second can import neither torch nor the compiler.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from journey import STEPS, inputs, results

COMPILE = """
import json, sys
from pathlib import Path
from journey import STEPS, inputs
from openspyre.artifact import write_launch
from torch_spyre.ops import eager, programs

card = {name: tensor.to("spyre") for name, tensor in inputs().items()}
names = {tensor.untyped_storage().data_ptr(): name for name, tensor in card.items()}
emit_one, compile_one = programs.emit_bundle, eager.compile_call
bundles, calls = [], []

def keep_bundle(program, **options):
    bundles.append(emit_one(program, **options))
    return bundles[-1]

def keep_call(operator, values):
    plan = compile_one(operator, values)
    calls.append((eager.Call(eager._bindings[operator.removeprefix("aten::")][0], values), plan))
    return plan

programs.emit_bundle, eager.compile_call = keep_bundle, keep_call
for step, work in STEPS.items():
    bundles.clear(), calls.clear()
    work(card)
    (bundle,), ((call, plan),) = bundles, calls
    write_launch(bundle, Path(sys.argv[1]) / step)
    tensors = [a for a in bundle.arguments if a.role in ("input", "output", "update")]
    numbers = {a.name for a in bundle.arguments if a.role == "number"}
    given = [names[call.tensors[s].untyped_storage().data_ptr()] if s >= 0 else None for s in plan.symbols]
    about = {
        "inputs": {tensor.name: name for tensor, name in zip(tensors, given) if name},
        "outputs": [tensor.name for tensor, symbol in zip(tensors, plan.symbols) if symbol < 0],
        "scalars": {n: call.values[place] for n, (place, _) in zip(bundle.scalars, plan.scalars) if n in numbers},
    }
    (Path(sys.argv[1]) / f"{step}.json").write_text(json.dumps(about))
"""

RUN = """
import json, sys
sys.modules["torch"] = sys.modules["openspyre.compiler"] = None  # importing either is an error from here on
from openspyre.tools.command import main
assert all(main(command) == 0 for command in json.loads(sys.argv[1]))
"""


def _process(program, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        env={**os.environ, **environment},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A directory with a bundle, a note of its call and a directory of results per step."""
    root = tmp_path_factory.mktemp("bundles")
    _process(COMPILE, str(root), OPENSPYRE_CARD="null", TORCH_SPYRE_FALLBACK="error")
    for name, tensor in inputs().items():
        np.save(root / f"{name}.npy", tensor.numpy())
    commands = [_command(root, step) for step in STEPS]
    _process(RUN, json.dumps(commands), OPENSPYRE_CACHE_DIR=str(root / "cache"), OPENSPYRE_CARD="software")
    return root


def _command(root, step):
    about = json.loads((root / f"{step}.json").read_text())
    files = [f"--input={name}={root / tensor}.npy" for name, tensor in about["inputs"].items()]
    numbers = [f"--set={name}={value}" for name, value in about["scalars"].items()]
    return ["run", str(root / step), *files, *numbers, "--out", str(root / f"{step}.out")]


@pytest.mark.parametrize("step", STEPS)
def test_a_bundle_is_all_the_card_needs(ran, step):
    about = json.loads((ran / f"{step}.json").read_text())
    written = json.loads((ran / f"{step}.out" / "results.json").read_text())
    expected = results(step, {name: _as_on_the_card(tensor) for name, tensor in inputs().items()})
    for name, wanted in zip(about["outputs"], expected, strict=True):
        found = torch.from_numpy(np.load(ran / f"{step}.out" / written[name]["file"]))
        assert found.dtype == wanted.dtype
        _close(found, wanted)


def _as_on_the_card(tensor):
    """A 16-bit input loses its last bit on the card: the host computes with what the card has."""
    return tensor.to("spyre").cpu() if tensor.dtype is torch.float16 else tensor


def _close(found, wanted):
    """One rounding to the format for 16 bits; in fp32 the order of a thousand additions."""
    if not wanted.dtype.is_floating_point:
        assert torch.equal(found, wanted)
    elif wanted.dtype is torch.float16:
        torch.testing.assert_close(found, wanted, rtol=2**-9, atol=2**-12)
    else:
        torch.testing.assert_close(found, wanted, rtol=2**-18, atol=2**-18)
