"""OpInfo and module_db on the card, against torch on the CPU: `python tests/opinfo --only softmax --dtypes float32`.

Progress goes to the screen, and every entry's report to --out as a line of JSON. Ends with 1 if a difference is unexplained.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from shards import ROOMS, tried

sys.path[:0] = [room for room in ROOMS if room not in sys.path]
from known import known_differences, unexplained  # noqa: E402


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="opinfo", description=__doc__)
    parser.add_argument("--only", default="", help="entries whose name contains one of these, with commas between")
    parser.add_argument("--dtypes", default="", help="comma-separated, in place of float16 and float32")
    parser.add_argument("--samples", type=float, default=float("inf"), help="at most so many of an entry and dtype")
    parser.add_argument("--fraction", type=float, default=1.0, help="of the samples of each entry, one at least")
    parser.add_argument(
        "--compiled", action="store_true", help="through torch.compile, against eager too (six samples)"
    )
    parser.add_argument("--bits", action="store_true", help="compiled against eager only, without the CPU")
    parser.add_argument("--part", default="1/1", help="2/4: the second quarter of the entries")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=600, help="the most that one entry may take")
    parser.add_argument("--out", help="a file for the reports")
    chosen = parser.parse_args()
    if chosen.compiled and not chosen.bits:
        chosen.samples = min(chosen.samples, 6)
    chosen.compiled |= chosen.bits
    return chosen


def jobs_of(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    import torch
    from entries import entries

    wanted = [getattr(torch, name) for name in chosen.dtypes.split(",") if name]
    how = {name: getattr(chosen, name) for name in ("seed", "samples", "fraction", "compiled", "bits")}
    part, parts = map(int, chosen.part.split("/"))
    jobs = [
        {"entry": entry.name, "dtype": str(dtype).removeprefix("torch.")} | how
        for entry in entries().values()
        if any(name in entry.name for name in chosen.only.split(","))
        for dtype in ([d for d in wanted if entry.supports(d)] if wanted else entry.dtypes())
    ]
    return jobs[len(jobs) * (part - 1) // parts : len(jobs) * part // parts]


def main() -> int:
    chosen = options()
    jobs, known, mode = jobs_of(chosen), known_differences(), "compiled" if chosen.compiled else "eager"
    begin, samples, failed, used, tried_names = time.monotonic(), 0, 0, set(), set()
    with ExitStack() as files:
        out = files.enter_context(Path(chosen.out).open("w")) if chosen.out else None
        for number, report in enumerate(tried(jobs, chosen.workers, chosen.seconds), 1):
            samples += report["samples"]
            tried_names.add((report["entry"], report["dtype"]))
            rest, explained = unexplained(report, mode, known)
            used.update(explained)
            failed += bool(rest)
            if out:
                print(json.dumps(report), file=out, flush=True)
            for which, described, wrong in rest[:1]:
                heading = f"{report['entry']} {report['dtype']}, {len(rest)} of {report['samples']} samples"
                print(f"{heading}: #{which} {described}: {wrong}", flush=True)
            if number % 50 == 0:
                took = time.monotonic() - begin
                print(
                    f"-- {number} of {len(jobs)} entries, {samples} samples, {failed} differ, {took:.0f} s", flush=True
                )
    whole = chosen.fraction == 1.0 and chosen.samples == float("inf")
    stale = [k for k in known if k not in used and any(k.covers(*n, mode) for n in tried_names)] if whole else []
    for one in stale:
        print(f"{one.entry} {one.dtype} {one.mode}: listed as a known difference ({one.kind}), and none was seen")
    print(
        f"{len(jobs)} entries, {samples} samples, {failed} differ, {len(stale)} stale, {time.monotonic() - begin:.0f} s"
    )
    return int(failed > 0 or bool(stale))


if __name__ == "__main__":
    sys.exit(main())
