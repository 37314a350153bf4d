"""`openspyre bisect`: the first op at which two runs differ: fused and not, eager and compiled, two bundles, two versions."""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openspyre.tools.bisecting.matching import Verdict
    from openspyre.tools.bisecting.runs import Form
    from openspyre.tools.bisecting.sides import Launch


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "bisect",
        help="find the first op at which two runs differ",
        description="Runs two directories op by op and compares what each op computes: bundles, launches that "
        "torch.spyre.save_launches saved, or directories of such. One directory alone: as it ran, fused, beside its steps "
        "before fusion; with --other-python beside the openspyre of another interpreter. Names the first op that differs, "
        "its line, and the worst element. Only what was written counts, so padding never differs.",
        epilog="example: openspyre bisect eager compiled --out found; openspyre bisect launch_00000; "
        "openspyre bisect launch_00000 --other-python old/bin/python    "
        "exit code: 0 no difference, 1 they differ or cannot be run or compared, 2 the command line makes no sense",
    )
    parser.add_argument("a", type=Path, metavar="A", help="a launch, or a directory of launches")
    parser.add_argument("b", type=Path, metavar="B", nargs="?", help="what to compare it with")
    parser.add_argument("--other-python", metavar="PYTHON", help="an interpreter with another openspyre, for A")
    parser.add_argument(
        "--rtol", type=float, default=0.0, help="relative distance that is no difference (default: bits)"
    )
    parser.add_argument("--atol", type=float, default=0.0, help="absolute distance that is no difference")
    image = "[b.]SEGMENT=FILE"
    parser.add_argument(
        "--image", action="append", default=[], metavar=image, help="raw device bytes of a bundle's argument"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write the op that differs as DIR/a and DIR/b, for openspyre run"
    )
    parser.add_argument(
        "--record", type=Path, metavar="DIR", help="run A alone, and leave what its steps compute in DIR"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=lambda options: _run(options, parser))


@dataclass(frozen=True, slots=True)
class _Sides:
    """The launches of both sides, in which form they run, and what they are called."""

    a: list[Launch]
    b: list[Launch]
    form_a: Form
    form_b: Form
    names: tuple[str, str]


def _run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from openspyre.tools.bisecting.text import as_json, lines

    if options.b is not None and (options.other_python or options.record):
        parser.error("--other-python and --record take A alone")
    if options.rtol < 0 or options.atol < 0:
        parser.error("--rtol and --atol are distances, 0 or more")
    if options.out is not None and options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        parser.error(f"--out {options.out} exists and is no empty directory")
    sides = _sides(options)
    with tempfile.TemporaryDirectory(prefix="openspyre_bisect_") as scratch:
        verdict = _verdict(options, sides, Path(scratch))
    if verdict is None:
        return 0
    written = [] if options.out is None or verdict.difference is None else _write(options, sides, verdict)
    notes = _notes(sides, verdict)
    if options.json:
        print(json.dumps(as_json(verdict, sides.names, written, notes), indent=2))
    else:
        print("\n".join(lines(verdict, sides.names, written, notes)))
    return 1 if verdict.difference is not None or verdict.failure or verdict.is_empty else 0


def _notes(sides: _Sides, verdict: Verdict) -> list[str]:
    """Two sides agree by their bundles; what ran is a program made of one, and may be another thing."""
    from openspyre.tools.bisecting.runs import Form
    from openspyre.tools.saving.saved_launch import is_saved_launch

    ran = [launch.directory for launch in (*sides.a, *sides.b) if is_saved_launch(launch.directory)]
    if sides.form_a is not Form.OPS or verdict.difference is not None or not verdict.compared or not ran:
        return []
    return [
        "only the bundles were compared, not the programs that ran: `openspyre bisect DIR` of one directory compares a launch's "
        "program with its bundle"
    ]


def _sides(options: argparse.Namespace) -> _Sides:
    from openspyre.tools.bisecting.runs import Form
    from openspyre.tools.bisecting.sides import launches_of

    a = launches_of(options.a, _images(options.image, "a"))
    if options.b is not None:
        b = launches_of(options.b, _images(options.image, "b"))
        return _Sides(a, b, Form.OPS, Form.OPS, ("A", "B"))
    if options.other_python or options.record:
        return _Sides(a, a, Form.FUSED, Form.FUSED, ("here", "there"))
    return _Sides(a, a, Form.FUSED, Form.UNFUSED, ("fused", "unfused"))


def _images(given: list[str], side: str) -> dict[int, bytes]:
    """Of one side; without a side in front they are A's."""
    import numpy as np

    from openspyre.tools.launch_images import keyed, load_array

    own = [text.removeprefix("a.") for text in given if not text.startswith("b.")]
    if side == "b":
        own = [text.removeprefix("b.") for text in given if text.startswith("b.")]
    return {
        key.segment: np.ascontiguousarray(load_array(f"--image {key.segment}", path)).tobytes()
        for key, path in keyed("--image", own).items()
    }


def _verdict(options: argparse.Namespace, sides: _Sides, scratch: Path) -> Verdict | None:
    """None: there was only something to record."""
    from openspyre.tools.bisecting.matching import Tolerance, first_difference
    from openspyre.tools.bisecting.records import read_trace
    from openspyre.tools.bisecting.runs import record, record_elsewhere

    if options.record is not None:
        record(sides.a, sides.form_a, options.record)
        return None
    record(sides.a, sides.form_a, scratch / "a")
    if options.other_python:
        record_elsewhere(options.other_python, options.a, options.image, scratch / "b")
    else:
        record(sides.b, sides.form_b, scratch / "b")
    tolerance = Tolerance(options.rtol, options.atol)
    traces = read_trace(scratch / "a"), read_trace(scratch / "b")
    return first_difference(*traces, tolerance, by_name=options.b is None, members=_members(sides))


def _members(sides: _Sides) -> dict[tuple[int, str], tuple[str, ...]]:
    """Which ops the steps of the first side compute together, where it ran fused."""
    from openspyre.tools.bisecting.by_steps import members_of
    from openspyre.tools.bisecting.runs import Form

    if sides.form_a is not Form.FUSED:
        return {}
    return {(k, name): ops for k, launch in enumerate(sides.a) for name, ops in members_of(launch).items()}


def _write(options: argparse.Namespace, sides: _Sides, verdict: Verdict) -> list[Path]:
    """The op that differs, of both sides; of another interpreter's there is ours, which that one can run, too."""
    from openspyre.tools.bisecting.by_steps import parts_of
    from openspyre.tools.bisecting.culprit import write_op, write_steps
    from openspyre.tools.bisecting.runs import Form

    found = verdict.difference
    if found is None:
        return []
    written = []
    programs = [launch.fused if form is Form.FUSED else launch.unfused for launch, form in (
        (sides.a[found.a.launch], sides.form_a), (sides.b[found.b.launch], sides.form_b))]  # fmt: skip
    names = [{part.name for part in parts_of(program[0])} if program else set() for program in programs]
    for side, record, launches, form, program, others in (
        ("a", found.a, sides.a, sides.form_a, programs[0], names[1]),
        ("b", found.b, sides.b, sides.form_b, programs[1], names[0]),
    ):
        launch = launches[record.launch]
        if side == "b" and options.other_python:
            continue
        if form is Form.OPS and launch.bundle is not None:
            written.append(write_op(options.out / side, launch, launch.bundle, record.name))
        elif program is not None:
            written.append(write_steps(options.out / side, launch, program, record.name, others))
    return written
