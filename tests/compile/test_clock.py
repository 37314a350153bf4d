"""What our compiler writes has a time: a bundle, and the program the back end makes of it before fusion."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import torch_spyre
from openspyre.artifact import read_bundle
from openspyre.backend.superdsc import compile_bundle
from openspyre.clock import KernelClass, Resource, time_bundle, time_directory
from openspyre.clock.kernels import Matmul, RoundTrip
from openspyre.clock.programs import time_program
from openspyre.compiler import pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.text import parse_program

GOLDEN = Path(pipeline.__file__).with_name("golden")
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, while Inductor loads


def exported(function: object, *tensors: torch.Tensor, directory: Path) -> Path:
    (launch,) = torch_spyre.export_bundle(function, *tensors, directory=directory)
    return launch


def test_a_block_is_timed_op_by_op(tmp_path: Path) -> None:
    x, w = torch.randn(512, 1024).half().to("spyre"), torch.randn(1024, 512).half().to("spyre")
    launch = exported(lambda x, w: torch.softmax(x @ w, -1), x, w, directory=tmp_path)
    timing = time_directory(launch)
    assert [step.item.op for step in timing.steps if step.item.op != "identity"] == [
        "batchmatmul", "max", "sub", "exp", "sum", "realdiv",
    ]  # fmt: skip
    (product,) = [step for step in timing.steps if isinstance(step.item.kernel, Matmul)]
    assert product.item.kernel.macs == 512 * 512 * 1024 and product.alone.kernel_class is KernelClass.MATMUL
    assert timing.host_us == 0 and timing.card_us > 2 * 2 * 512 * 512 / 150e3


def test_an_op_the_hardware_does_not_have_is_a_round_trip(tmp_path: Path) -> None:
    x = torch.randn(64, 128).half().to("spyre")
    timing = time_directory(exported(lambda x: torch.cumsum(x * 2, -1), x, directory=tmp_path))
    trips = [step for step in timing.steps if isinstance(step.item.kernel, RoundTrip)]
    assert trips and timing.host_us == pytest.approx(sum(step.time_us for step in trips))
    assert all(step.alone.kernel_class is KernelClass.EXTENSION for step in trips)
    assert trips[0].alone.part(Resource.HOST_LINK) > 0


def test_the_program_takes_what_its_bundle_takes(tmp_path: Path) -> None:
    x, w, b = (torch.randn(*size).half().to("spyre") for size in ((1024, 1024), (1024, 2048), (1024, 2048)))
    launch = exported(lambda x, w, b: torch.relu(x @ w + b) * b, x, w, b, directory=tmp_path)
    bundle = read_bundle(launch)
    program = compile_bundle(bundle, [1 << 30] * bundle.arguments)
    assert time_program(program).card_us == pytest.approx(time_bundle(bundle).card_us, rel=0.3)


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.ir")), ids=lambda path: path.stem)
def test_what_is_emitted_takes_as_long_as_its_files(golden: Path) -> None:
    emitted = emit_bundle(pipeline.run(parse_program(golden.read_text())))
    assert time_bundle(emitted) == time_bundle(emitted.bundle)
