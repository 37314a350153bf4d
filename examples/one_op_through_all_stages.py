"""One addition on its way to the card: IR, passes, bundle, program, 32 cores, and the same bits through torch.

Run it with `python examples/one_op_through_all_stages.py`. `x + y.t()` is what eager torch would send: the sticks of y run the
other way, so a pass has to turn them first.
"""

import json
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import torch

from openspyre.artifact import Emitted, write_launch
from openspyre.backend import compile_emitted
from openspyre.backend.job_plan import job_plan
from openspyre.compiler import pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.ir import Access, Buffer, Dim, Op, Role
from openspyre.compiler.ir import Program as Graph
from openspyre.compiler.text import print_program
from openspyre.program.model import Map, Program, Relayout, Step
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.tools.command import main as openspyre

ROWS, COLUMNS = 96, 320


def main() -> None:
    graph = addition()
    show("1. the op as IR: one row of the op table over a named space, operands as host strides", print_program(graph))
    lowered = pipeline.run(graph, verify=True)
    names = ", ".join(type(step).__name__ for step in pipeline.passes())
    show(f"2. after {names}: layouts, a relayout for y, a split over the cores", ops_of(print_program(lowered)))
    emitted = emit_bundle(lowered)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / "addition"
        write_launch(emitted, directory)
        show("3. the bundle: a directory that says all of it, in the documented form", files_of(directory))
        show("   what sdsc_1.json says of the addition, among other things", facts_of(directory))
    program = compile_emitted(emitted)
    show("4. the program, from the bundle alone: loops over sticks, and code for 64 lanes", steps_of(program))
    commands = " -> ".join(type(step).__name__ for step in job_plan(program).execution)
    show("5. a launch", f"{commands}, with the addresses of {', '.join(program.symbols)} and the pool\n")
    show("6. the result", result_of(emitted))


def addition() -> Graph:
    """What torch_spyre.ops makes of `x + y.t()`: no copy of y, just its strides the other way round."""
    size = (ROWS, COLUMNS)
    x = Buffer("x", "float16", size, (COLUMNS, 1), Role.INPUT, SpyreTensorLayout([*size], "float16"))
    y = Buffer("y", "float16", size[::-1], (ROWS, 1), Role.INPUT, SpyreTensorLayout([*size[::-1]], "float16"))
    out = Buffer("out", "float16", size, (COLUMNS, 1), Role.OUTPUT)
    reads = Access("x", 0, (COLUMNS, 1), "float16"), Access("y", 0, (1, ROWS), "float16")
    writes = Access("out", 0, (COLUMNS, 1), "float16")
    add = Op("add", "add", (Dim("i", ROWS), Dim("j", COLUMNS)), reads, (writes,))
    return Graph("addition", (x, y, out), (add,))


def show(title: str, text: str) -> None:
    print(title)
    print("".join(f"     {line}\n" for line in text.splitlines()))


def ops_of(text: str) -> str:
    """From the first temp on: the rest has been seen."""
    lines = text.splitlines()
    return "\n".join(line for number, line in enumerate(lines) if number == 0 or number > 3)


def files_of(directory: Path) -> str:
    listing = (directory / "bundle.mlir").read_text()
    order = listing.count("sdscbundle.sdsc_execute")
    sizes = [f"{path.name:13} {path.stat().st_size:6} bytes" for path in sorted(directory.iterdir())]
    sizes[0] += f": {order} ops in order, each core's addresses as symbols"
    return "\n".join(sizes)


def facts_of(directory: Path) -> str:
    (document,) = json.loads((directory / "sdsc_1.json").read_text()).values()
    (description,) = document["dscs_"][0].values()
    shown = {name: document[name] for name in ("numCoresUsed_", "numWkSlicesPerDim_")}
    shown |= {name: description[name] for name in ("N_", "primaryDsInfo_")}
    shown["dataStageParam_"] = description["dataStageParam_"]["0"]["ss_"]
    shown["opFuncName"] = description["computeOp_"][0]["opFuncName"]
    return "\n".join(f"{name:19} {json.dumps(value)}" for name, value in shown.items())


def steps_of(program: Program) -> str:
    return "\n".join(line for step in program.steps for line in lines_of(step, (*program.symbols, "pool")))


def lines_of(step: Step, names: tuple[str, ...]) -> list[str]:
    head = f"{type(step).__name__} {step.name!r}"
    match step:
        case Relayout():
            sides = ((step.source, step.inputs[0]), (step.target, step.outputs[0]))
            return [head, *(f"  {view.size} at {view.stride} of {names[o.symbol]}" for view, o in sides)]
        case Map():
            dims = [f"{dim.extent}" + f" over {dim.split} cores" * (dim.split > 1) for dim in step.dims]
            loads = [f"  r{k} = {o.kind} of {names[o.symbol]}, strides {o.strides}" for k, o in enumerate(step.inputs)]
            done = step.code.instructions
            code = [f"  r{i.target} = {i.opcode}({', '.join(f'r{s}' for s in i.sources)})" for i in done]
            stored = zip(step.code.results, step.outputs, strict=True)
            stores = [f"  store r{r} to {names[o.symbol]}" for r, o in stored]
            return [f"{head}: dims {', '.join(dims)}", *loads, *code, *stores]
    return [head]


def result_of(emitted: Emitted) -> str:
    """The bundle's files on the card, as `openspyre run` does it without torch, and torch's own way through the same rooms."""
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(size).astype(np.float16) for size in ((ROWS, COLUMNS), (COLUMNS, ROWS)))
    with tempfile.TemporaryDirectory() as temporary:
        bundle, results = Path(temporary) / "addition", Path(temporary) / "results"
        write_launch(emitted, bundle, {"x": x, "y": y})
        with redirect_stdout(StringIO()):
            assert openspyre(["run", str(bundle), "--out", str(results)]) == 0
        mine = np.load(results / "out.npy")
    torchs = (torch.from_numpy(x).to("spyre") + torch.from_numpy(y).to("spyre").t()).cpu().numpy()
    error = np.abs(mine.astype(np.float64) - (x.astype(np.float64) + y.T)).max()
    return f"out[0, :4] = {mine[0, :4]}\nlargest error {error:.4f}; the same bits through torch: {np.array_equal(mine, torchs)}\n"


if __name__ == "__main__":
    main()
