"""What `openspyre opt` does: passes of the compiler on IR text, passes of the back end on the text of a card's program."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from openspyre.backend.fusion import FuseSteps
from openspyre.compiler import pipeline
from openspyre.compiler.pipeline import Pass, name_of, purpose_of
from openspyre.compiler.text import parse_program, print_program
from openspyre.program import text as card_text
from openspyre.program.verify import problems
from openspyre.spec.environment import Settings
from openspyre.spec.errors import InternalError, InvalidArgument, SpyreError

_WORKS_ON = {"compiler": "IR text", "backend": "the text of a card's program"}
CardPass = FuseSteps
Chosen = Pass | CardPass


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    rooms = rooms_of(Settings.read())
    if options.list:
        records = [as_record(step, room) for room, passes in rooms.items() for step in passes]
        print(json.dumps(records, indent=2) if options.json else "\n".join(listing(rooms)))
        return 0
    if options.file is None:
        parser.error("FILE is missing; --list shows the passes")
    chosen = [_pass(text, rooms, parser) for text in options.passes]
    text = _read(options.file)
    room = "backend" if text.lstrip().startswith("program {") else "compiler"
    if others := [name_of(step) for step in chosen if isinstance(step, CardPass) != (room == "backend")]:
        parser.error(f"{options.file} is {_WORKS_ON[room]}, on which {', '.join(others)} cannot work")
    texts = list(_stages(text, room, chosen or rooms[room], verify=options.verify))
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


def rooms_of(settings: Settings) -> dict[str, Sequence[Chosen]]:
    """All passes there are, by where they live."""
    return {"compiler": pipeline.passes(settings.machine, settings.planning), "backend": (FuseSteps(),)}


def _stages(text: str, room: str, steps: Sequence[Chosen], *, verify: bool) -> Iterator[tuple[str, str]]:
    """The name of each pass, and the text of what it returned."""
    if room == "backend":
        return _on_programs(text, [step for step in steps if isinstance(step, CardPass)], verify=verify)
    return _on_ir(text, [step for step in steps if not isinstance(step, CardPass)], verify=verify)


def _on_ir(text: str, steps: Sequence[Pass], *, verify: bool) -> Iterator[tuple[str, str]]:
    """Passes rely on those before them; a program that lacks what they leave is the user's mistake, named as such."""
    program = parse_program(text)
    stages = pipeline.stages(program, steps, verify=verify)
    for step in steps:
        try:
            _, after = next(stages)
        except SpyreError:
            raise
        except Exception as error:
            raise InvalidArgument(
                f"{name_of(step)} cannot work on program {program.name!r}: {error or type(error).__name__}; run the passes "
                "that come before it in --list first, and see with --verify what is wrong with the program"
            ) from error
        yield name_of(step), print_program(after)


def _on_programs(text: str, steps: Sequence[CardPass], *, verify: bool) -> Iterator[tuple[str, str]]:
    """Passes take programs that a card would take: anything else is told at once."""
    program = card_text.parse_program(text)
    if found := problems(program):
        raise InvalidArgument("\n".join([f"{program.name!r} is no program that a card takes:", *found]))
    for step in steps:
        program = step.run(program)
        if verify and (found := problems(program)):
            raise InternalError("\n".join([f"what {name_of(step)} returned is no valid program:", *found]))
        yield name_of(step), card_text.print_program(program)


def _pass(text: str, rooms: dict[str, Sequence[Chosen]], parser: argparse.ArgumentParser) -> Chosen:
    """A pass by its name, with its options."""
    name, _, given = text.partition(":")
    known = {name_of(step): step for passes in rooms.values() for step in passes}
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
        except ValueError:
            parser.error(f"{text!r}: {option} is {type(defaults[option]).__name__}, which {value!r} is not")
        step = replace(step, **{option: wanted})  # type: ignore[type-var]
    return step


def _value(text: str, default: Any) -> Any:
    """An option's value, of its default's type; names are joined by +."""
    if isinstance(default, tuple):
        return tuple(filter(None, text.split("+")))
    return int(text)


def _options(step: Chosen) -> dict[str, Any]:
    """What can be said in a word: a whole machine cannot."""
    found = {field.name: getattr(step, field.name) for field in fields(step)} if is_dataclass(step) else {}
    return {name: value for name, value in found.items() if isinstance(value, int | float | str | tuple)}


def as_record(step: Chosen, room: str) -> dict[str, Any]:
    return {"pass": name_of(step), "room": room, "purpose": purpose_of(step), "options": _options(step)}


def listing(rooms: dict[str, Sequence[Chosen]]) -> Iterator[str]:
    for room, passes in rooms.items():
        yield f"# {room}, on {_WORKS_ON[room]}"
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
        raise InvalidArgument(f"cannot read {file} as the text of a program: {error}") from None


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text)
    except OSError as error:
        raise InvalidArgument(f"cannot write {out}: {error}") from None
