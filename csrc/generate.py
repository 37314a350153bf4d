"""Writes the C++ headers of what Python states: enumerations, limits, opcodes. `python csrc/generate.py`, or `--check` to compare.

Needs no built module, so that a table may change before the card that is built from it.
"""

import argparse
import sys
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import get_args

import numpy as np

from openspyre.program import model
from openspyre.program.registers import OF_LANE, SIGNATURES, Register
from openspyre.spec import counters, errors, layout
from openspyre.spec.formats import DTYPES, STICK_BYTES, TENSOR_DTYPES, DataFormats, ElementArrangement
from openspyre.spec.launch_numbers import Encoding, Rule
from openspyre.spec.machine import SPYRE
from openspyre.spec.ops.expression import MAX_REGISTERS, Lane
from openspyre.spec.ops.row import Fold

CSRC = Path(__file__).parent
_SPELLED = {
    "uint8": "UInt8",
    "bfloat16": "BFloat16",
    "float8_e4m3fn": "Float8E4M3FN",
    "float8_e5m2fnuz": "Float8E5M2FNUZ",
    "tdiv_i": "TDivI",
    "tmod_i": "TModI",
}
_LETTERS: dict[str, str] = {Register.FLOAT: "f", Register.INT: "i"}


def camel(name: str) -> str:
    return _SPELLED.get(name.lower()) or "".join(part.capitalize() for part in name.lower().split("_"))


def texts_of(texts: Iterable[str]) -> str:
    """Initialisers of an array of texts."""
    line = ", ".join(f'"{text}"' for text in texts)
    return textwrap.fill(line, 116, initial_indent="      ", subsequent_indent="      ", break_on_hyphens=False)


def enumeration(name: str, members: Iterable[str], texts: Iterable[str], notes: Mapping[str, str] | None = None) -> str:
    """An enumeration, how many members it has, and their names: what `Names` of formats/names.h are found by."""
    chosen = list(members)
    lines = [f"  {member},{f'  // {(notes or {})[member]}' if notes else ''}\n" for member in chosen]
    return (
        f"enum class {name} : uint8_t {{\n{''.join(lines)}}};\n"
        f"constexpr int k{name}Count = {len(chosen)};\n"
        f"template <>\nstruct Names<{name}> {{\n"
        f"  static constexpr const char* of[] = {{\n{texts_of(texts)}}};\n}};\n"
    )


def of_words(name: str, words: type[StrEnum]) -> str:
    return enumeration(name, (camel(word.name) for word in words), words)


def of_numbers(name: str, numbers: type[IntEnum]) -> str:
    assert [int(number) for number in numbers] == list(range(len(numbers))), "members are numbered as they stand"
    names = [number.name for number in numbers]
    return enumeration(name, names, names)


def constants(values: Mapping[str, int | str]) -> str:
    """By type and name."""
    return "".join(f"constexpr {name} = {value};\n" for name, value in values.items())


def faults() -> str:
    notes = {name: (fault.__doc__ or "").split("\n")[0] for name, fault in errors.by_fault.items()}
    return enumeration("Fault", notes, notes, notes)


def machine() -> str:
    return constants(
        {
            "int kStickBytes": STICK_BYTES,
            "int kCardCores": SPYRE.cores,
            "int kMaxCards": SPYRE.max_cards,
            "int kMaxRank": layout.MAX_RANK,
            "int64_t kMaxLoopPasses": SPYRE.max_loop_passes,
            "int64_t kMaxPoints": SPYRE.max_points_per_op,
            "size_t kMaxDepth": SPYRE.max_loop_depth,
            "int64_t kMaxIterations": SPYRE.max_iterations_per_op,
        }
    )


def formats() -> str:
    bits = ", ".join(str(form.bits) for form in DataFormats)
    rows = "".join(
        f"    {{{np.dtype(DTYPES[name].numpy).itemsize}, DataFormat::{DTYPES[name].host.name}, DataFormat::{DTYPES[name].device.name}}},\n"
        for name in TENSOR_DTYPES
    )
    return "\n".join(
        (
            "// Values are part of the public artifact format: never renumber.",
            of_numbers("DataFormat", DataFormats),
            f"constexpr int kFormatBits[] = {{{bits}}};\n",
            of_numbers("ElementArrangement", ElementArrangement),
            enumeration("DType", map(camel, TENSOR_DTYPES), TENSOR_DTYPES),
            "struct TypeFormats {\n  int host_itemsize;\n  DataFormat host, device;\n};",
            f"constexpr TypeFormats kTypeFormats[] = {{\n{rows}}};\n",
        )
    )


def signature(opcode: str) -> str:
    sources, result = SIGNATURES[opcode]
    return "".join(_LETTERS.get(kind, "*") for kind in sources) + ">" + _LETTERS.get(result, "*")


def program() -> str:
    each = textwrap.wrap(" ".join(f"X({camel(opcode)})" for opcode in SIGNATURES), 112)
    limits = {
        "int kMaxLoops": model.MAX_DIMS,
        "int kMaxOperands": model.MAX_OPERANDS,
        "int kMaxRegisters": MAX_REGISTERS,
        "size_t kMaxSources": max(len(sources) for sources, _ in SIGNATURES.values()),
        "int64_t kLaneUnit": model.LANE_UNIT,
        "int64_t kChunkLanes": model.MAX_LANES,
        "uint8_t kRowScalar": model.ROW_SCALAR,
        "int kMaxRowRegisters": model.MAX_ROWS,
        "int kMaxRowScalars": model.MAX_ROW_SCALARS,
        "size_t kMaxStageConstants": model.MAX_STAGE_CONSTANTS,
    }
    steps = [step.__name__ for step in get_args(model.Step)]
    registers = ", ".join(f"RegisterType::{camel(OF_LANE[lane].name)}" for lane in Lane)
    return "\n".join(
        (
            constants(limits),
            of_words("OperandKind", model.OperandKind),
            of_words("Space", model.Space),
            enumeration("StepKind", steps, steps),
            of_words("Combine", Fold),
            of_words("RegisterType", Register),
            of_words("LaneType", Lane),
            f"constexpr RegisterType kRegisterOfLane[] = {{{registers}}};\n",
            enumeration("Op", map(camel, SIGNATURES), SIGNATURES),
            "// Register types of operands and result: f fp32, i int32, * any (all alike).",
            f"constexpr const char* kSignatures[] = {{\n{texts_of(map(signature, SIGNATURES))}}};\n",
            "#define OPENSPYRE_EACH_OP(X) \\\n  " + " \\\n  ".join(each) + "\n",
        )
    )


def launch_numbers() -> str:
    return "\n".join((of_words("Encoding", Encoding), of_words("Rule", Rule)))


def counts() -> str:
    """Groups of counts as structures, blocks of groups, and what a launch adds to its stream."""
    limits = {
        "uint64_t kCountsMagic": f"{counters.MAGIC}u",
        "uint64_t kCountsLayout": f"{counters.LAYOUT}u",
        "size_t kCountsBytes": counters.TOTAL_BYTES,
        "int kCountedStreams": counters.STREAMS,
    }
    parts = [
        constants(limits),
        f'constexpr const char* kCountsName = "{counters.MEMORY_NAME}";\n',
        "using Count = std::atomic<uint64_t>;\n",
    ]
    for block in (counters.Head, counters.ProcessCounts, counters.CardCounts, counters.StreamCounts):
        for group, rows in counters.groups(block).items():
            members = "".join(f"  Count {row.name}{{0}};  // {row.metadata['meaning']}\n" for row in rows)
            parts.append(f"struct alignas({counters.LINE_BYTES}) {camel(group)}Counts {{\n{members}}};\n")
    names = [row.name for row in fields(counters.LaunchWork)]
    members = "".join(f"  uint64_t {name} = 0;\n" for name in names)
    parts.append(f"struct LaunchWork {{\n{members}}};\nconstexpr size_t kLaunchWorkWords = {len(names)};\n")
    adds = "".join(f"  add_alone(counts.{name}, work.{name});\n" for name in names)
    parts.append(
        "// Where a lock keeps other writers away.\n"
        "inline void add_alone(Count& count, uint64_t amount) {\n"
        "  count.store(count.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);\n}\n"
        f"inline void add_alone(WorkCounts& counts, const LaunchWork& work) {{\n{adds}}}\n"
    )
    return "\n".join(parts)


def header(source: str, body: str, *includes: str) -> str:
    lines = "".join(f"#include {include}\n" for include in includes)
    return (
        f"// Generated from {source} by csrc/generate.py (`make generate`): do not edit.\n"
        f"// clang-format off\n#pragma once\n\n#include <cstddef>\n#include <cstdint>\n\n{lines}\n"
        f"namespace openspyre {{\n\n{body}\n}}  // namespace openspyre\n"
    )


def headers() -> dict[Path, str]:
    names = '"formats/names.h"'
    return {
        CSRC / "card/generated/counters.h": header("openspyre/spec/counters.py", counts(), "<atomic>"),
        CSRC / "card/generated/faults.h": header("openspyre/spec/errors.py", faults(), names),
        CSRC / "card/generated/machine.h": header("openspyre/spec/machine.py and layout.py", machine()),
        CSRC / "card/generated/formats.h": header("openspyre/spec/formats.py", formats(), names),
        CSRC / "card/generated/program.h": header("openspyre/program and openspyre/spec/ops", program(), names),
        CSRC / "torch/generated/launch_numbers.h": header("openspyre/spec/launch_numbers.py", launch_numbers(), names),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; say which headers are stale")
    stale = [(path, text) for path, text in headers().items() if not path.exists() or path.read_text() != text]
    if parser.parse_args().check:
        for path, _ in stale:
            print(f"{path.relative_to(CSRC)} is stale: run `make generate`")
        return 1 if stale else 0
    for path, text in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
