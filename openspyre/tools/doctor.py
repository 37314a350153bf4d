"""`openspyre doctor`: what a bug report needs, and a quick look whether the card works."""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from openspyre.spec import encodings
from openspyre.spec.environment import Settings, switches_in_force
from openspyre.spec.errors import SpyreError
from openspyre.spec.machine import GIB, MIB, SPYRE
from openspyre.tools import host

Report = dict[str, Any]


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="print what a bug report needs and try the card",
        description="Prints versions, cards, threads, limits and switches in force, and tries the card.",
        epilog="example: openspyre doctor --json > report.json    exit code: 0 all is well or the report is written, 1 a problem was found",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write a zip archive for a bug report: no values, no secrets"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.report is not None:
        from openspyre.tools.diagnosing.report import diagnostic_report

        print(diagnostic_report(options.report))
        return 0
    report = examine()
    print(json.dumps(report, indent=2, default=str) if options.json else "\n".join(render(report)))
    return 1 if report["problems"] else 0


def examine() -> Report:
    """Looks at everything; what goes wrong becomes an entry of `problems`, never an exception."""
    problems: list[str] = []

    def try_to(what: str, look: Callable[[], Any]) -> Any:
        try:
            return look()
        except (SpyreError, ImportError, OSError) as error:
            problems.append(f"{what}: {error}")
            return None

    report: Report = {"software": host.software()}
    report["build"] = try_to("the card library", _build)
    report["host"] = host.processor() | {"memory_bytes": host.machine_memory_bytes()}
    report["switches"] = try_to("switches", _switches) or []
    report["cards"] = try_to("cards", _cards) if not problems else None
    report["limits"] = try_to("limits", _limits)
    report["self_test"] = try_to("self test", _self_test) if report["cards"] and report["cards"]["count"] else None
    if report["self_test"] and not report["self_test"]["passed"]:
        problems.append("self test: data read back from the card differs from what was written")
    report["problems"] = problems
    return report


def _build() -> Report:
    from openspyre.card import _card

    return dict(_card.build())


def _switches() -> list[Report]:
    return [
        {
            "variable": row.switch.variable,
            "value": row.value,
            "source": "environment" if row.from_environment else "default",
            "meaning": row.switch.meaning,
        }
        for row in switches_in_force()
    ]


def _cards() -> Report:
    from openspyre import card

    settings = Settings.read()
    total, available = card.host_memory_bytes()
    return {
        "count": card.count(),
        "physical_indices": list(settings.visible_cards()),
        "default": settings.default_card,
        "memory_bytes_each": settings.card_memory_bytes,
        "host_memory_bytes_for_all": total,  # the smaller of machine and cgroup
        "host_memory_bytes_available": available,
        "threads": card.worker_threads(),
    }


def _limits() -> Report:
    return {
        "cards": SPYRE.max_cards,
        "cores_per_card": SPYRE.cores,
        "scratchpad_bytes_per_core": SPYRE.scratchpad_bytes_per_core,
        "span_bytes_per_core_and_tensor": Settings.read().machine.max_span_bytes_per_core_and_tensor,
        "stick_bytes": SPYRE.stick_bytes,
    }


def _self_test() -> Report:
    """One tensor there and back, compared with the specification."""
    from openspyre import card

    array = np.random.default_rng(0).standard_normal((1000, 1000)).astype(np.float16)
    started = time.perf_counter()
    card.get()
    at_start = time.perf_counter()
    on_card = card.to_card(array)
    at_copied = time.perf_counter()
    read = on_card.numpy()
    at_read = time.perf_counter()
    expected = encodings.to_host(encodings.to_device(array, "float16"), "float16")
    return {
        "tensor": "1000x1000 float16",
        "passed": bool(np.array_equal(read, expected)),
        "start_ms": round(1e3 * (at_start - started), 3),
        "allocate_and_copy_in_ms": round(1e3 * (at_copied - at_start), 3),
        "copy_out_ms": round(1e3 * (at_read - at_copied), 3),
    }


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:g} MiB" if count >= MIB else f"{count} bytes"


def _value(key: str, value: object) -> str:
    if "bytes" in key and isinstance(value, int):
        return _size(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def render(report: Report) -> Iterator[str]:
    """The report as text, a section at a time."""
    for section in ("software", "build", "host", "cards", "limits", "self_test"):
        yield section.replace("_", " ")
        for key, value in (report[section] or {"not available": "see problems"}).items():
            yield f"  {key.replace('_bytes', '').replace('_', ' '):<28} {_value(key, value)}"
    yield "switches"
    for row in report["switches"]:
        value = "-" if row["value"] in (None, "") else str(row["value"])
        yield f"  {row['variable']:<31} {value:<24} ({row['source']})"
    yield "problems" if report["problems"] else "no problems found"
    yield from (f"  {problem}" for problem in report["problems"])
