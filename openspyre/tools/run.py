"""`openspyre run`: bundles on the card, in a process without torch: launches in order. Arrays come from and go to .npy files."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from openspyre.artifact.bundle import Bundle
from openspyre.artifact.launch_files import file_of
from openspyre.artifact.launch_spec import Argument, read_launch_spec
from openspyre.spec.environment import Settings
from openspyre.spec.errors import InvalidArgument
from openspyre.tools.bundle import read
from openspyre.tools.launch_images import Key, keyed, load_array, parse_layout, tiled, untiled
from openspyre.tools.launches import execute, host_image, prepare
from openspyre.tools.named_arguments import named_images
from openspyre.tools.run_saved import run_saved_launch
from openspyre.tools.saving.saved_launch import is_saved_launch

Spec = tuple[Argument, ...]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "run",
        help="execute a bundle on the card",
        description="Executes a bundle directory. Arguments go by segment, as host values (--arg, tiled by --layout or "
        "by default) or as raw device bytes (--image). Where launch_spec.json lies beside the bundle, they have names: "
        "--input gives a tensor's values (bfloat16 and fp8 as their bits, tagged, NAME=x.npy:bfloat16), --set a number. "
        "With --out, every segment's bytes are written as segment_<i>.npy, and what a launch spec calls outputs as "
        "<name>.npy, with a results.json that tells their dtypes. Several directories are launches in order; "
        "LAUNCH.SEGMENT names an argument of one. A bundle with problems is refused. A launch that torch.spyre.save_launches "
        "saved runs again as it ran, on the bytes it was saved with.",
        epilog="example: openspyre run my_bundle --input x=x.npy --input w=w.npy --set slope=0.1 --out results; "
        "openspyre run kernel_dir --arg 0=x.npy --image 1=w_bytes.npy --out results    "
        "exit code: 0 done, 1 it could not be run or a saved launch is not as it was, 2 the command line does not fit the bundle",
    )
    parser.add_argument("directories", type=Path, metavar="DIR", nargs="+", help="the bundle, or several in order")
    segment = "[LAUNCH.]SEGMENT"
    for name, value, told in (
        ("--arg", f"{segment}=FILE", "host values of an argument"),
        ("--layout", f"{segment}=LAYOUT", "the layout of an --arg, as layouts print"),
        ("--image", f"{segment}=FILE", "raw device bytes of an argument"),
        ("--input", "NAME=FILE[:DTYPE]", "host values of an argument that launch_spec.json names"),
        ("--set", "NAME=VALUE", "a number that launch_spec.json names"),
    ):
        parser.add_argument(name, action="append", default=[], metavar=value, help=told)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results go; none are written without it")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    parser.set_defaults(run=lambda options: run(options, parser))


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if Settings.read().card == "null":
        raise InvalidArgument("OPENSPYRE_CARD=null computes nothing: unset it to run a bundle")
    if any(map(is_saved_launch, options.directories)):
        return run_saved_launch(options, parser)
    bundles = [read(directory) for directory in options.directories]
    specs = [read_launch_spec(directory) for directory in options.directories]
    given = _by_segment(options, bundles, specs)
    _add_named(options, specs, given[0], parser)
    from openspyre.card import cards

    cards.get().clear_scratchpads()
    written: dict[str, str] = {}
    for number, (bundle, spec) in enumerate(zip(bundles, specs, strict=True)):
        results = execute(prepare(bundle, given[number], spec, options.directories[number]))
        if options.out:
            folder = options.out / f"launch_{number}" if len(bundles) > 1 else options.out
            written |= _write(folder, results, number)
            written |= _write_values(folder, results, spec) if spec is not None else {}
    if options.json:
        print(json.dumps(written, indent=2))
    else:
        ops = sum(bundle.function.count() for bundle in bundles)
        print(f"{', '.join(bundle.name for bundle in bundles)}: {ops} ops executed in {len(bundles)} launch(es)")
        print("\n".join(f"{name}: {path}" for name, path in written.items()))
    return 0


def _by_segment(options: argparse.Namespace, bundles: list[Bundle], specs: list[Spec | None]) -> list[dict[int, bytes]]:
    """Of each launch, the bytes of the arguments that are given by segment."""
    images, arrays, layouts = (keyed(f"--{name}", getattr(options, name)) for name in ("image", "arg", "layout"))
    for option, keys in (("--image", images), ("--arg", arrays), ("--layout", layouts)):
        _check_keys(option, keys, bundles)
    for key in layouts.keys() - arrays.keys():
        raise InvalidArgument(f"--layout {key}: there is no --arg {key} that it could be the layout of")
    for key in images.keys() & arrays.keys():
        raise InvalidArgument(f"--image {key} and --arg {key}: an argument is given once")
    given: list[dict[int, bytes]] = [{} for _ in bundles]
    for key, path in images.items():
        given[key.launch][key.segment] = np.ascontiguousarray(load_array(f"--image {key}", path)).tobytes()
    for key, path in arrays.items():
        spec = specs[key.launch]
        given[key.launch][key.segment] = _tiled(key, path, layouts.get(key), spec[key.segment] if spec else None)
    return given


def _tiled(key: Key, path: str, layout: str | None, said: Argument | None) -> bytes:
    """Host values in the layout given, or as a launch spec has them, or in the default layout."""
    array = load_array(f"--arg {key}", path)
    if layout is None and said is not None and said.layout is not None:
        return host_image(said, array, path)
    return tiled(array, parse_layout(layout) if layout else None, None)


def _check_keys(option: str, given: dict[Key, str], bundles: list[Bundle]) -> None:
    for key in given:
        if key.launch >= len(bundles):
            raise InvalidArgument(f"{option} {key}: there are {len(bundles)} launch(es), counted from 0")
        most = bundles[key.launch].arguments
        if key.segment >= most:
            raise InvalidArgument(f"{option} {key}: {bundles[key.launch].name} has {most} arguments, counted from 0")


def _add_named(
    options: argparse.Namespace, specs: list[Spec | None], given: dict[int, bytes], parser: argparse.ArgumentParser
) -> None:
    """What a launch of its own gets by name."""
    spec = specs[0] if len(specs) == 1 else None
    if spec is not None:
        given |= named_images(options.input, options.set, spec, given, parser)
    elif options.input or options.set:
        why = "which launch_spec.json tells, and there is none" if len(specs) == 1 else "of one launch"
        parser.error(f"--input and --set go by names, {why}: give arguments by segment (--arg, --image)")


def _write(folder: Path, results: list[bytes], launch: int) -> dict[str, str]:
    """Every segment's bytes as `segment_<i>.npy`."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for number, image in enumerate(results):
        path = folder / f"segment_{number}.npy"
        np.save(path, np.frombuffer(image, dtype=np.uint8))
        written[f"{launch}.{number}"] = str(path)
    return written


def _write_values(folder: Path, results: list[bytes], spec: Spec) -> dict[str, str]:
    """Host values of what a launch spec calls an output, by name; `results.json` tells their files and dtypes."""
    told: dict[str, dict[str, str]] = {}
    for number, (image, argument) in enumerate(zip(results, spec, strict=True)):
        if argument.role in ("output", "update") and argument.layout is not None:
            file = file_of(argument.name, number)
            np.save(folder / file, untiled(image, argument.size, argument.layout, argument.dtype, argument.stride))
            told[argument.name] = {"file": file, "dtype": argument.dtype}
    (folder / "results.json").write_text(json.dumps(told, indent=2) + "\n")
    return {name: str(folder / entry["file"]) for name, entry in told.items()}
