"""`openspyre inspect`: a bundle for people: ops in order with their division, every tensor's place, and a map of the scratchpads."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

from openspyre.artifact.bundle import Bundle, addresses
from openspyre.artifact.bundle_function import Address, Execute
from openspyre.artifact.launch_spec import Argument, read_launch_spec
from openspyre.artifact.superdsc import PRESENT, Component, SuperDsc, Tensor
from openspyre.program.footprint import footprints
from openspyre.tools.bundle import ANY_BYTES, compiled_for, depends_on_size, read

_SCALES = {1: "", -1: "broadcast", -2: "one lane"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "inspect",
        help="summarise a bundle",
        description="Shows the arguments of a bundle and, per op, its iteration space, its split over the cores and the "
        "addresses of its operands. A bundle with problems is refused with their list.",
        epilog="example: openspyre inspect my_bundle --cores    exit code: 0 shown, 1 the bundle has problems",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the bundle")
    parser.add_argument("--cores", action="store_true", help="also show each core's slice and addresses")
    parser.add_argument("--json", action="store_true", help="print JSON (with all cores) instead of text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    summary = summarise(read(options.directory), read_launch_spec(options.directory))
    print(json.dumps(summary, indent=2) if options.json else "\n".join(render(summary, cores=options.cores)))
    return 0


def summarise(bundle: Bundle, spec: tuple[Argument, ...] | None) -> dict[str, Any]:
    """Everything the text form shows, as data."""
    executions = list(bundle.function.executions())
    return {
        "name": bundle.name,
        "addresses": "symbolic" if bundle.symbolic else "numeric",
        "arguments": _arguments(bundle, spec),
        "ops": [_op(bundle, execute, iterations) for execute, iterations in executions],
        "scratchpad": _scratchpad_map(bundle),
    }


def _arguments(bundle: Bundle, spec: tuple[Argument, ...] | None) -> list[dict[str, Any]]:
    """What the bundle does with its arguments; what a launch spec calls them, where there is one."""
    touched = footprints(compiled_for(bundle, [ANY_BYTES] * bundle.arguments))
    names = bundle.argument_names
    found = []
    for number in range(bundle.arguments):
        print_ = touched.get(number)
        role = "unused"
        if print_ is not None:
            role = "update" if print_.read_first and print_.written else "input" if print_.read_first else "output"
        if bundle.has_pool and number == 0:
            role = "pool"
        bytes_ = None if print_ is None or depends_on_size(print_.end) else print_.end
        said = {} if spec is None else _said(spec[number])
        found.append({"segment": number, "name": names[number], "role": role, "bytes": bytes_} | said)
    return found


def _said(argument: Argument) -> dict[str, Any]:
    if argument.layout is None:
        return {"name": argument.name, "role": argument.role}
    tensor = {"dtype": argument.dtype, "size": list(argument.size), "layout": str(argument.layout)}
    value = {} if argument.value is None else {"value": argument.value}
    return {"name": argument.name, "role": argument.role} | tensor | value


def _op(bundle: Bundle, execute: Execute, iterations: tuple[int, ...]) -> dict[str, Any]:
    op = bundle.ops[execute.file]
    return {
        "file": execute.file,
        "op": op.op,
        "name": op.name,
        "unit": op.unit,
        "iteration": list(iterations),
        "axes": [{"label": axis.label, "size": axis.size, "split": axis.split} for axis in op.axes],
        "masks": {mask.label: mask.valid for mask in op.masks},
        "constants": {constant.name: constant.bits for constant in op.constants},
        "cores": op.cores,
        "slices": [dict(zip((axis.label for axis in op.axes), slices, strict=True)) for slices in op.slices],
        "tensors": [_tensor(op, number, addresses(execute, iterations)) for number in range(len(op.tensors))],
        "provenance": str(op.provenance) if op.provenance is not None else "",
    }


def _tensor(op: SuperDsc, number: int, address: Callable[[int], Address]) -> dict[str, Any]:
    tensor = op.tensors[number]
    places = [
        _place(tensor, start, address(start) if tensor.component is Component.MEMORY else None)
        for start in tensor.starts
    ]
    return {
        "name": tensor.name,
        "direction": "out" if number in op.outputs else "index" if number == op.index else "in",
        "role": tensor.role,
        "format": tensor.format.name,
        "order": list(tensor.order),
        "stick": [[stick.label, stick.size] for stick in tensor.sticks],
        "scales": dict(tensor.scales),
        "gaps": dict(tensor.gaps),
        "place": places[0],
        "core_places": places,
        "bytes_per_core": bytes_per_core(op, tensor),
    }


def _place(tensor: Tensor, start: int, address: Address | None) -> str:
    if address is None:
        return f"scratchpad + {start}"
    return f"argument {address.parameter} + {address.byte}"


def bytes_per_core(op: SuperDsc, tensor: Tensor) -> int:
    """What one core has of a tensor."""
    sticks = 1
    for label in tensor.order:
        axis = op.axis[label]
        along = prod(stick.size for stick in tensor.sticks if stick.label == label)
        if tensor.scale(label) == PRESENT:
            sticks *= max(1, -(-axis.per_core // along))
    return 128 * sticks


def _scratchpad_map(bundle: Bundle) -> list[dict[str, Any]]:
    """What each op writes into the scratchpads, in order of execution."""
    found = []
    for number, (execute, _) in enumerate(bundle.function.executions()):
        op = bundle.ops[execute.file]
        for output in op.outputs:
            tensor = op.tensors[output]
            if tensor.component is Component.SCRATCHPAD:
                size = bytes_per_core(op, tensor)
                found.append(
                    {
                        "op": number,
                        "name": op.name,
                        "first": tensor.starts[0],
                        "end": tensor.starts[0] + size,
                        "cores": op.cores,
                    }
                )
    return found


def render(summary: dict[str, Any], *, cores: bool) -> Iterator[str]:
    yield f"bundle {summary['name']!r}, {len(summary['ops'])} ops, {summary['addresses']} addresses"
    yield "arguments"
    for argument in summary["arguments"]:
        bytes_ = (
            "as many bytes as an index asks for" if argument["bytes"] is None else f"at least {argument['bytes']} bytes"
        )
        size = f" [{'x'.join(map(str, argument['size']))}]" if argument.get("size") else ""
        tensor = f"{size} {argument['dtype']}" if "dtype" in argument else ""
        value = f" = {argument['value']}" if "value" in argument else ""
        yield f"  {argument['segment']}. {argument['role']:6} {argument['name']}{tensor}{value}, {bytes_}"
        if "layout" in argument:
            yield f"            {argument['layout']}"
    for number, op in enumerate(summary["ops"]):
        yield from _render_op(number, op, cores=cores)
    if summary["scratchpad"]:
        yield "scratchpads, as they are written"
        for entry in summary["scratchpad"]:
            yield f"  {entry['first']:>8} to {entry['end']:<8} by op {entry['op']} ({entry['name']}) on {entry['cores']} core(s)"


def _render_op(number: int, op: dict[str, Any], *, cores: bool) -> Iterator[str]:
    came = f"  ({op['provenance']})" if op["provenance"] else ""
    loop = f", iteration {op['iteration']}" if op["iteration"] else ""
    yield f"{number}. {op['op']} on {op['unit']}, {op['file']}{loop}{came}"
    space = ", ".join(
        f"{a['label']}={a['size']}" + (f" split {a['split']}" if a["split"] > 1 else "") for a in op["axes"]
    )
    masks = "".join(f"; {label} masked from {valid}" for label, valid in op["masks"].items())
    yield f"   over {space}; {op['cores']} core{'' if op['cores'] == 1 else 's'}{masks}"
    for tensor in op["tensors"]:
        order = " < ".join(tensor["order"])
        scales = ", ".join(f"{label} {_SCALES[scale]}" for label, scale in tensor["scales"].items() if scale != 1)
        gaps = "".join(f", gap of {gap} behind {label}" for label, gap in tensor["gaps"].items())
        stick = " x ".join(f"{size} {label}" for label, size in tensor["stick"])
        yield f"   {tensor['direction']:5} {tensor['place']}  {tensor['format']}, {order}, stick {stick}{gaps}{'; ' + scales if scales else ''}"
    for name, bits in op["constants"].items():
        yield f"   const {name} 0x{bits:x}"
    for core in range(op["cores"]) if cores else ():
        where = ", ".join(f"{label} {at}" for label, at in op["slices"][core].items())
        places = ", ".join(tensor["core_places"][core] for tensor in op["tensors"])
        yield f"     core {core:2}: slice {where}; {places}"
