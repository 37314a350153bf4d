"""From an imported graph to the program of a launch: specialised on symbols, and on layouts and offsets of the inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import torch

from openspyre.backend.text_cache import TextCache
from openspyre.card import counters
from openspyre.card.cards import settings_in_force
from openspyre.compiler import ir
from openspyre.compiler.passes.choose_layouts import default_layout
from openspyre.compiler.preferred_layouts import preferred_layouts
from openspyre.spec import progress
from openspyre.spec.errors import SpyreError
from openspyre.spec.layout import SpyreTensorLayout
from openspyre.tools.saving import kept_programs
from torch_spyre import _torch
from torch_spyre.constants import DEVICE_NAME
from torch_spyre.device.layouts import device_tensor_layout
from torch_spyre.inductor.border import inductor_config
from torch_spyre.inductor.cpython_tuning import with_room_for_frames, without_collections
from torch_spyre.inductor.graph import DrawnWord, Graph, Number, Value, evaluate
from torch_spyre.inductor.graph import from_text as graph_from_text
from torch_spyre.inductor.launching import artifacts, specialised
from torch_spyre.inductor.launching.access_bounds import accesses_of, stays_inside
from torch_spyre.inductor.launching.parameters import Preference, movable, retile
from torch_spyre.inductor.launching.reference_form import reference_form
from torch_spyre.inductor.launching.specialised import Specialised
from torch_spyre.inductor.lowering.expand import expand
from torch_spyre.inductor.reporting.compile_observer import Watch, debugging, tell, tells_cost
from torch_spyre.inductor.reporting.report import BUNDLE_LETTERS, Specialisation, report_specialisation
from torch_spyre.inductor.source_hash import source_hash
from torch_spyre.ops import compilations
from torch_spyre.ops.plans import CallPlan, ResultPlan
from torch_spyre.ops.programs import compile_program, constant_tensors, note_refusal, plan_text, planning


@with_room_for_frames
@without_collections()
def specialise(
    key: str, text: str, inputs: list[torch.Tensor], symbols: list[int], offset_classes: list[int]
) -> CallPlan:
    """Called by the C++ half when no launch of the graph had such inputs before."""
    launch = _Launch(key, graph_from_text(text), inputs, symbols, offset_classes)
    with progress.working(f"compiling {launch.graph.name}"):
        while True:
            before, shapes = _torch.retilings(), _shapes(inputs)
            plan = launch.find() or launch.compile()
            if retiled := retile(plan.preferred, inputs):
                counters.count("retiled_weights", len(retiled))
                launch = replace(launch, retiled=retiled)
                continue
            progress.stage("loading the program")
            loaded = launch.load(plan, shapes)
            if _torch.retilings() == before:  # else another thread may have shown us an input between two layouts
                return replace(loaded, described=f"{loaded.described}\nbundle\t{key[:BUNDLE_LETTERS]}")


@dataclass(frozen=True, slots=True)
class _Launch:
    """What is to be specialised; `retiled` are the inputs that were re-tiled for it."""

    key: str
    graph: Graph
    inputs: Sequence[torch.Tensor]
    symbols: Sequence[int]
    offset_classes: Sequence[int]
    retiled: Sequence[int] = ()

    def find(self) -> Specialised | None:
        start, request = perf_counter(), self.request()
        anew = debugging() or tells_cost() or kept_programs.keeping() or not _caching()
        text = None if anew else _kept().find(request)
        found = specialised.from_text(text) if text is not None else None
        if text is None or found is None or not _serves(found[0], self.inputs):
            return None
        counters.count("text_cache_hits")
        plan, facts = found
        told = self._watch().specialisation
        told.take_facts(facts)
        told.found_on_disk, told.seconds = True, {"read": perf_counter() - start}
        self._report(request, text, told)
        return plan

    def load(self, plan: Specialised, shapes: tuple[int, ...]) -> CallPlan:
        """On the card. What lies on disk may be none of this card's programs; what it refuses fused it may take unfused."""
        try:
            return plan.load(shapes)
        except (SpyreError, TypeError, ValueError) as refusal:
            if plan.found:
                return self.load(self.compile(), shapes)
            if not isinstance(refusal, SpyreError) or not settings_in_force().fusion:
                raise
            loaded = self.compile(refusal).load(shapes)
            note_refusal(self.graph.name, refusal)
            return loaded

    def compile(self, refusal: SpyreError | None = None) -> Specialised:
        """Without fusion if the card has refused what it made."""
        counters.count("graph_compiles")
        compilations.note(self.graph.name, self._facts())
        progress.stage("lowering", f"{len(self.graph.calls)} calls")
        before, watch, request = _torch.retilings(), self._watch(), self.request()
        if refusal is not None:
            watch.saw_refusal([str(refusal)])
        plan = compile_graph(self.graph, self.inputs, self.symbols, watch, fuse=refusal is None)
        text = specialised.to_text(plan, watch.specialisation.facts())
        if _caching() and _torch.retilings() == before:  # else an input may have lain otherwise than the request says
            _kept().keep(request, text)
        self._report(request, text, watch.specialisation)
        return plan

    def _facts(self) -> dict[str, object]:
        sizes = dict(zip(self.graph.symbols, self.symbols, strict=True))
        layouts = tuple(str(device_tensor_layout(tensor)) for tensor in self.inputs)
        return {"graph": self.key, "sizes": sizes, "layouts": layouts,
                "offsets": tuple(self.offset_classes), "options": plan_text()}  # fmt: skip

    def request(self) -> str:
        """All that decides what a specialised graph is, as one name."""
        classes = zip(self.inputs, self.offset_classes, strict=True)
        facts = [(_record(tensor), device_tensor_layout(tensor), offset_class) for tensor, offset_class in classes]
        decisive = f"{source_hash()} {plan_text()} {self.key} {list(self.symbols)} {facts} {movable(self.inputs)}"
        return hashlib.sha256(decisive.encode()).hexdigest()

    def _report(self, request: str, text: str, told: Specialisation) -> None:
        if _caching():
            artifacts.record(request, text)
        report_specialisation(self.key, self.graph, told)
        tell(self.graph.name, "found on disk" if told.found_on_disk else "compiled", request, told)

    def _watch(self) -> Watch:
        watch = Watch(self.key, self.graph, dict(zip(self.graph.symbols, self.symbols, strict=True)))
        names = [self.graph.values[self.graph.inputs[place]].buffer for place in self.retiled]
        watch.specialisation.retiled_weights = names
        return watch


def _kept() -> TextCache:
    return TextCache.of(settings_in_force(), "graph")


def _caching() -> bool:
    """torch's own switch for all caches of its compiler is ours, too."""
    return not inductor_config.force_disable_caches


def _shapes(inputs: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """How the inputs lie, as the C++ half numbers it: if another thread re-tiles one meanwhile, the launch will see it."""
    return tuple(_torch.layout_of(tensor)[0] for tensor in inputs)


def _serves(plan: Specialised, inputs: Sequence[torch.Tensor]) -> bool:
    """Whether the offsets that the program has built in are those of the inputs."""
    compiled = dict(zip(plan.symbols, plan.offsets, strict=True))
    return all(compiled.get(place, 0) == inputs[place].storage_offset() for place in plan.fixed)


def counts() -> dict[str, int]:
    """Graphs specialised in this process: compiled here, and found on disk; and parameters re-tiled for them."""
    now = counters.reading().process
    return {"compiled": now.graph_compiles, "found": now.text_cache_hits, "retiled": now.retiled_weights}


@dataclass(frozen=True, slots=True)
class Imported:
    """A graph on tensors of a launch, before the compiler's passes: the names of its inputs, and where its scalars come from."""

    program: ir.Program
    inputs: tuple[str, ...]
    constants: tuple[float, ...]
    numbers: tuple[Number | DrawnWord, ...]
    draws: tuple[int, ...]


def imported(graph: Graph, inputs: Sequence[torch.Tensor], symbols: Sequence[int]) -> Imported:
    known = dict(zip(graph.symbols, symbols, strict=True))
    steps = reference_form(graph) if planning().strategy == "documented" else graph
    expanded = expand(steps, known, inputs[0].device if inputs else torch.device(DEVICE_NAME))
    names = tuple(graph.values[number].buffer for number in graph.inputs)
    program = _on_inputs(expanded.program, graph, dict(zip(names, inputs, strict=True)), known)
    return Imported(program, names, expanded.constants, expanded.numbers, expanded.draws)


def compile_graph(
    graph: Graph,
    inputs: Sequence[torch.Tensor],
    symbols: Sequence[int],
    watch: Watch | None = None,
    *,
    fuse: bool = True,
) -> Specialised:
    """The program of a graph for these tensors and sizes."""
    known = dict(zip(graph.symbols, symbols, strict=True))
    start = perf_counter()
    found = imported(graph, inputs, symbols)
    program, names = found.program, found.inputs
    if watch is not None:
        watch.saw_expansion(program, perf_counter() - start)
    results = [_result(graph.values[number], known) for number in graph.outputs]
    updated = [ResultPlan(place, tensor.dtype, tuple(tensor.shape), tensor.stride(), None)
               for place, (number, tensor) in enumerate(zip(graph.inputs, inputs, strict=True))
               if number in graph.updated]  # fmt: skip
    whole = compile_program(program, watch, fuse=fuse) if program.ops else None
    lowered, compiled = (program, None) if whole is None else (whole.lowered, whole.program)
    made = [graph.values[number].buffer for number in graph.outputs]
    results = [replace(r, layout=_layout(lowered.buffer(name))) for r, name in zip(results, made, strict=True)]
    places = {name: place for place, name in reversed(list(enumerate(names)))} | {
        name: -1 - place for place, name in enumerate(made)
    }
    accesses = accesses_of(program)
    tensors = () if compiled is None else [name for name in compiled.symbols if name in places]
    return Specialised(
        program=compiled,
        symbols=tuple(places[name] for name in tensors),
        offsets=tuple(int(inputs[places[name]].storage_offset()) if places[name] >= 0 else 0 for name in tensors),
        results=(*results, *updated),
        constants=tuple(scalar.word for scalar in program.scalars if scalar.word is not None),
        numbers=tuple(_source(number) for number in found.numbers),
        draws=found.draws,
        fixed=tuple(
            place
            for place, (name, tensor) in enumerate(zip(names, inputs, strict=True))
            if not stays_inside(accesses, name, tensor)
        ),
        preferred=_preferred(program, lowered, names, inputs),
        tensors=constant_tensors(lowered),
        predicted=() if whole is None else whole.predicted,
        described="" if whole is None else whole.described,
        work=None if whole is None else whole.work,
    )


def _source(number: Number | DrawnWord) -> tuple[int, str]:
    """Where the launch finds a scalar, and how it writes it."""
    return (number.draw, number.word) if isinstance(number, DrawnWord) else (number.place, number.encoding)


def _preferred(
    program: ir.Program, lowered: ir.Program, names: Sequence[str], inputs: Sequence[torch.Tensor]
) -> tuple[Preference, ...]:
    places = {names[place]: place for place in movable(inputs) if program.buffer(names[place]).role is ir.Role.INPUT}
    return tuple((places[name], layout) for name, layout in preferred_layouts(program, lowered, places).items())


def _on_inputs(
    program: ir.Program, graph: Graph, given: Mapping[str, torch.Tensor], known: Mapping[str, int]
) -> ir.Program:
    """The program on the buffers the inputs lie in, from where in them they start."""
    described = {graph.values[number].buffer: graph.values[number] for number in graph.inputs}
    shifts = {
        name: int(tensor.storage_offset()) - evaluate(described[name].offset, known) for name, tensor in given.items()
    }
    buffers = tuple(_buffer(b, given[b.name]) if b.name in given else b for b in program.buffers)
    ops = tuple(_shift(op, shifts) for op in program.ops) if any(shifts.values()) else program.ops
    return replace(program, buffers=buffers, body=ops)


def _buffer(buffer: ir.Buffer, tensor: torch.Tensor) -> ir.Buffer:
    return ir.Buffer(buffer.name, *_record(tensor), buffer.role, device_tensor_layout(tensor), named=buffer.named)


def _record(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    record = _torch.buffer_of(tensor)
    return record["dtype"], tuple(record["host_size"]), tuple(record["host_stride"])


def _shift(op: ir.Op, shifts: Mapping[str, int]) -> ir.Op:
    def moved(operand: object) -> object:
        if isinstance(operand, ir.Access) and shifts.get(operand.buffer):
            return replace(operand, offset=operand.offset + shifts[operand.buffer])
        return operand

    return replace(op, inputs=tuple(map(moved, op.inputs)), outputs=tuple(map(moved, op.outputs)))  # type: ignore[arg-type]


def _result(value: Value, known: Mapping[str, int]) -> ResultPlan:
    size, stride = (tuple(evaluate(extent, known) for extent in extents) for extents in (value.size, value.stride))
    return ResultPlan(-1, getattr(torch, value.dtype), size, stride, None)


def _layout(buffer: ir.Buffer) -> SpyreTensorLayout:
    return buffer.layout if buffer.layout is not None else default_layout(buffer)
