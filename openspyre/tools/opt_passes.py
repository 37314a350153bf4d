"""What `openspyre opt` does: passes of the compiler on the text of an IR program."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from openspyre.compiler import pipeline
from openspyre.compiler.ir import Program
from openspyre.compiler.pipeline import Pass, name_of, purpose_of
from openspyre.compiler.text import parse_program, print_program
from openspyre.spec.environment import Settings
from openspyre.spec.errors import InvalidArgument, SpyreError

_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    passes = pipeline.passes(Settings.read().machine)
    if options.list:
        print(json.dumps(list(map(as_record, passes)), indent=2) if options.json else "\n".join(listing(passes)))
        return 0
    if options.file is None:
        parser.error("FILE is missing; --list shows the passes")
    steps = [_pass(text, passes, parser) for text in options.passes] or passes
    program = parse_program(_read(options.file))
    texts = [(name_of(step), print_program(after)) for step, after in _run(program, steps, verify=options.verify)]
    if options.json:
        print(
            json.dumps(
                {"file": options.file, "stages": [{"pass": name, "text": text} for name, text in texts]}, indent=2
            )
        )
    elif options.print_after_all:
        print("\n".join(f"# after {name}\n{text}" for name, text in texts), end="")
    elif options.out is None:
        print(texts[-1][1], end="")
    if options.out is not None:
        _write(options.out, texts[-1][1])
    return 0


def _run(program: Program, steps: Sequence[Pass], *, verify: bool) -> Iterator[tuple[Pass, Program]]:
    """Passes rely on those before them; a program that lacks what they leave is the user's mistake, named as such."""
    stages = pipeline.stages(program, steps, verify=verify)
    for step in steps:
        try:
            yield next(stages)
        except SpyreError:
            raise
        except Exception as error:
            raise InvalidArgument(
                f"{name_of(step)} cannot work on program {program.name!r}: {error or type(error).__name__}; run the passes "
                "that come before it in --list first, and see with --verify what is wrong with the program"
            ) from error


def _pass(text: str, passes: Sequence[Pass], parser: argparse.ArgumentParser) -> Pass:
    """A pass by its name, with its options."""
    name, _, given = text.partition(":")
    known = {name_of(step): step for step in passes}
    if name not in known:
        parser.error(f"there is no pass {name!r}; known are {', '.join(known)}")
    step = known[name]
    defaults = _options(step)
    for pair in filter(None, given.split(",")):
        option, equals, value = pair.partition("=")
        if not equals or option not in defaults:
            parser.error(
                f"{text!r}: {name} takes {', '.join(f'{o}=...' for o in defaults) or 'no options'}, not {pair!r}"
            )
        try:
            wanted = _value(value, defaults[option])
        except (KeyError, ValueError):
            parser.error(f"{text!r}: {option} is {type(defaults[option]).__name__}, which {value!r} is not")
        step = replace(step, **{option: wanted})  # type: ignore[type-var]
    return step


def _value(text: str, default: Any) -> Any:
    """An option's value, of its default's type; names are joined by +."""
    if isinstance(default, tuple):
        return tuple(filter(None, text.split("+")))
    return _TRUTHS[text.lower()] if isinstance(default, bool) else int(text)


def _options(step: Pass) -> dict[str, Any]:
    return {field.name: getattr(step, field.name) for field in fields(step)} if is_dataclass(step) else {}


def as_record(step: Pass) -> dict[str, Any]:
    return {"pass": name_of(step), "purpose": purpose_of(step), "options": _options(step)}


def listing(passes: Sequence[Pass]) -> Iterator[str]:
    for step in passes:
        options = ", ".join(f"{name}={_shown(value)}" for name, value in _options(step).items())
        yield f"{name_of(step)}{f' ({options})' if options else ''}"
        yield f"    {purpose_of(step)}"


def _shown(value: Any) -> str:
    return "+".join(value) if isinstance(value, tuple) else str(value)


def _read(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read {file} as IR text: {error}") from None


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text)
    except OSError as error:
        raise InvalidArgument(f"cannot write {out}: {error}") from None
