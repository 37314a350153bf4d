"""The worked example of the compiler's page: a small function, imported as torch.compile imports it, through every pass."""

import difflib
import inspect
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from openspyre.compiler import pipeline
from openspyre.compiler.ir import Program
from openspyre.compiler.text import print_program
from torch_spyre.inductor.graph_registry import find
from torch_spyre.inductor.importing.build_bundles import bundle
from torch_spyre.inductor.lowering.expand import expand
from torch_spyre.inductor.reporting.report import GraphReport


def example(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    turned = (x * 2).t().contiguous()
    return torch.softmax(turned + y, -1)


def imported() -> Program:
    """What a launch hands to the passes: the graph's calls as one program; only its inputs have layouts yet."""
    inputs = [torch.empty(size, dtype=torch.float16, device="spyre") for size in ((256, 128), (128, 256))]
    module = make_fx(example, tracing_mode="fake")(*inputs)
    report = GraphReport("example")
    bundle(module, report)
    graph = find(report.bundles[0].key)
    program = expand(graph, {}, inputs[0].device).program
    names = [graph.values[number].buffer for number in graph.inputs]
    layouts = dict(zip(names, (tensor.device_tensor_layout() for tensor in inputs), strict=True))
    return replace(program, buffers=tuple(replace(b, layout=layouts.get(b.name)) for b in program.buffers))


def worked() -> Iterator[str]:
    """Markdown: the function, its program, what each pass changed, the program in the end."""
    program = imported()
    before = print_program(program)
    yield f"```py\n{inspect.getsource(example)}```"
    yield f"As it is imported, for inputs in their default layouts:\n\n```ir\n{before}```"
    for step, after in pipeline.stages(program, pipeline.passes(), verify=True):
        text = print_program(after)
        changes = list(difflib.unified_diff(before.splitlines(), text.splitlines(), n=1, lineterm=""))
        shown = "\n".join("..." if line.startswith("@@") else line for line in changes[2:])
        yield f"**{pipeline.name_of(step)}**" + (
            f"\n\n```diff\n{shown}\n```" if changes else " finds nothing to do here."
        )
        before = text
    yield f"What is emitted:\n\n```ir\n{before}```"
