"""Ctrl-C while the host waits for the card: the wait ends, the work goes on, and the process can end."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

# One product takes far longer than an interrupt may, all of them together minutes.
PROGRAM = """
import signal, sys, torch
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in a shell's background would have it ignored
a = torch.randn(2048, 4096).half().to("spyre")
b = torch.randn(4096, 4096).half().to("spyre")
torch.spyre.synchronize()
event, side = torch.spyre.Event(), torch.spyre.Stream()
for _ in range(PRODUCTS):
    c = a @ b
event.record()
host, target = torch.ones(1000, 1000), torch.zeros(1000, 1000, device="spyre")
WAITS = {
    "synchronize": torch.spyre.synchronize,
    "stream": torch.spyre.current_stream().synchronize,
    "event": event.synchronize,
    "item": lambda: c[0, 0].item(),
    "to the host": c.cpu,
    "to the card": lambda: target.copy_(host),
}

def interrupted(wait):
    print("waiting", flush=True)
    try:
        wait()
    except KeyboardInterrupt:
        print("interrupted", torch.spyre.current_stream().query(), flush=True)
        return True
    print("not interrupted", flush=True)
    return False
"""
PATIENCE = 20.0  # seconds, for a host that has much else to do


@contextmanager
def running(program, products=400):
    """A program that talks to us line by line."""
    environment = {**os.environ, "OPENSPYRE_SANITIZE": "0"}
    command = [sys.executable, "-c", PROGRAM.replace("PRODUCTS", str(products)) + program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as child:
        try:
            yield child
        finally:
            child.kill()


def interrupt(child):
    """Sends Ctrl-C to a program that waits; what it says then."""
    assert child.stdout.readline().strip() == "waiting", child.communicate()[1]
    time.sleep(0.3)
    start = time.monotonic()
    child.send_signal(signal.SIGINT)
    answer = child.stdout.readline().strip()
    assert time.monotonic() - start < PATIENCE
    return answer


def test_every_wait_can_be_interrupted_and_the_queue_goes_on():
    program = """
for name, wait in WAITS.items():
    interrupted(wait)
with torch.spyre.stream(side):
    print((torch.arange(3.0).to("spyre") + 1).tolist(), flush=True)
print("waiting", flush=True)
torch.spyre.synchronize()
"""
    with running(program) as child:
        for _ in range(6):
            assert interrupt(child) == "interrupted False"  # the queue is not empty: it was not waited for
        assert child.stdout.readline().strip() == "[1.0, 2.0, 3.0]"  # the device is in use as before
        assert interrupt(child) == ""  # nobody catches this one: the program ends
        start = time.monotonic()
        _, errors = child.communicate(timeout=60)
        assert time.monotonic() - start < PATIENCE
        assert "KeyboardInterrupt" in errors and child.returncode in (130, -signal.SIGINT)


def test_what_was_queued_is_right_after_an_interrupt():
    program = """
import time
torch.spyre.synchronize()
small = torch.arange(64.0).reshape(8, 8).half()

def queued(products):
    global c
    for _ in range(products):
        c = a @ b
    d = small.to("spyre", non_blocking=True)
    for _ in range(20):
        d = d + 1
    return d

products = 4
while True:  # hosts differ: until there is enough to wait for
    d = queued(products)
    if interrupted(WAITS["to the card"]):
        break
    products *= 4
    try:
        time.sleep(60)  # the signal that came too late
    except KeyboardInterrupt:
        pass
host.fill_(7)  # what was lent is ours again: the copy that was interrupted has ended or never happens
print(torch.equal(d.cpu(), small + 20), target.unique().tolist() in ([0.0], [1.0]), flush=True)
"""
    with running(program, products=1) as child:
        assert any(interrupt(child).startswith("interrupted") for _ in range(6))
        assert child.stdout.readline().strip() == "True True"


@pytest.mark.parametrize("times", [1, 2])
def test_a_program_ends_at_once_when_nobody_catches_it(times):
    with running("print('waiting', flush=True)\ntry:\n    torch.spyre.synchronize()\nfinally:\n"
                 "    print('leaving', flush=True)\n" + "    torch.spyre.synchronize()\n" * (times - 1)) as child:  # fmt: skip
        assert interrupt(child) == "leaving"
        start = time.monotonic()
        if times == 2:
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
        assert time.monotonic() - start < PATIENCE
        assert "KeyboardInterrupt" in errors


def test_another_signals_handler_may_raise_what_it_likes():
    program = """
import signal
def handler(number, frame):
    raise TimeoutError("alarm")
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    torch.spyre.synchronize()
except TimeoutError as error:
    print(error, torch.spyre.current_stream().query(), flush=True)
"""
    with running(program) as child:
        assert child.stdout.readline().strip() == "alarm False"
