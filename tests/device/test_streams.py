"""Streams and events from torch: order, overlap, waiting, errors."""

import threading

import pytest
import torch

from openspyre.spec.errors import CardLost, ValueOutOfRange


def test_stream_objects_and_pools():
    assert torch.spyre.current_stream() == torch.spyre.default_stream() and torch.spyre.default_stream().stream_id == 0
    low = [torch.spyre.Stream() for _ in range(33)]
    assert {s.stream_id for s in low} == set(range(1, 33)) and low[0].stream_id == low[32].stream_id
    high = torch.spyre.Stream(priority=-1)
    assert 33 <= high.stream_id <= 64 and high.priority == -1 and low[0].priority == 0
    assert low[0].device() == torch.device("spyre:0")
    assert isinstance(torch.Stream(device="spyre"), torch.Stream)


def test_with_stream_switches_and_restores():
    stream = torch.spyre.Stream("spyre:0")
    with torch.spyre.stream(stream):
        assert torch.spyre.current_stream() == stream == torch.accelerator.current_stream()
        with stream:
            x = torch.ones(100, device="spyre")
    assert torch.spyre.current_stream() == torch.spyre.default_stream()
    stream.synchronize()
    assert stream.query() and x.cpu().sum().item() == 100


def test_events_order_streams_and_measure_time():
    a, b = torch.spyre.Stream(), torch.spyre.Stream()
    start, end = torch.spyre.Event(enable_timing=True), torch.spyre.Event(enable_timing=True)
    host = torch.randn(2000, 500).pin_memory()
    with a:
        start.record()
        x = host.to("spyre", non_blocking=True)
        end.record()
    b.wait_event(end)
    b.wait_stream(a)
    with b:
        y = torch.empty_like(x).copy_(x)
        done = b.record_event()
    done.synchronize()
    assert done.query() and torch.equal(y.cpu(), host)
    assert start.elapsed_time(end) > 0
    with pytest.raises(ValueError, match="recorded"):
        torch.spyre.Event(enable_timing=True).elapsed_time(end)
    x.record_stream(b)


def test_an_asynchronous_error_surfaces_at_the_next_synchronisation_and_only_there():
    bad, good = torch.spyre.Stream(), torch.spyre.Stream()
    values = torch.tensor([1, 2, 2**40]).pin_memory()
    with bad:
        x = values.to("spyre", non_blocking=True)
    with good:
        y = torch.arange(3.0).pin_memory().to("spyre", non_blocking=True)
    good.synchronize()
    assert y.cpu().tolist() == [0, 1, 2]
    with pytest.raises(ValueOutOfRange, match=r"copy host to device failed.*1099511627776"):
        bad.synchronize()
    bad.synchronize()
    with bad:
        assert torch.ones(2).to("spyre").cpu().tolist() == [1, 1]
    del x


def test_a_lost_card_refuses_work_and_comes_back():
    x = torch.ones(3, device="spyre")
    torch.spyre.synchronize()  # work still queued would be lost with the card
    with torch.spyre.fault_injection(0, "pulled out"):
        with pytest.raises(CardLost, match="pulled out"):
            x.copy_(torch.zeros(3))
        with pytest.raises(CardLost):
            torch.ones(3).to("spyre")
    assert x.cpu().tolist() == [1, 1, 1]
    assert (x + 1).cpu().tolist() == [2, 2, 2]


def test_threads_have_their_own_current_stream_and_share_the_card():
    problems = []

    def work(seed):
        try:
            stream = torch.spyre.Stream()
            with stream:
                for i in range(20):
                    x = torch.full((50, 70), float(seed * 100 + i)).to("spyre")
                    assert (x + 1).cpu().eq(seed * 100 + i + 1).all()
            assert torch.spyre.current_stream().stream_id == 0
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
