"""`torch.spyre.predicted_time()`: what a real card would take for launches, whoever makes them."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import torch_spyre
from openspyre.clock import ClassTime
from openspyre.spec.machine import SPYRE
from torch_spyre import _torch
from torch_spyre.device.kernels import launch_kernel
from torch_spyre.device.predicted import PredictedLaunch
from torch_spyre.inductor.launching import launch as launching

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, while Inductor loads
predicted_time = torch.spyre.predicted_time


def half(*size: int) -> torch.Tensor:
    return torch.randn(*size).half().to("spyre")


def test_an_eager_addition_goes_through_memory_three_times() -> None:
    x, y = half(2048, 2048), half(2048, 2048)
    with predicted_time() as predicted:
        x + y
    (launch,) = predicted.launches
    assert (launch.name, launch.kernel_class) == ("aten::add.Tensor", "pointwise")
    least = 3 * 2 * 2048 * 2048 / SPYRE.device_memory_bytes_per_second * 1e6
    assert least < predicted.total_us < 2 * least
    assert predicted.low_us < predicted.total_us < predicted.high_us
    assert (predicted.copies, predicted.fallbacks, predicted.round_trips_us) == ((), (), 0)


def test_a_graph_takes_what_explain_says_of_its_bundle() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(512, 256), torch.nn.ReLU()).half().to("spyre").requires_grad_(False)
    x = half(128, 512)
    compiled = torch.compile(model)
    with predicted_time() as predicted:
        compiled(x)
    compiled_again = len(predicted.launches), predicted.total_us
    launching.clear()  # now it is found on disk, where its time is kept
    with predicted_time() as found:
        compiled(x)
    assert (len(found.launches), found.total_us) == compiled_again
    assert predicted.total_us == pytest.approx(torch_spyre.explain(model, x).totals.card_us)


def test_an_op_that_the_card_does_not_have_stands_apart() -> None:
    x = half(64, 128)
    with predicted_time() as predicted:
        torch.cumsum(x, -1)
    assert predicted.launches[-1].round_trips_us == predicted.round_trips_us > 2 * 2.0  # two transfers at least
    assert "round trips to the CPU, aten::cumsum" in str(predicted)


def test_copies_are_counted_by_their_bytes() -> None:
    host = torch.randn(1000, 1024).half()
    with predicted_time() as predicted:
        host.to("spyre").cpu()
    up, down = predicted.copies
    assert (up.to_card, up.bytes, down.to_card, down.bytes) == (True, host.nbytes, False, host.nbytes)
    assert up.time_us > host.nbytes / SPYRE.host_link_bytes_per_second * 1e6
    assert predicted.copies_us == up.time_us + down.time_us and predicted.total_us == 0


def test_a_copy_within_the_card_is_a_kernel_there() -> None:
    x, y = half(1024, 2048), half(2048, 1024)
    with predicted_time() as predicted:
        x.clone()
        y.copy_(x.t())
    assert [launch.kernel_class for launch in predicted.launches] == ["copy and broadcast", "layout move"]


def test_a_fallback_is_one_record_with_its_copies_in_it() -> None:
    x = half(64, 64)
    with predicted_time() as predicted:
        x.digamma()
    (fallback,) = predicted.fallbacks
    assert (fallback.name, fallback.bytes_to_host, fallback.bytes_to_card) == ("aten::digamma.out", 2 * 8192, 8192)
    assert predicted.copies == () and predicted.launches == ()
    assert "nothing was launched" in str(predicted)


def test_nested_ones_see_their_own_part() -> None:
    x = half(64, 64)
    with predicted_time() as outer:
        x + x
        with predicted_time() as inner:
            x * x
    x - x
    assert [launch.name for launch in outer.launches] == ["aten::add.Tensor", "aten::mul.Tensor"]
    assert [launch.name for launch in inner.launches] == ["aten::mul.Tensor"]


def test_each_thread_has_its_own_and_one_may_have_all() -> None:
    x, seen, inside = half(64, 64), [], threading.Barrier(2)

    def other() -> None:
        with predicted_time() as theirs:
            inside.wait()
            x + x
            x + x
            inside.wait()
        seen.append(theirs)

    thread = threading.Thread(target=other)
    with predicted_time() as mine, predicted_time(all_threads=True) as everybody:
        thread.start()
        inside.wait()
        x * x
        inside.wait()
        thread.join()
    assert (len(mine.launches), len(seen[0].launches), len(everybody.launches)) == (1, 2, 3)


def test_the_backward_pass_belongs_to_whoever_called_it() -> None:
    weight = half(512, 512).requires_grad_()
    loss = (half(256, 512) @ weight).sum()
    with predicted_time() as predicted:
        loss.backward()  # in a thread of autograd's
    assert "aten::mm" in [launch.name for launch in predicted.launches]


def test_nobody_records_after_an_error_and_nothing_twice() -> None:
    x = half(64, 64)
    with pytest.raises(ZeroDivisionError), predicted_time() as predicted:
        x + x
        assert len(predicted.launches) == 1  # it can be read while it is open
        raise ZeroDivisionError
    x + x
    assert len(predicted.launches) == 1
    with pytest.raises(RuntimeError, match="make another one"), predicted:
        pass


def test_a_kernel_of_a_directory_is_a_launch(tmp_path: Path) -> None:
    x = half(64, 128)
    (directory,) = torch_spyre.export_bundle(lambda x: x.exp(), x, directory=tmp_path / "exp", with_inputs=False)
    with predicted_time() as predicted:
        launch_kernel(directory, [x, torch.empty_like(x)])
    with predicted_time() as eager:
        x.exp()
    assert predicted.total_us == pytest.approx(eager.total_us) and predicted.total_us > 0


def test_what_it_says_reads_well() -> None:
    record = _torch.Recorder(False)
    record.start()
    for _ in range(3):
        _torch.tell_launch("graph7", (ClassTime("matmul", 75.0, 0.1), ClassTime("pointwise", 25.0, 0.02)))
    record.stop()
    predicted = predicted_time()
    predicted._recorder = record
    assert predicted.records == predicted.records != ()
    assert str(predicted).splitlines()[:3] == [
        "300.0 us on the card, nine of ten between 276.0 us and 324.0 us; 3 launch(es)",
        "  launch  times  class                          each       all  +-   share",
        "  graph7      3  matmul 75%, pointwise 25%  100.0 us  300.0 us  8%  100.0%",
    ]
    assert set(predicted.launches) == {PredictedLaunch("graph7", predicted.launches[0].classes)}


COLD = """
import torch
x = torch.ones(64, 64).half().to("spyre")
with torch.spyre.predicted_time() as predicted:
    torch.compile(lambda x: x.exp() + 1)(x)
assert [launch.name for launch in predicted.launches] == ["graph0"] and not predicted.copies, str(predicted)
"""


def test_what_torch_copies_for_itself_while_it_compiles_is_not_the_programs(tmp_path: Path) -> None:
    env = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    done = subprocess.run([sys.executable, "-c", COLD], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
