"""Damaged files of sound bundles, for the verifier to read: every mutant must be answered with a list of problems, or run."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

from openspyre.artifact.directory import EXECUTION_LIST
from openspyre.artifact.json_types import Json

Files = dict[str, str]
_JUNK: tuple[Json, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 31, 32, 33, 64, 127, 128, 1 << 31, 1 << 62, 1 << 63, -(1 << 63), 10**30, 0.5,
    1e308, "", "x", "add", "sum", "batchmatmul", "relayout", "float32", "int64", "vector", "splat", "view", "../x",
    "\0", "%arg_0", [], [0], [1, 2, 3], [[]], {}, {"a": 1}, "\ud7ff", "9" * 200,
)  # fmt: skip


def mutant(rng: random.Random, original: Files) -> tuple[str, Files]:
    """What was done, and the files it leaves."""
    files, done = dict(original), []
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        mutation = rng.choice(MUTATIONS)
        file = rng.choice(sorted(files) if rng.random() < 0.7 else [EXECUTION_LIST])
        files[file] = mutation(rng, files[file])
        done.append(f"{mutation.__name__.strip('_')} {file}")
    if rng.random() < 0.05:
        removed = rng.choice(sorted(files))
        del files[removed]
        done.append(f"removed {removed}")
    return ", ".join(done), files


def _change_value(rng: random.Random, text: str) -> str:
    """Another value at a random place of a JSON tree, or of a number in any other text."""
    return _in_tree(rng, text, lambda old: rng.choice(_JUNK))


def _change_slightly(rng: random.Random, text: str) -> str:
    def slightly(old: Json) -> Json:
        if isinstance(old, bool):
            return not old
        if isinstance(old, int):
            return (
                old + rng.choice((-128, -64, -1, 1, 2, 64, 128))
                if rng.random() < 0.7
                else old * rng.choice((-1, 2, 1000))
            )
        if isinstance(old, str):
            return re.sub(r"\d+", lambda digits: str(int(digits[0]) + 1), old) if re.search(r"\d", old) else old + "x"
        return rng.choice(_JUNK)

    return _in_tree(rng, text, slightly)


def _in_tree(rng: random.Random, text: str, change: Callable[[Json], Json]) -> str:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        numbers = list(re.finditer(r"-?\d+", text))
        if not numbers:
            return text
        chosen = rng.choice(numbers)
        value = change(int(chosen[0])) if len(chosen[0]) < 100 else 0
        return text[: chosen.start()] + str(value) + text[chosen.end() :]
    node = tree
    while True:
        places = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
        if not places:
            return json.dumps(change(tree))
        place = rng.choice(places)
        inner = node[place]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.15:
            node[place] = change(inner)
            return json.dumps(tree, indent=2)
        node = inner


def _remove_field(rng: random.Random, text: str) -> str:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return _remove_line(rng, text)
    node = tree
    while isinstance(node, (dict, list)) and node:
        place = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        if rng.random() < 0.3 or not isinstance(node[place], (dict, list)):
            del node[place]
            break
        node = node[place]
    return json.dumps(tree, indent=2)


def _truncate(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _remove_line(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    del lines[rng.randrange(len(lines))]
    return "\n".join(lines)


def _repeat_line(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    place = rng.randrange(len(lines))
    return "\n".join([*lines[: place + 1], *lines[place:]])


def _swap_lines(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


def _change_characters(rng: random.Random, text: str) -> str:
    characters = list(text)
    for _ in range(min(rng.choice((1, 1, 3, 20)), len(characters))):
        characters[rng.randrange(len(characters))] = rng.choice('0123456789"{}[],:-+eE\\ x\n\u00e9')
    return "".join(characters)


def _nest_deeply(rng: random.Random, text: str) -> str:
    return rng.choice("[{") * rng.choice((10, 100_000)) + text


MUTATIONS = (
    _change_value, _change_value, _change_slightly, _change_slightly, _remove_field, _truncate, _remove_line,
    _repeat_line, _swap_lines, _change_characters, _nest_deeply,
)  # fmt: skip
