"""`openspyre compile`: what the back end makes of a bundle, left in its directory as the runtime expects it."""

from __future__ import annotations

import argparse
from pathlib import Path

from openspyre.artifact.launch_spec import read_launch_spec
from openspyre.backend.spyre_code import write_spyre_code
from openspyre.program.footprint import footprints
from openspyre.program.model import Program
from openspyre.spec.errors import InvalidArgument
from openspyre.tools.bundle import ANY_BYTES, compiled_for, depends_on_size, read
from openspyre.tools.launch_images import keyed


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "compile",
        help="compile a bundle into SpyreCode",
        description="Compiles a bundle directory and writes spyreCodeDir/spyrecode.json, the program's image and "
        "loadprogram_to_device/ into it, as a back end does. Sizes of arguments that an index chooses from come from "
        "launch_spec.json or --bytes.",
        epilog="example: openspyre compile kernel_dir    exit code: 0 written, 1 the bundle has problems",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the bundle")
    parser.add_argument("--bytes", action="append", default=[], metavar="SEGMENT=N", help="bytes of an argument")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    program = compiled(options.directory, options.bytes)
    for path in write_spyre_code(options.directory, program):
        print(path)
    return 0


def compiled(directory: Path, sizes: list[str]) -> Program:
    """The program of a bundle, its arguments as long as a launch spec or the caller says."""
    bundle = read(directory)
    bytes_ = [ANY_BYTES] * bundle.arguments
    spec = read_launch_spec(directory)
    if spec is not None:
        bytes_ = [argument.bytes for argument in spec]
    for key, text in keyed("--bytes", sizes).items():
        if key.segment >= bundle.arguments or not text.isdecimal():
            raise InvalidArgument(
                f"--bytes {key.segment}={text}: {bundle.name} has {bundle.arguments} arguments, a size is a number"
            )
        bytes_[key.segment] = int(text)
    program = compiled_for(bundle, bytes_)
    for number, found in footprints(program).items():
        if depends_on_size(found.end):
            raise InvalidArgument(f"argument {number} is indexed, so its size must be known: --bytes {number}=N")
    return program
