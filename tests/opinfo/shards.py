"""Entries tried in processes of their own, several at a time: a crash or a hang is a finding like any other."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOMS = [str(HERE), str(HERE.parent), str(HERE.parent / "compile")]  # where the worker's imports are
READY = "# ready"
Job = dict[str, Any]
Report = dict[str, Any]


def tried(jobs: list[Job], workers: int, seconds: float) -> Iterator[Report]:
    """What became of each job, as they finish; `seconds` is the most a single entry may take."""
    todo: queue.SimpleQueue[Job] = queue.SimpleQueue()
    done: queue.SimpleQueue[Report] = queue.SimpleQueue()
    for job in jobs:
        todo.put(job)
    shards = [_Shard(todo, done, seconds) for _ in range(min(workers, len(jobs)))]
    for shard in shards:
        shard.start()
    for _ in jobs:
        yield done.get()
    for shard in shards:
        shard.join()


class _Shard(threading.Thread):
    """A worker process, started anew after a crash, and the jobs it takes."""

    def __init__(self, todo: queue.SimpleQueue[Job], done: queue.SimpleQueue[Report], seconds: float) -> None:
        super().__init__(daemon=True)
        self.todo, self.done, self.seconds = todo, done, seconds
        self.process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        while True:
            try:
                job = self.todo.get_nowait()
            except queue.Empty:
                break
            self.done.put(self.report_of(job))
        if self.process:
            self.process.communicate()

    def report_of(self, job: Job) -> Report:
        process = self.process = self.process or _started()
        clock = threading.Timer(self.seconds, process.kill)
        clock.start()
        last = ""
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                if line.startswith("{"):
                    return json.loads(line)
                last = line.strip() if line.startswith("# ") else last
        except BrokenPipeError:
            last = "before its first sample"
        finally:
            clock.cancel()
        self.process = None
        code = process.wait()
        trouble = f"no answer in {self.seconds:.0f} s" if code == -9 else f"the process ended with {code}"
        nothing = {"samples": 1, "refused": 0, "differences": [[-1, last, trouble]]}
        return {"entry": job["entry"], "dtype": job["dtype"]} | nothing


def _started() -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(ROOMS), "OMP_NUM_THREADS": "1"}
    environment.setdefault("OPENSPYRE_SANITIZE", "1")
    worker = [sys.executable, str(HERE / "worker.py")]
    process = subprocess.Popen(worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    if process.stdout.readline() != READY + "\n":  # importing torch's tables takes longer than many entries do
        raise RuntimeError(f"{worker} did not start")
    return process
