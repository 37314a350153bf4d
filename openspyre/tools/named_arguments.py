"""Arguments of a launch by the names that a launch spec gives them: tensors from .npy files, numbers from texts."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openspyre.artifact.launch_spec import Argument
from openspyre.spec.encodings import sen169_decode, sen169_encode
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import DataFormats, formats_of
from openspyre.tools.launch_images import load_array, number_image, tiled

_TRUTHS = {"true": 1, "false": 0, "1": 1, "0": 0}


def named_images(
    inputs: list[str], numbers: list[str], spec: tuple[Argument, ...], given: Collection[int], parser: ArgumentParser
) -> dict[int, bytes]:
    """Images by segment, of what is given by name; `given`: segments that have theirs already."""
    files, texts = _named("--input", inputs, parser), _named("--set", numbers, parser)
    tensors = [(n, a) for n, a in enumerate(spec) if a.role in ("input", "update") and n not in given]
    scalars = [(n, a) for n, a in enumerate(spec) if a.role == "number" and n not in given]
    _require("--input", files, ((n, a, a.file is not None) for n, a in tensors), parser)
    _require("--set", texts, ((n, a, a.value is not None) for n, a in scalars), parser)
    images = {n: _tiled(a, loaded(a, files[a.name])) for n, a in tensors if a.name in files}
    for n, argument in scalars:
        if argument.name in texts and argument.layout is not None:
            images[n] = number_image(scalar_value(argument.name, argument.dtype, texts[argument.name]), argument.layout)
    return images


def _tiled(argument: Argument, array: NDArray[Any]) -> bytes:
    return tiled(array, argument.layout, argument.dtype, argument.stride)


def _named(option: str, pairs: list[str], parser: ArgumentParser) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name in found:
            parser.error(f"{option} {pair!r} must be NAME=..., each name once")
        found[name] = value
    return found


def _require(
    option: str, given: dict[str, str], known: Iterable[tuple[int, Argument, bool]], parser: ArgumentParser
) -> None:
    """`known`: segment, argument, and whether the launch spec has its values."""
    wanted = list(known)
    missing = [f"{a.name} (or --arg {n})" for n, a, there in wanted if not there and a.name not in given]
    unknown = given.keys() - {argument.name for _, argument, _ in wanted}
    if missing or unknown:
        names = ", ".join(argument.name for _, argument, _ in wanted) or "none"
        parser.error(
            f"{option}: missing {', '.join(missing) or 'none'}; unknown {', '.join(sorted(unknown)) or 'none'}; "
            f"the bundle takes {names}"
        )


def loaded(argument: Argument, given: str) -> NDArray[Any]:
    """An array of the argument's size whose numpy type holds its dtype, from FILE or FILE:DTYPE."""
    path, colon, tag = given.rpartition(":")
    if not colon or not path.endswith(".npy"):
        path, tag = given, ""
    held_in = np.dtype(formats_of(argument.dtype).numpy)
    what = f"input {argument.name!r}"
    if tag and tag != argument.dtype:
        raise InvalidArgument(f"{what} is {argument.dtype}, but {path} is tagged {tag}")
    if not tag and formats_of(argument.dtype).numpy != argument.dtype:
        raise InvalidArgument(
            f"{what} is {argument.dtype}, which numpy lacks: give its bits as {held_in} and say so, "
            f"{argument.name}={path}:{argument.dtype}"
        )
    array = load_array(what, path)
    if array.dtype != held_in or array.shape != argument.size:
        raise InvalidArgument(
            f"{what} must be {list(argument.size)} of {held_in}, but {path} holds {list(array.shape)} of {array.dtype}"
        )
    return array


def scalar_value(name: str, dtype: str, text: str) -> int | float:
    """A number rounded as the op's format asks (contract N7): what the card's registers get."""
    try:
        if dtype == "bool":
            return _TRUTHS[text.lower()]
        if "float" in dtype:
            return _rounded(float(text), dtype)
        value = int(text)
    except (ValueError, KeyError):
        raise InvalidArgument(f"--set {name}={text}: a {dtype} is wanted") from None
    if not -(1 << 31) <= value < 1 << 31:
        raise InvalidArgument(f"--set {name}={text}: the card's integers have 32 bits")
    return value


def _rounded(value: float, dtype: str) -> float:
    if formats_of(dtype).device is DataFormats.SEN169_FP16:
        return float(sen169_decode(sen169_encode(value)))
    return float(np.float32(value))
