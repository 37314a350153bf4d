"""`openspyre inspect`: a bundle for people: what it computes, how it is split over the cores, where everything lies."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openspyre.artifact import Bundle, content_hash, read
from openspyre.artifact.geometry import Geometry, geometry
from openspyre.artifact.listing import file_name
from openspyre.artifact.model import Buffer, Execution
from openspyre.artifact.names import op_func_name
from openspyre.spec.environment import Settings
from openspyre.tools import inspect_documented
from openspyre.tools.documented import is_documented
from openspyre.tools.documented import read as read_documented


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "inspect",
        help="summarise a bundle",
        description="Shows the tensors of a bundle and, per op, its iteration space, its split over the cores and the "
        "addresses of its operands. A bundle with problems is refused with their list.",
        epilog="example: openspyre inspect my_bundle --cores    exit code: 0 shown, 1 the bundle has problems",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the bundle")
    parser.add_argument("--cores", action="store_true", help="also show each core's slice and addresses")
    parser.add_argument("--json", action="store_true", help="print JSON (with all cores) instead of text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if is_documented(options.directory):
        summary = inspect_documented.summarise(read_documented(options.directory))
        lines = inspect_documented.render(summary, cores=options.cores)
    else:
        summary = summarise(read(options.directory, Settings.read().machine))
        lines = render(summary, cores=options.cores)
    print(json.dumps(summary, indent=2) if options.json else "\n".join(lines))
    return 0


def summarise(bundle: Bundle) -> dict[str, Any]:
    """Everything the text form shows, as data."""
    shapes = [geometry(description) for description in bundle.descriptions]
    return {
        "name": bundle.name,
        "content_hash": content_hash(bundle),
        "tensors": [_tensor(buffer) for buffer in bundle.buffers],
        "scalars": [{"name": scalar.name, "dtype": scalar.dtype} for scalar in bundle.scalars],
        "pool_bytes": bundle.pool_bytes,
        "ops": [_op(bundle, execution, shapes[execution.description]) for execution in bundle.executions],
    }


def _tensor(buffer: Buffer) -> dict[str, Any]:
    return {
        "name": buffer.name,
        "role": buffer.role.value,
        "dtype": buffer.dtype,
        "size": list(buffer.size),
        "stride": list(buffer.stride),
        "layout": str(buffer.layout),
        "device_bytes": buffer.layout.device_bytes,
        "place": buffer.place,
    }


def _op(bundle: Bundle, execution: Execution, shape: Geometry) -> dict[str, Any]:
    description = bundle.descriptions[execution.description]
    inputs = len(description.tensors) - len(description.outputs)
    operands = [
        {
            "direction": "in" if number < inputs else "out",
            "tensor": place.buffer,
            "byte": place.byte,
            "role": tensor.role,
            "lanes": facts.lanes.value,
            "order": list(tensor.order),
            "stick": tensor.stick,
            "core_bytes": [place.byte + byte for byte in tensor.core_bytes],
        }
        for number, (place, tensor, facts) in enumerate(
            zip(execution.places, shape.tensors, description.tensors, strict=True)
        )
    ]
    return {
        "name": execution.name,
        "op": description.row,
        "artifact": op_func_name(description, keeps_stick=shape.keeps_stick),
        "file": file_name(execution.description),
        "origin": execution.origin,
        "iteration_space": [
            {"dim": dim.name, "label": axis.label, "size": dim.size, "padded": axis.size, "split": dim.split}
            | ({"reduced": True} if dim.reduced else {})
            for dim, axis in zip(description.dims, shape.axes, strict=False)
        ],
        "cores": shape.cores,
        "slices": [dict(at) for at in shape.slices],
        "operands": operands,
        "scalars": list(execution.scalars),
    }


def render(summary: dict[str, Any], *, cores: bool) -> Iterator[str]:
    yield f"bundle {summary['name']!r}, {len(summary['ops'])} ops, pool of {summary['pool_bytes']} bytes"
    yield f"content {summary['content_hash']}"
    yield "tensors"
    for tensor in summary["tensors"]:
        size = "x".join(map(str, tensor["size"])) or "scalar"
        place = "" if tensor["place"] is None else f" at byte {tensor['place']} of the pool"
        yield f"  {tensor['role']:6} {tensor['name']} [{size}] {tensor['dtype']}, {tensor['device_bytes']} bytes{place}"
        yield f"         {tensor['layout']}"
    for scalar in summary["scalars"]:
        yield f"  scalar {scalar['name']} {scalar['dtype']}"
    for number, op in enumerate(summary["ops"]):
        yield from _render_op(number, op, cores=cores)


def _render_op(number: int, op: dict[str, Any], *, cores: bool) -> Iterator[str]:
    origin = f"  ({op['origin']})" if op["origin"] else ""
    yield f"{number}. {op['name']}: {op['op']} as {op['artifact']}, {op['file']}{origin}"
    space = ", ".join(_axis(axis) for axis in op["iteration_space"]) or "a single point"
    yield f"   over {space}; {op['cores']} core{'' if op['cores'] == 1 else 's'}"
    for operand in op["operands"]:
        order = " < ".join(operand["order"])
        kind = f"{operand['lanes']}, {order}, stick {operand['stick']}"
        yield f"   {operand['direction']:3} {operand['tensor']} + {operand['byte']}  {operand['role']}, {kind}"
    for scalar in op["scalars"]:
        yield f"   in  scalar {scalar}"
    for core in range(op["cores"]) if cores else ():
        where = ", ".join(f"{label} {at}" for label, at in op["slices"][core].items())
        bytes_ = ", ".join(f"{operand['tensor']} + {operand['core_bytes'][core]}" for operand in op["operands"])
        yield f"     core {core:2}: slice {where or 'all'}; {bytes_}"


def _axis(axis: dict[str, Any]) -> str:
    padded = f", padded to {axis['padded']}" if axis["padded"] != axis["size"] else ""
    split = f", split {axis['split']}" if axis["split"] > 1 else ""
    reduced = ", reduced" if axis.get("reduced") else ""
    return f"{axis['dim']}={axis['size']} ({axis['label']}{padded}{split}{reduced})"
