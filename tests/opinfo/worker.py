"""A process that tries entries: names on stdin, one line of JSON per entry on stdout. The driver outlives its crash."""

from __future__ import annotations

import json
import sys
import warnings
import zlib
from typing import Any

import torch
from entries import Entry, Sample, entries
from shards import READY
from trial import Refused, difference, difference_of_bits


def tried(entry: Entry, dtype: torch.dtype, job: dict[str, Any]) -> dict[str, Any]:
    """What differs: (number of the sample, its arguments, the difference)."""
    seed = zlib.crc32(f"{entry.name} {dtype} {job['seed']}".encode())
    report: dict[str, Any] = {
        "entry": entry.name,
        "dtype": str(dtype).removeprefix("torch."),
        "samples": 0,
        "refused": 0,
    }
    report["differences"] = []
    for number, sample in chosen(list(entry.samples(dtype, seed)), job, seed):
        print(f"# {entry.name} {dtype} {number} {sample.described}"[:300].replace("\n", " "), flush=True)
        torch.manual_seed(number)
        try:
            wrong = difference_of_bits(sample) if job["bits"] else difference(sample, dtype, job["compiled"])
        except Refused:
            report["refused"] += 1
            continue
        except Exception as error:
            wrong = f"the harness: {type(error).__name__}: {error}"
        report["samples"] += 1
        if wrong:
            report["differences"].append([number, sample.described, wrong])
    return report


def chosen(samples: list[Sample], job: dict[str, Any], seed: int) -> list[tuple[int, Sample]]:
    """So many of the samples as the job wants, by seed."""
    count = min(max(1, round(job["fraction"] * len(samples))), job["samples"])
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed)).tolist()
    return [(n, samples[n]) for n in sorted(order[: int(min(count, len(samples)))])]


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.spyre.set_fallback_mode("silent")
    torch.spyre.set_downcast_warning(False)
    torch.ones(1).to("spyre")
    print(READY, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        report = tried(entries()[job["entry"]], getattr(torch, job["dtype"]), job)
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
