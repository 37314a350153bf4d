"""Launches of compiled graphs: when they are specialised, in which layouts results come, streams, devices and threads."""

import gc
import os
import subprocess
import sys
import threading

import pytest
import torch

from openspyre.card import _card
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre import _torch
from torch_spyre.inductor.launching import launch

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch.compiler.reset()
    launch.clear()


def specialised(call):
    """How many programs a call had to find or compile."""
    before = launch.counts()["specialisations"]
    call()
    return launch.counts()["specialisations"] - before


def test_each_call_is_one_launch_and_the_second_specialises_nothing():
    compiled = torch.compile(lambda x, y: torch.relu(x) @ y + 1, dynamic=False)
    x, y = torch.randn(5, 70), torch.randn(70, 9)
    card = x.to("spyre"), y.to("spyre")
    assert specialised(lambda: compiled(*card)) == 1
    before = launch.counts()
    result = compiled(*card)
    after = launch.counts()
    assert after["launches"] - before["launches"] == 1
    assert after["specialisations"] == before["specialisations"]
    torch.testing.assert_close(result.cpu(), torch.relu(x) @ y + 1, rtol=1e-5, atol=1e-5)


def test_a_slice_that_wanders_by_whole_sticks_keeps_its_program():
    compiled = torch.compile(lambda x: x * 2 + x.sum(-1, keepdim=True), dynamic=False)
    host = torch.randn(12, 4, 128)
    cache = host.to("spyre")
    compiled(cache[3])
    for place in range(12):
        assert specialised(lambda place=place: compiled(cache[place])) == 0
        expected = host[place] * 2 + host[place].sum(-1, keepdim=True)
        torch.testing.assert_close(compiled(cache[place]).cpu(), expected, rtol=1e-5, atol=1e-5)
    columns = torch.compile(lambda x: x - 1, dynamic=False)
    columns(cache[:, :, 64:96])
    assert specialised(lambda: columns(cache[:, :, :32])) == 0
    assert torch.equal(columns(cache[:, :, :32]).cpu(), host[:, :, :32] - 1)
    assert specialised(lambda: columns(cache[:, :, 5:37])) == 1
    assert torch.equal(columns(cache[:, :, 5:37]).cpu(), host[:, :, 5:37] - 1)


def test_a_program_that_reaches_beyond_its_input_is_not_moved():
    def beyond(x):
        return torch.as_strided(x, (2, 80), (128, 1)) * 2

    host = torch.randn(6, 128)
    card = host.to("spyre")
    compiled = torch.compile(beyond, dynamic=False)
    for start in (0, 64, 32):
        part = card[1:3, start : start + 32]
        expected = host.as_strided((2, 80), (128, 1), 128 + start) * 2
        for _ in range(2):
            assert torch.equal(compiled(part).cpu(), expected), start


def test_results_come_in_the_layout_the_compiler_chose():
    x = torch.randn(70, 130)
    turned = SpyreTensorLayout([70, 130], [130, 1], torch.float32, [1, 0])
    card = x.to("spyre", device_layout=turned)
    compiled = torch.compile(lambda x: torch.exp(x) + 1, dynamic=False)
    result = compiled(card)
    assert result.device_tensor_layout() == turned
    torch.testing.assert_close(result.cpu(), torch.exp(x) + 1)
    default = compiled(x.to("spyre"))
    assert default.device_tensor_layout() != turned
    assert torch.equal(default.cpu(), result.cpu())


def test_equal_graphs_share_their_programs():
    layers = [torch.nn.Linear(64, 64) for _ in range(3)]
    x = torch.randn(4, 64)
    expected = [layer(x) for layer in layers]
    card = [layer.to("spyre") for layer in layers]
    y = x.to("spyre")
    with torch.no_grad():
        compiled = [torch.compile(layer, dynamic=False) for layer in card]
        compiled[0](y)
        for call, wanted in zip(compiled[1:], expected[1:], strict=True):
            assert specialised(lambda call=call: call(y)) == 0
            torch.testing.assert_close(call(y).cpu(), wanted, rtol=1e-4, atol=1e-4)


def test_a_graph_without_inputs_runs_on_its_device():
    compiled = torch.compile(lambda: torch.arange(7, device="spyre") * 2 + 1, dynamic=False)
    for _ in range(2):
        assert compiled().cpu().tolist() == [1, 3, 5, 7, 9, 11, 13]


def test_an_empty_result_needs_no_program():
    compiled = torch.compile(lambda x: x[:0] * 2, dynamic=False)
    assert compiled(torch.ones(3, 5).to("spyre")).shape == (0, 5)


def test_sizes_in_a_dynamic_graph_are_specialised_once_each():
    compiled = torch.compile(lambda x: torch.softmax(x, -1) * x.shape[0], dynamic=True)
    compiled(torch.randn(3, 70).to("spyre"))
    for rows, new in ((5, 1), (9, 1), (5, 0), (9, 0)):
        x = torch.randn(rows, 70)
        card = x.to("spyre")
        assert specialised(lambda card=card: compiled(card)) == new
        torch.testing.assert_close(compiled(card).cpu(), torch.softmax(x, -1) * rows, rtol=1e-4, atol=1e-5)


def test_programs_that_were_not_used_for_longest_are_forgotten():
    compiled = torch.compile(lambda x: x.flip(0) + 1, dynamic=True)  # which is not padded: a program per size
    _torch.limit_graph_plans(4)
    try:
        for rows in range(2, 20):
            compiled(torch.zeros(rows, 3).to("spyre"))
        assert launch.counts()["programs"] <= 4
        assert torch.equal(compiled(torch.zeros(2, 3).to("spyre")).cpu(), torch.ones(2, 3))
    finally:
        _torch.limit_graph_plans(1024)


def test_an_updated_input_is_waited_for():
    def step(x, y):
        x.add_(y)
        return x * 2

    compiled = torch.compile(step, dynamic=False)
    x, y = torch.zeros(300, 70), torch.ones(300, 70)
    card, other = x.to("spyre"), y.to("spyre")
    for count in range(1, 20):
        doubled = compiled(card, other)
        assert card[299, 69].item() == count
        assert doubled[0, 0].item() == 2 * count


def test_launches_go_to_the_current_stream():
    compiled = torch.compile(lambda x: x * 2, dynamic=False)
    x = torch.ones(500, 70).to("spyre")
    compiled(x)
    stream = torch.spyre.Stream()
    with torch.spyre.stream(stream):
        event = torch.spyre.Event()
        result = compiled(x)
        event.record()
    event.synchronize()
    assert torch.equal(result.cpu(), torch.full((500, 70), 2.0))


def test_threads_share_a_graph():
    compiled = torch.compile(lambda x: torch.relu(x) + 1, dynamic=False)
    x = torch.randn(8, 70)
    card = x.to("spyre")
    compiled(card)
    wrong = []

    def work(rows):
        for _ in range(30):
            if not torch.equal(compiled(card).cpu(), torch.relu(x) + 1):
                wrong.append(rows)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_graph_refuses_tensors_of_other_devices():
    compiled = torch.compile(lambda x: x + 1, dynamic=False)
    compiled(torch.ones(3).to("spyre"))
    graph = _torch.CompiledGraph("a graph nobody opened", "{}", 0)
    with pytest.raises(RuntimeError, match="must be on one card"):
        _torch.launch_graph(graph, [torch.ones(3)], [])
    with pytest.raises(TypeError, match="takes tensors"):
        _torch.launch_graph(graph, [3], [])


SECOND_CARD = """
import torch
compiled = torch.compile(lambda x: torch.relu(x) + 1, dynamic=False)
made = torch.compile(lambda: torch.zeros(3, device="spyre:1") + 4, dynamic=False)
x = torch.randn(5, 70)
for device in ("spyre:1", "spyre:0", "spyre:1"):
    result = compiled(x.to(device))
    assert str(result.device) == device, result.device
    assert torch.equal(result.cpu(), torch.relu(x) + 1)
assert str(made().device) == "spyre:1" and made().cpu().tolist() == [4.0] * 3
assert torch.spyre.current_device() == 0
"""


def test_inputs_on_another_card(tmp_path):
    environment = os.environ | {"OPENSPYRE_CARDS": "2", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", SECOND_CARD], check=True, env=environment)


def test_compiling_leaves_garbage_collection_as_it_was():
    x = torch.ones(3, 5, device="spyre")
    for before in (True, False):
        (gc.enable if before else gc.disable)()
        try:
            torch.compiler.reset()
            torch.compile(lambda x: x + 7)(x)
            assert gc.isenabled() == before
        finally:
            gc.enable()


def test_an_imported_graph_is_forgotten_with_its_compilation():
    from torch_spyre.inductor import graph_registry  # loads Inductor, which warns

    before = set(graph_registry._graphs)
    compiled = torch.compile(lambda x: x.exp() * 7 - 3, dynamic=False)
    assert torch.equal(compiled(torch.zeros(3).to("spyre")).cpu(), torch.full((3,), 4.0))
    torch.compiler.reset()
    gc.collect()
    assert set(graph_registry._graphs) <= before


def test_a_launch_that_the_card_refuses_gives_its_memory_back():
    compiled = torch.compile(lambda x, y: (x @ y).flip(0).cumsum(0) @ x, dynamic=False)
    x, y = torch.eye(70).to("spyre"), torch.eye(70).to("spyre")
    compiled(x, y)
    torch.spyre.synchronize()
    used = torch.spyre.memory_allocated()
    card = _card.card(0)
    card.lose("somebody pulled it out")
    try:
        for _ in range(3):
            with pytest.raises(RuntimeError, match="somebody pulled it out"):
                compiled(x, y)
    finally:
        card.reset()
    assert torch.spyre.memory_allocated() == used
    assert torch.equal(compiled(x, y).cpu(), torch.eye(70).flip(0).cumsum(0))
