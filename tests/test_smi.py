"""`openspyre smi` beside real processes: it sees them at once, forgets them when they are killed, and neither side harms the other."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from openspyre.spec.counters import LAYOUT, MAGIC, MEMORY_NAME, TOTAL_BYTES
from openspyre.tools.command import main
from openspyre.tools.monitoring.processes import published
from openspyre.tools.monitoring.samples import Monitor

WORKER = """
import sys, time, torch
x = torch.randn(256, 256).half().to("spyre")
x @ x
torch.spyre.synchronize()
print("ready", flush=True)
until = sys.argv[1]
while until == "busy":
    x @ x
    torch.spyre.synchronize()
sys.stdin.read()
"""


@contextmanager
def worker(*arguments, program=WORKER, **environment):
    """A process that uses a card; it is ready when the block begins and killed at its end."""
    call = [sys.executable, "-c", program, *(arguments or ("idle",))]
    process = subprocess.Popen(
        call, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def of(sample, pid):
    return next((process for process in sample.processes if process.pid == pid), None)


def smi(*arguments, timeout=60, **environment):
    call = [sys.executable, "-m", "openspyre.tools.command", "smi", *arguments]
    return subprocess.run(call, env=os.environ | environment, capture_output=True, text=True, timeout=timeout)


def test_a_process_is_seen_within_a_second_and_a_killed_one_is_gone_within_two():
    with closing(Monitor()) as monitor:
        with worker() as process:
            start = time.monotonic()
            seen = of(monitor.sample(0.1), process.pid)
            assert seen is not None and time.monotonic() - start < 1
            process.kill()
            start = time.monotonic()
            while of(monitor.sample(0.1), process.pid):
                assert time.monotonic() - start < 2
        assert all(one.pid != process.pid for one in published())


def test_rates_are_those_of_the_work():
    with worker("busy") as process, closing(Monitor()) as monitor:
        (card,) = of(monitor.sample(1.0), process.pid).cards
        assert card.busy > 0.3 and card.launches_per_second > 20
        assert card.memory_total_bytes > card.memory_used_bytes >= 2 * 256 * 256
        assert 0 < card.pt_utilisation < 1 and 0 < card.memory_bytes_per_second < 400e9
        assert card.counts.macs == card.counts.launches * 256**3
        process.send_signal(signal.SIGSTOP)
        monitor.sample(0.2)
        assert of(monitor.sample(0.2), process.pid).cards[0].launches_per_second == 0


def test_the_table_and_the_json_tell_the_same():
    with worker(OPENSPYRE_CARDS="3") as process:
        told = json.loads(smi("--json", "-d", "0.2", OPENSPYRE_CARDS="2").stdout)
        (found,) = [one for one in told["processes"] if one["pid"] == process.pid]
        assert (found["visible"], [card["index"] for card in found["cards"]]) == (3, [0])
        assert found["cards"][0]["counts"]["launches"] == 1
        assert len(told["cards"]) == 2
        text = smi("-d", "0.2", OPENSPYRE_CARDS="2").stdout
    cards, processes = re.search(r"card +processes(.*?)\n\n(.*)", text, re.DOTALL).groups()
    assert [line.split()[0] for line in cards.splitlines()[1:]][:3] == ["0", "1", "2"]  # as many as anybody sees
    assert re.search(rf"^ *{process.pid} +0 +\S+ \S+ of ", processes, re.MULTILINE)


def test_dmon_writes_a_line_a_sample():
    with worker() as process:
        done = smi("dmon", "-c", "3", "-d", "0.2")
        lines = [line.split() for line in done.stdout.splitlines() if f" {process.pid} " in line]
        assert done.returncode == 0 and len(lines) == 3 and done.stdout.startswith("time ")
        told = [json.loads(line) for line in smi("dmon", "--json", "-c", "2", "-d", "0.1").stdout.splitlines()]
        assert [process.pid in [one["pid"] for one in row["processes"]] for row in told] == [True, True]


def test_a_pipe_that_ends_and_an_interrupt_are_no_errors():
    call = [sys.executable, "-m", "openspyre.tools.command", "smi", "dmon", "--json", "-d", "0.1"]
    reader = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    reader.stdout.readline()
    reader.send_signal(signal.SIGINT)
    assert reader.communicate(timeout=30)[1] == "" and reader.returncode == 0
    reader = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    reader.stdout.readline()
    reader.stdout.close()
    assert reader.stderr.read() == "" and reader.wait(timeout=30) == 141
    reader.stderr.close()


@pytest.mark.parametrize(
    "arguments", [["bottom"], ["dmon", "-d", "0"], ["dmon", "-c", "x"], ["top", "--json"], ["top"]]
)
def test_a_command_line_that_makes_no_sense_is_refused(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(["smi", *arguments])
    assert end.value.code == 2 and "openspyre smi: error" in capsys.readouterr().err


def segment(image: bytes) -> int:
    descriptor = os.memfd_create(MEMORY_NAME, os.MFD_CLOEXEC)
    os.write(descriptor, image)
    return descriptor


def head(magic: int, layout: int, pid: int, started: int = 0) -> bytes:
    return struct.pack("<7Q", magic, layout, TOTAL_BYTES, pid, 0, 1, started) + bytes(8)


@pytest.mark.parametrize(
    "image",
    [b"", b"x" * 40, os.urandom(TOTAL_BYTES), head(MAGIC, LAYOUT, 1) + bytes(TOTAL_BYTES)],
    ids=["empty", "short", "noise", "of another process"],
)
def test_what_others_put_there_is_passed_over(image):
    with closing(Monitor()) as before:
        known = before.sample(0.01)
    descriptor = segment(image)
    try:
        with closing(Monitor()) as monitor:
            now = monitor.sample(0.01)
        assert len(list(published())) >= 1
        assert [one.pid for one in now.processes].count(os.getpid()) == [one.pid for one in known.processes].count(
            os.getpid()
        )
        assert all(one.pid != os.getpid() for one in now.others)
    finally:
        os.close(descriptor)


def test_another_versions_process_is_named_and_one_cut_short_while_we_look_harms_nobody():
    other = segment(head(MAGIC, LAYOUT + 1, os.getpid()) + bytes(100))
    short = segment(head(MAGIC, LAYOUT, os.getpid(), 1) + bytes(TOTAL_BYTES))
    try:
        with closing(Monitor()) as monitor:
            monitor.sample(0.01)
            os.ftruncate(short, 64)
            now = monitor.sample(0.05)
        assert os.getpid() in [one.pid for one in now.others]
        assert "with another version of openspyre" in smi("-d", "0.1").stdout
    finally:
        os.close(other)
        os.close(short)


def test_nobody_can_write_or_cut_what_a_process_shows():
    with worker() as process:
        (found,) = [one for one in published() if one.pid == process.pid]
        with pytest.raises(PermissionError):
            os.truncate(found.path, 10)
        with pytest.raises(PermissionError), found.path.open("r+b", buffering=0) as file:
            file.write(b"x")
        assert process.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_sees_nothing():
    with worker() as process:
        program = f"""
import os
os.setgid(65534); os.setuid(65534)
try:
    os.listdir("/proc/{process.pid}/fd")
except PermissionError:
    print("refused")
"""
        assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "refused\n"


def test_a_forked_child_is_no_second_process_and_one_that_forked_first_is():
    forks = """
import os, sys, time, torch
first = os.fork()  # before any card was used: it may use one itself
x = torch.ones(64).half().to("spyre")
(x + x).cpu()
if first == 0:
    os.write(1, b"child\\n")
    time.sleep(60)
second = os.fork()
if second == 0:
    time.sleep(60)
time.sleep(2)
print("ready", first, second, flush=True)
sys.stdin.read()
os.kill(first, 9), os.kill(second, 9)
"""
    call = [sys.executable, "-c", forks]
    process = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        told = sorted(process.stdout.readline().split() for _ in range(2))
        assert told[0] == ["child"]
        first, second = map(int, told[1][1:])
        with closing(Monitor()) as monitor:
            now = monitor.sample(0.1)
        assert of(now, process.pid) and of(now, first) and not of(now, second)
        assert of(now, process.pid).cards[0].counts.launches == of(now, first).cards[0].counts.launches == 1
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def test_commands_cannot_steer_the_terminal():
    with worker("\x1b[31mred") as process, closing(Monitor()) as monitor:
        command = of(monitor.sample(0.05), process.pid).command
    assert "\x1b" not in command and "?[31mred" in command


class Terminal:
    """`openspyre smi top` in a pseudo-terminal of so many columns."""

    def __init__(self, columns: int, *arguments: str) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            for name in ("COLUMNS", "LINES"):  # the terminal's own size counts
                os.environ.pop(name, None)
            os.execv(sys.executable, [sys.executable, "-m", "openspyre.tools.command", "smi", "top", *arguments])
        self.resize(columns)
        self.all = b""

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def read_until(self, wanted: str, seconds: float = 20) -> str:
        """What was drawn since the last call, without colours, up to a text."""
        end, text = time.monotonic() + seconds, ""
        while time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    part = os.read(self.master, 65536)
                except OSError:  # the other side is closed
                    break
                self.all += part
                text += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", part.decode(errors="replace"))
                if wanted and wanted in text:
                    return text
        assert not wanted, f"{wanted!r} was never drawn, but {text!r}"
        return text

    def end(self) -> int:
        self.read_until("", 2)
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.master)
        return os.waitstatus_to_exitcode(status)


def test_the_live_view_draws_processes_and_gives_the_terminal_back():
    pytest.importorskip("rich")
    with worker("busy") as process:
        terminal = Terminal(160, "-d", "0.3")
        drawn = terminal.read_until(str(process.pid))
        drawn += terminal.read_until("q quits")
        assert "launches/s" in drawn and "processes" in drawn and "bandwidth" in drawn
        process.kill()
        process.wait()
        terminal.read_until("q quits")  # may still have been drawn from before
        assert str(process.pid) not in terminal.read_until("q quits")
        start = time.monotonic()
        os.write(terminal.master, b"q")
        assert terminal.end() == 0 and time.monotonic() - start < 5
        assert terminal.all.count(b"\x1b[?1049h") == terminal.all.count(b"\x1b[?1049l") == 1
        assert terminal.all.rstrip().endswith(b"\x1b[?25h") or b"\x1b[?25h" in terminal.all  # the cursor is back


@pytest.mark.parametrize("columns", [20, 60])
def test_the_live_view_lives_in_a_narrow_terminal_and_ends_by_ctrl_c(columns):
    pytest.importorskip("rich")
    with worker() as process:
        terminal = Terminal(columns, "-d", "0.2")
        assert "busy" in terminal.read_until("q quits")
        assert columns == 20 or str(process.pid) in terminal.read_until("q quits")
        terminal.resize(200)
        os.kill(terminal.pid, signal.SIGWINCH)
        terminal.read_until("launches/s")
        os.write(terminal.master, b"\x03")
        assert terminal.end() == 0


def test_without_rich_the_live_view_says_what_to_install():
    program = "import sys; sys.modules['rich'] = None\nfrom openspyre.tools import smi\nsmi._top(None, 1.0, None, None)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'openspyre[monitor]'" in done.stderr and done.returncode == 1


@pytest.mark.parametrize("arguments", [(), ("--json",), ("dmon", "-c", "2"), ("dmon", "-c", "2", "--json")])
def test_an_output_without_room_is_told(arguments):
    call = [sys.executable, "-m", "openspyre.tools.command", "smi", "-d", "0.1", *arguments]
    with worker(), Path("/dev/full").open("w") as full:
        done = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "openspyre: its output cannot be written: No space left on device\n"


def test_help_has_a_line_per_example(capsys):
    with pytest.raises(SystemExit):
        main(["smi", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:] == ["openspyre smi", "openspyre smi dmon -c 5", "openspyre smi top", "openspyre smi --json"]
