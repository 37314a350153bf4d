"""torch.spyre.counters(): numbers from sizes on paper, in the right place, from all threads, in every process its own."""

import json
import os
import subprocess
import sys
import threading

import pytest
import torch


def ask(program, **environment):
    """What a process of its own prints last, as JSON."""
    call = [sys.executable, "-W", "ignore::UserWarning", "-c", program]
    done = subprocess.run(call, env=os.environ | environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def counted():
    """A function that tells what was counted since the test began."""
    torch.spyre.synchronize()
    torch.spyre.reset_counters()
    yield torch.spyre.counters
    torch.spyre.reset_counters()


def on_card(*size):
    return torch.randn(size).half().to("spyre")


def test_a_product_is_counted_by_its_sizes():
    x, y = on_card(256, 512), on_card(512, 128)
    x @ y  # compiled now
    torch.spyre.reset_counters()
    for _ in range(3):
        x @ y
    now = torch.spyre.counters()
    assert (now.launches, now.macs) == (3, 3 * 256 * 512 * 128)
    assert now.memory_read_bytes >= 3 * 2 * (256 * 512 + 512 * 128)
    assert now.memory_written_bytes >= 3 * 2 * 256 * 128
    assert (now.plan_hits, now.plan_misses, now.compiles, now.fallbacks) == (3, 0, 0, 0)
    assert 0 < now.pt_utilisation < 1 and 0 < now.memory_bytes_per_second < 400e9


def test_an_addition_of_64_elements_moves_three_sticks(counted):
    x = on_card(64)
    torch.spyre.reset_counters()
    x + x
    now = counted()
    assert (now.launches, now.steps, now.macs, now.extension_ops) == (1, 1, 0, 0)
    assert (now.memory_read_bytes, now.memory_written_bytes) == (2 * 128, 128)


def test_copies_are_counted_by_way_and_bytes(counted):
    x = torch.randn(100, 64).half().to("spyre")
    y = x.clone()
    x.cpu()
    now = counted()
    assert (now.copies_to_card, now.to_card_bytes) == (1, 2 * 100 * 64)
    assert (now.copies_from_card, now.from_card_bytes) == (1, 2 * 100 * 64)
    before = counted()
    torch.empty(64, 100, dtype=torch.float16, device="spyre").copy_(y.t())
    after = counted()
    assert after.copies_within - before.copies_within == 1 and after.relayouts - before.relayouts == 1
    assert after.within_bytes - before.within_bytes == 2 * 100 * 64


def test_streams_add_up_to_their_card_and_cards_to_the_process(counted):
    x = on_card(64)
    torch.spyre.synchronize()
    torch.spyre.reset_counters()
    stream = torch.spyre.Stream()
    with torch.spyre.stream(stream):
        x + x, x + x
    x + x
    now = counted()
    torch.spyre.synchronize()  # before x goes, which the other stream reads
    streams = now.cards[0].streams
    assert (streams[stream.stream_id].launches, streams[0].launches) == (2, 1)
    assert dict(now.cards[0]) == {name: sum(one[name] for one in streams.values()) for name in streams[0]}
    assert now.launches == sum(card.launches for card in now.cards.values()) == 3


def test_a_fallback_and_an_extension_are_told_apart(counted):
    x = torch.randn(4, 8).to("spyre")
    torch.spyre.reset_counters()
    torch.cdist(x, x)
    fallback = counted()
    assert fallback.fallbacks == 1 and fallback.extension_ops == 0 and fallback.from_card_bytes >= 4 * 4 * 8
    x.half().cumsum(1)
    now = counted()
    assert now.fallbacks == 1 and now.extension_ops == 1


def test_what_waits_is_seen_and_gone_after_a_wait(counted):
    x, y = on_card(1024, 1024), on_card(64)
    for _ in range(8):
        x @ x
    y + y
    assert counted().queue_depth >= 1
    torch.spyre.synchronize()
    assert counted().queue_depth == 0


def test_no_count_is_lost_between_threads(counted):
    x, host = on_card(64), torch.randn(64).half()
    x + x
    targets = [on_card(64) for _ in range(4)]
    torch.spyre.reset_counters()

    def work(target):
        for _ in range(200):
            x + x
            target.copy_(host)

    threads = [threading.Thread(target=work, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    now = counted()
    assert (now.launches, now.steps, now.copies_to_card, now.to_card_bytes) == (800, 800, 800, 800 * 128)


def test_it_is_also_a_dictionary(counted):
    on_card(64) + 1
    now = counted()
    assert dict(now)["launches"] == now["launches"] == now.launches == 1
    assert "text_cache_hits" in now and "cards" not in now and len(now) == len(list(now))
    with pytest.raises(KeyError):
        now["cards"]


COMPILED = """
import json, torch
x = torch.randn(64, 64).half().to("spyre")
call = torch.compile(lambda x: torch.softmax(x @ x, -1), dynamic=False)
call(x)
first = torch.spyre.counters()
call(x), call(x)
now = torch.spyre.counters()
print(json.dumps(dict(
    compiles=first.compiles, hits=first.text_cache_hits, misses=first.plan_misses, launches=first.launches,
    thrice=[now[name] == 3 * first[name] for name in ("launches", "steps", "macs", "memory_read_bytes", "predicted_ns")],
    again=[now.compiles - first.compiles, now.plan_misses - first.plan_misses, now.plan_hits - first.plan_hits])))
"""


def test_compiled_graphs_count_compilations_and_what_the_disk_had(tmp_path):
    environment = {"OPENSPYRE_CACHE_DIR": str(tmp_path / "ours"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torchs")}
    first, second = ask(COMPILED, **environment), ask(COMPILED, **environment)
    assert first == {"compiles": 1, "hits": 0, "misses": 1, "launches": 1, "thrice": [True] * 5, "again": [0, 0, 2]}
    assert second == dict(first, compiles=0, hits=1)  # the same work, though nothing was compiled


def test_two_cards_count_apart():
    found = ask(
        """
import json, torch
a, b = torch.ones(64).half().to("spyre:0"), torch.ones(64).half().to("spyre:1")
b + b, b + b, a + a
cards = torch.spyre.counters().cards
print(json.dumps([[index, card.launches, card.copies_to_card] for index, card in cards.items()]))
""",
        OPENSPYRE_CARDS="2",
    )
    assert found == [[0, 1, 1], [1, 2, 1]]


def test_a_forked_child_has_counters_of_its_own():
    found = ask("""
import json, os, torch
x = torch.ones(64).half().to("spyre")
x + x
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, json.dumps([torch.spyre.counters().launches, os.path.exists(f"/proc/self/fd/{0}")]).encode())
    os._exit(0)
os.wait()
x + x
print(json.dumps([json.loads(os.read(read, 99))[0], torch.spyre.counters().launches]))
""")
    assert found == [0, 2]


@pytest.mark.parametrize("limit", ["RLIMIT_FSIZE", "RLIMIT_NOFILE"])
def test_counters_that_cannot_be_shown_are_told_once_and_count_on(limit):
    found = ask(f"""
import json, os, resource, warnings
import torch
from openspyre.spec.errors import MonitorWarning
torch.spyre.init()
import torch_spyre.ops.calls
before = resource.getrlimit(resource.{limit})
low = 1000 if "{limit}" == "RLIMIT_FSIZE" else len(os.listdir("/proc/self/fd")) - 1
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    resource.setrlimit(resource.{limit}, (low, before[1]))
    x = torch.empty(64, dtype=torch.float16, device="spyre")
    resource.setrlimit(resource.{limit}, before)
    x.fill_(1)
    x + x, x + x
told = [str(one.message) for one in told if one.category is MonitorWarning]
print(json.dumps([told, torch.spyre.counters().launches, x.tolist()[0]]))
""")
    told, launches, value = found
    assert len(told) == 1 and "`openspyre smi` cannot see this process" in told[0]
    assert launches == 3 and value == 1.0
