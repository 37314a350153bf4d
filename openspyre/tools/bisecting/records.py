"""What a run leaves behind, op by op: which elements it read and wrote, and their values. As files, so that two processes can compare."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openspyre.spec.encodings import bfloat16_decode, e4m3fn_decode, e5m2fnuz_decode, sen169_decode
from openspyre.spec.errors import InvalidArgument
from openspyre.spec.formats import DataFormats

FORMAT_VERSION = 1
_FILE = "records.json"
RESULT = "result"  # what a launch leaves, as the host sees it: no op
_CODES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of a tensor that hold something: their places, in order, and their codes.

    A place is a number that means the same on both sides: the index in the op's dims (`dims` has their names and sizes), or, without
    dims, the element's distance from the first one of the tensor.
    """

    tensor: str
    format: DataFormats
    dims: tuple[tuple[str, int], ...]
    places: NDArray[np.int64]
    codes: NDArray[Any]

    @property
    def values(self) -> NDArray[np.float64]:
        return decoded(self.codes, self.format)

    def place_text(self, place: int) -> str:
        if not self.dims:
            return f"element {place}"
        sizes = [size for _, size in self.dims]
        index = np.unravel_index(place, sizes)
        return ", ".join(f"{label} {int(at)}" for (label, _), at in zip(self.dims, index, strict=True))


@dataclass(frozen=True, slots=True)
class Record:
    """One op, or one step of a program: `name` in its launch, `kind` what it computes, `source` the user's line.

    `form`: how it walks, of an op whose places mean nothing to one that walks otherwise.
    """

    launch: int
    name: str
    kind: str
    source: str
    inputs: tuple[Elements, ...]
    outputs: tuple[Elements, ...]
    form: str = ""

    @property
    def shape(self) -> tuple[object, ...]:
        """What an op of the other run must share with it to be its counterpart."""
        return (self.kind, self.form, *((e.format, e.dims) for e in self.outputs))

    @property
    def is_result(self) -> bool:
        return self.kind == RESULT


@dataclass(frozen=True, slots=True)
class Trace:
    """All of a run, in order; `failure`: what ended it early."""

    records: tuple[Record, ...]
    failure: str = ""


def host_format(dtype: str) -> DataFormats:
    """How numbers of a dtype are written on the host."""
    written = {"float16": DataFormats.IEEE_FP16, "float32": DataFormats.IEEE_FP32, "bfloat16": DataFormats.BFLOAT16}
    written |= {"int32": DataFormats.IEEE_INT32, "int64": DataFormats.IEEE_INT64, "int16": DataFormats.SENINT16}
    return written.get(dtype, DataFormats.SENINT8)


def code_type(bytes_each: int) -> Any:
    return _CODES[bytes_each]


def decoded(codes: NDArray[Any], form: DataFormats) -> NDArray[np.float64]:
    """Codes of a format as numbers; of one that nobody computes with, the codes themselves."""
    match form:
        case DataFormats.SEN169_FP16:
            found: NDArray[Any] = sen169_decode(codes.view(np.uint16))
        case DataFormats.IEEE_FP32:
            found = codes.view(np.float32)
        case DataFormats.BFLOAT16:
            found = bfloat16_decode(codes.view(np.uint16))
        case DataFormats.IEEE_FP16:
            found = codes.view(np.float16)
        case DataFormats.SEN143_FP8:
            found = e4m3fn_decode(codes.view(np.uint8))
        case DataFormats.SEN152_FP8:
            found = e5m2fnuz_decode(codes.view(np.uint8))
        case DataFormats.IEEE_INT32 | DataFormats.SENINT8 | DataFormats.SENINT16 | DataFormats.IEEE_INT64:
            found = codes.view(np.dtype(f"int{8 * codes.itemsize}"))
        case _:
            found = codes
    return found.astype(np.float64)


class TraceWriter:
    """Writes records as they come: a run may be larger than memory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._told: list[dict[str, object]] = []

    def add(self, record: Record) -> None:
        number = len(self._told)

        def kept(elements: Elements, name: str) -> dict[str, object]:
            np.save(self.directory / f"{number}_{name}_places.npy", elements.places)
            np.save(self.directory / f"{number}_{name}_codes.npy", elements.codes)
            return {"tensor": elements.tensor, "format": elements.format.name, "dims": elements.dims}

        self._told.append(
            {
                "launch": record.launch,
                "name": record.name,
                "kind": record.kind,
                "source": record.source,
                "form": record.form,
                "inputs": [kept(e, f"in{k}") for k, e in enumerate(record.inputs)],
                "outputs": [kept(e, f"out{k}") for k, e in enumerate(record.outputs)],
            }
        )

    def end(self, failure: str = "") -> None:
        tree = {"format": FORMAT_VERSION, "failure": failure, "records": self._told}
        (self.directory / _FILE).write_text(json.dumps(tree), encoding="utf-8")


def read_trace(directory: Path) -> Trace:
    """What a run left, its values still on disk; InvalidArgument if it is none."""
    try:
        tree = json.loads((directory / _FILE).read_text(encoding="utf-8"))
        if tree["format"] != FORMAT_VERSION:
            raise ValueError(f"form {tree['format']}, not {FORMAT_VERSION}")
        records = tuple(_record(told, number, directory) for number, told in enumerate(tree["records"]))
        return Trace(records, str(tree["failure"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidArgument(f"{directory} holds no records of a run: {error}") from None


def _record(told: Any, number: int, directory: Path) -> Record:
    def elements(kept: Any, name: str) -> Elements:
        places, codes = (_loaded(directory / f"{number}_{name}_{what}.npy") for what in ("places", "codes"))
        dims = tuple((str(label), int(size)) for label, size in kept["dims"])
        return Elements(str(kept["tensor"]), DataFormats[kept["format"]], dims, places, codes)

    return Record(
        int(told["launch"]),
        str(told["name"]),
        str(told["kind"]),
        str(told["source"]),
        tuple(elements(e, f"in{k}") for k, e in enumerate(told["inputs"])),
        tuple(elements(e, f"out{k}") for k, e in enumerate(told["outputs"])),
        str(told["form"]),
    )


def _loaded(path: Path) -> NDArray[Any]:
    found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return found
