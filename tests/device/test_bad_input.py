"""Mistakes: each gets its own exception that names the object, the limit and the way out, and the device stays usable."""

import multiprocessing
import pickle
from pathlib import Path

import pytest
import torch

from openspyre.spec.errors import BadFork, InvalidLayout, ValueOutOfRange
from torch_spyre.torch_seams import NotShareable

Layout = torch.spyre.SpyreTensorLayout


@pytest.fixture(autouse=True)
def _still_usable(no_leak):
    yield
    assert (torch.ones(3).to("spyre") + 1).cpu().tolist() == [2, 2, 2]


def test_int64_beyond_int32_names_index_and_value():
    with pytest.raises(ValueOutOfRange, match=r"\[1, 2\].*-3000000000"):
        torch.tensor([[1, 2, 3], [4, 5, -3_000_000_000]]).to("spyre")
    limit = torch.tensor([2**31 - 1, -(2**31)])
    assert torch.equal(limit.to("spyre").cpu(), limit)


def test_layouts_that_do_not_fit():
    wrong = Layout([40, 60], torch.float16)
    with pytest.raises(InvalidLayout, match=r"33"):
        torch.empty(33, 700, dtype=torch.float16, device="spyre", device_layout=wrong)
    x = torch.ones(33, 70, dtype=torch.float16).to("spyre")
    with pytest.raises(InvalidLayout):
        torch.spyre.set_spyre_tensor_layout(x, Layout([10, 10], torch.float16))
    assert x.cpu().eq(1).all()
    with pytest.raises(InvalidLayout, match=r"CPU|cpu|spyre"):
        torch.empty(33, device="cpu", device_layout=wrong)
    with pytest.raises(InvalidLayout, match="SpyreTensorLayout"):
        torch.ones(3).to("spyre", device_layout="default")
    with pytest.raises(ValueError, match="Unsupported tensor rank: 7"):
        Layout([2] * 7, torch.float16)
    with pytest.raises(ValueError, match="pickle version: 9"):
        pickle.loads(pickle.dumps(wrong).replace(b"K\x03", b"K\x09", 1))


def test_copies_between_mismatched_shapes():
    x = torch.zeros(3, 4, device="spyre")
    with pytest.raises(RuntimeError, match=r"expand|size"):
        x.copy_(torch.zeros(3, 5))
    with pytest.raises(RuntimeError, match=r"expand|size"):
        torch.zeros(2).copy_(x)


def test_sparse_tensors_are_refused():
    with pytest.raises(NotImplementedError, match="sparse"):
        torch.empty(3, 3, device="spyre", layout=torch.sparse_coo)


def test_more_memory_than_card_or_host():
    with pytest.raises(torch.OutOfMemoryError, match=r"200\.00 GiB.*free.*largest"):
        torch.empty(200 * 2**30, dtype=torch.int8, device="spyre")
    with pytest.raises(torch.OutOfMemoryError, match=r"(?is)host"):
        torch.empty(100 * 2**30, dtype=torch.int8, device="spyre")
    assert torch.spyre.memory_stats()["num_ooms"] >= 2


def test_memory_is_not_shared():
    x = torch.ones(3).to("spyre")
    for action in (
        x.share_memory_,
        x.__dlpack__,
        lambda: torch.utils.dlpack.to_dlpack(x),
        lambda: torch.from_dlpack(x),
    ):
        with pytest.raises(NotShareable, match=r"x\.cpu\(\)"):
            action()
    with pytest.raises(TypeError, match="cpu"):
        x.numpy()


def test_handles_are_not_addresses():
    x = torch.ones(3).to("spyre")
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, permissions, *_ = line.split()
        low, high = (int(edge, 16) for edge in span.split("-"))
        assert not (low <= x.data_ptr() < high) or permissions.startswith("---")


def _use_card(queue):
    try:
        torch.ones(2).to("spyre")
        queue.put("worked")
    except Exception as problem:
        queue.put((type(problem).__name__, str(problem)))


def test_a_forked_child_gets_a_clear_error():
    torch.ones(2).to("spyre")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_use_card, args=(queue,))
    child.start()
    answer = queue.get(timeout=60)
    child.join(60)
    assert answer[0] == BadFork.__name__ and "spawn" in answer[1] and child.exitcode == 0


def test_dataloader_workers_run_beside_the_card():
    x = torch.ones(2).to("spyre")
    data = torch.utils.data.TensorDataset(torch.arange(20.0))
    loader = torch.utils.data.DataLoader(data, batch_size=5, num_workers=2, multiprocessing_context="fork")
    total = sum(batch.to("spyre").sum().item() for (batch,) in loader)
    assert total == 190 and x.cpu().sum().item() == 2
