"""`openspyre run`: a bundle on the card, in a process without torch. Arrays come from and go to .npy files."""

import argparse
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openspyre.artifact import read
from openspyre.artifact.model import Buffer, Bundle, Role, Scalar
from openspyre.spec.encodings import sen169_decode, sen169_encode
from openspyre.spec.environment import Settings
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import DataFormats, formats_of
from openspyre.tools import run_documented
from openspyre.tools.documented import is_documented

_TRUTHS = {"true": 1, "false": 0, "1": 1, "0": 0}


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "run",
        help="execute a bundle on the card",
        description="Executes a bundle directory. With a manifest, inputs are .npy files by its names; bfloat16 and fp8 "
        "arrays hold their bits and are tagged, NAME=x.npy:bfloat16; outputs and changed inputs are written as .npy "
        "files beside a results.json that tells their names and dtypes. Without one (a kernel directory of another "
        "compiler), arguments go by segment, as host values (--arg, tiled by --layout or by default) or as raw device "
        "bytes (--image), or as launch_spec.json says; every segment's bytes are written as segment_<i>.npy. Several "
        "directories are launches in order; LAUNCH.SEGMENT names an argument of one. A bundle with problems is refused.",
        epilog="example: openspyre run my_bundle --input x=x.npy --input w=w.npy --set slope=0.1 --out results; "
        "openspyre run kernel_dir --arg 0=x.npy --image 1=w_bytes.npy --out results    "
        "exit code: 0 done, 1 it could not be run, 2 the command line does not fit the bundle",
    )
    parser.add_argument("directories", type=Path, metavar="DIR", nargs="+", help="the bundle, or several in order")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="[LAUNCH.]SEGMENT=FILE", help="host values of an argument"
    )
    parser.add_argument(
        "--layout",
        action="append",
        default=[],
        metavar="[LAUNCH.]SEGMENT=LAYOUT",
        help="the layout of an --arg, as layouts print",
    )
    parser.add_argument(
        "--image", action="append", default=[], metavar="[LAUNCH.]SEGMENT=FILE", help="raw device bytes of an argument"
    )
    parser.add_argument("--input", action="append", default=[], metavar="NAME=FILE[:DTYPE]", help="a tensor it reads")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a scalar it takes")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results go; none are written without it")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    parser.set_defaults(run=lambda options: run(options, parser))


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if any(is_documented(directory) for directory in options.directories):
        if options.input or options.set:
            parser.error(
                "--input and --set go by a manifest, which is not there: give arguments by segment (--arg, --image)"
            )
        return run_documented.run(options)
    if options.arg or options.layout or options.image or len(options.directories) > 1:
        parser.error("a bundle with a manifest runs alone, its inputs by name (--input)")
    bundle = read(options.directories[0], Settings.read().machine)
    files = _named(options.input, parser)
    values = _named(options.set, parser)
    wanted = [b for b in bundle.arguments if b.role in (Role.INPUT, Role.UPDATE)]
    _require("--input", files, (b.name for b in wanted), parser)
    _require("--set", values, (s.name for s in bundle.scalars), parser)
    arrays = {buffer.name: _load(buffer, files[buffer.name]) for buffer in wanted}
    scalars = {scalar.name: scalar_value(scalar, values[scalar.name]) for scalar in bundle.scalars}
    # Only now, so that the command's other parts work where the card's library does not load.
    from openspyre.tools.run_execution import execute

    results = execute(bundle, arrays, scalars)
    written = _write(bundle, results, options.out) if options.out else {}
    if options.json:
        print(json.dumps(written, indent=2))
    else:
        print(f"{bundle.name}: {len(bundle.executions)} ops executed")
        print("\n".join(f"{name}: {entry['file']} ({entry['dtype']})" for name, entry in written.items()))
    return 0


def _named(pairs: list[str], parser: argparse.ArgumentParser) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name in found:
            parser.error(f"{pair!r} must be NAME=..., each name once")
        found[name] = value
    return found


def _require(option: str, given: dict[str, str], names: Iterable[str], parser: argparse.ArgumentParser) -> None:
    wanted = list(names)
    missing = [name for name in wanted if name not in given]
    unknown = [name for name in given if name not in wanted]
    if missing or unknown:
        needs = f"the bundle takes {', '.join(wanted) or 'none'}"
        parser.error(
            f"{option}: missing {', '.join(missing) or 'none'}; unknown {', '.join(unknown) or 'none'}; {needs}"
        )


def _load(buffer: Buffer, given: str) -> NDArray[Any]:
    """An array of the buffer's size whose numpy type holds its dtype."""
    path, colon, tag = given.rpartition(":")
    if not colon or not path.endswith(".npy"):
        path, tag = given, ""
    held_in = np.dtype(formats_of(buffer.dtype).numpy)
    if tag and tag != buffer.dtype:
        raise InvalidArgument(f"input {buffer.name!r} is {buffer.dtype}, but {path} is tagged {tag}")
    if not tag and _needs_tag(buffer.dtype):
        raise InvalidArgument(
            f"input {buffer.name!r} is {buffer.dtype}, which numpy lacks: give its bits as {held_in} and say so, "
            f"{buffer.name}={path}:{buffer.dtype}"
        )
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"input {buffer.name!r}: cannot read {path} as an .npy file: {error}") from None
    if not isinstance(array, np.ndarray) or array.dtype != held_in or array.shape != buffer.size:
        raise InvalidArgument(
            f"input {buffer.name!r} must be {list(buffer.size)} of {held_in}, but {path} holds "
            f"{list(getattr(array, 'shape', []))} of {getattr(array, 'dtype', type(array).__name__)}"
        )
    return array


def _needs_tag(dtype: str) -> bool:
    return formats_of(dtype).numpy != dtype


def scalar_value(scalar: Scalar, text: str) -> int | float:
    """A number rounded as the op's format asks (contract N7): what the card's registers get."""
    try:
        if scalar.dtype == "bool":
            return _TRUTHS[text.lower()]
        if "float" in scalar.dtype:
            return _rounded(float(text), scalar.dtype)
        value = int(text)
    except (ValueError, KeyError):
        raise InvalidArgument(f"--set {scalar.name}={text}: a {scalar.dtype} is wanted") from None
    if not -(1 << 31) <= value < 1 << 31:
        raise InvalidArgument(f"--set {scalar.name}={text}: the card's integers have 32 bits")
    return value


def _rounded(value: float, dtype: str) -> float:
    if formats_of(dtype).device is DataFormats.SEN169_FP16:
        return float(sen169_decode(sen169_encode(value)))
    return float(np.float32(value))


def _write(bundle: Bundle, results: dict[str, NDArray[Any]], out: Path) -> dict[str, dict[str, str]]:
    """File names come from tensor names, with nothing in them that could lead elsewhere."""
    out.mkdir(parents=True, exist_ok=True)
    dtypes = {buffer.name: buffer.dtype for buffer in bundle.arguments}
    written: dict[str, dict[str, str]] = {}
    for number, (name, array) in enumerate(results.items()):
        tag = f".{dtypes[name]}" if _needs_tag(dtypes[name]) else ""
        plain = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}", name) is not None
        file = f"{name if plain else f'result_{number}'}{tag}.npy"
        np.save(out / file, array)
        written[name] = {"file": file, "dtype": dtypes[name]}
    (out / "results.json").write_text(json.dumps(written, indent=2) + "\n")
    return written
