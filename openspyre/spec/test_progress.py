"""Long work on a terminal, on a pipe, and where nobody can be told."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import textwrap

import pytest

BEGIN = """
    import os, sys, threading, time
    from openspyre.spec import progress
    progress.PATIENCE_SECONDS = 0.3
    progress.switch(True)

    def work(seconds=1.0, what="compiling graph0"):
        with progress.working(what):
            progress.stage("DivideWork", "930 ops")
            time.sleep(seconds)
"""


def _script(body: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(BEGIN) + textwrap.dedent(body)]


def _on_a_pipe(body: str, **options: object) -> str:
    done = subprocess.run(_script(body), stderr=subprocess.PIPE, text=True, check=True, timeout=60, **options)  # type: ignore[call-overload]
    return str(done.stderr)


def _on_a_terminal(body: str) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(_script(body), stderr=theirs, stdout=theirs, stdin=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            read = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not read:
            break
        shown += read
    os.close(ours)
    assert process.wait(60) == 0
    return shown.decode()


def test_on_a_terminal_a_line_lives_and_leaves_nothing() -> None:
    shown = _on_a_terminal("""
        with progress.working("compiling graph0"):
            progress.stage("DivideWork", "930 ops")
            time.sleep(0.8)
            progress.stage("back end", "931 ops")
            time.sleep(0.8)
    """)
    lines = shown.split("\r\x1b[2K")
    assert lines[0] == "" and lines[-1] == "" and "\n" not in shown
    assert any("compiling graph0: DivideWork, 930 ops, 1 s" in line for line in lines)
    assert any("compiling graph0: back end, 931 ops, 1 s" in line for line in lines)


def test_a_line_is_no_longer_than_the_terminal() -> None:
    shown = _on_a_terminal("work(what='compiling ' + 'x' * 500)")
    assert max(len(line) for line in shown.split("\r\x1b[2K")) == 79  # a terminal that does not tell its width has 80


def test_on_a_pipe_the_beginning_and_the_end_are_lines_of_a_log() -> None:
    begun, done = _on_a_pipe("work()").splitlines()
    assert begun == "[INFO] [spyre.progress] compiling graph0: DivideWork, 930 ops, 0 s so far"
    assert done.startswith("[INFO] [spyre.progress] compiling graph0: done after 1.")


def test_who_reads_the_log_is_told_there() -> None:
    told = _on_a_pipe("""
        from openspyre.spec import logs
        logs.set_log_level("spyre.progress", "INFO")
        work()
    """)
    assert len(told.splitlines()) == 2


@pytest.mark.parametrize("body", ["work(0.1)", "progress.switch(False); work()", "progress.stage('alone')"])
def test_nothing_is_said_of_short_work_nor_when_switched_off(body: str) -> None:
    assert _on_a_pipe(body) == ""
    assert _on_a_terminal(body) == ""


def test_work_inside_work_is_a_stage_of_it() -> None:
    told = _on_a_pipe("""
        with progress.working("compiling frame 0/0"):
            work(what="moving Linear")
            assert threading.active_count() == 2
    """)
    assert "compiling frame 0/0: DivideWork, 930 ops" in told and told.count("\n") == 2


def test_threads_take_turns_on_a_terminal() -> None:
    shown = _on_a_terminal("""
        threads = [threading.Thread(target=work, args=(2.0 + n * 1.2, f"compiling graph{n}")) for n in range(3)]
        threads[0].start()
        while not progress._drawing.locked(): time.sleep(0.01)  # the first one has the line, however busy the machine is
        for thread in threads[1:]: thread.start()
        for thread in threads: thread.join()
        assert threading.active_count() == 1
    """)
    lines = shown.split("\r\x1b[2K")
    assert all(any(f"graph{n}" in line for line in lines) for n in (0, 2)) and all(
        line.count("spyre:") < 2 for line in lines
    )


@pytest.mark.parametrize(
    "body",
    [
        "sys.stderr.close(); work()",
        "sys.stderr = None; work()",
        "os.close(2); work()",
        "read, write = os.pipe(); os.dup2(write, 2); os.close(write); os.close(read); work()",
    ],
)
def test_a_closed_stderr_breaks_nothing(body: str) -> None:
    script = _script(body + "; print('done'); sys.stderr = open(os.devnull, 'w')")
    done = subprocess.run(script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60, check=True)
    assert done.stdout == "done\n"


def test_an_error_ends_the_line_and_a_forked_child_waits_for_nobody() -> None:
    told = _on_a_pipe("""
        try:
            with progress.working("compiling graph0"):
                time.sleep(0.5)
                if os.fork() == 0:
                    work(0.1, "in the child")
                    os._exit(0)
                assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
                raise KeyError
        except KeyError:
            assert threading.active_count() == 1
    """)
    assert told.count("\n") == 2
