"""One model, measured: errors, fallbacks, what its graph became, tokens, host time and predicted card time."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import torch
from torch import nn

from torch_spyre.inductor.launching import launch
from torch_spyre.inductor.reporting.report import compile_report
from torch_spyre.ops import eager

from .comparing import distance
from .families import Family, Inputs
from .generation import WAYS, Verdict, generate, judge
from .real import Real

RUNS = 7


class Model(Protocol):
    """A family or a model with real weights."""

    @property
    def name(self) -> str: ...
    def build(self, dtype: torch.dtype = ...) -> nn.Module: ...
    def inputs(self) -> Inputs: ...
    def inputs_on_card(self) -> Inputs: ...
    def outputs(self, model: nn.Module, inputs: Inputs) -> torch.Tensor: ...


@dataclass(frozen=True, slots=True)
class Forward:
    """A call of a model. Errors are the worst row's, against the CPU in float32; times are of the compiled one."""

    parameters: int
    eager_error: float
    compiled_error: float
    float16_error: float
    fallbacks: tuple[str, ...]
    bundles: int
    ops: int
    relayouts: int
    extensions: tuple[str, ...]
    compile_s: float
    card_ms: float
    cpu_ms: float
    predicted_ms: float
    round_trips_ms: float


@dataclass(frozen=True, slots=True)
class Generation:
    """generate() in all ways. `again`: what a second call with another prompt of this length compiles, by way."""

    verdicts: tuple[tuple[str, Verdict], ...]
    fallbacks: tuple[str, ...]
    again: tuple[tuple[str, int], ...]


@contextmanager
def quiet() -> Iterator[None]:
    """Counts from zero, and nothing on the screen."""
    torch.spyre.set_fallback_mode("silent")
    torch.spyre.set_downcast_warning(False)
    torch.spyre.reset_fallback_stats()
    yield
    gc.collect()


def _best_ms(call: Callable[[], object], wait: Callable[[], None]) -> float:
    times = []
    for _ in range(RUNS):
        start = perf_counter()
        call()
        wait()
        times.append((perf_counter() - start) * 1e3)
    return min(times)  # others may use the machine


@torch.no_grad()
def forward(model: Model) -> Forward:
    inputs, on_card = model.inputs(), model.inputs_on_card()
    reference, card = model.build(), model.build(torch.float16)
    halves = {name: value.cpu() for name, value in on_card.items()}
    expected = model.outputs(reference, inputs)
    parameters = sum(parameter.numel() for parameter in reference.parameters())
    float16 = distance(model.outputs(card, halves), expected)
    card = card.to("spyre")
    with quiet():
        eager_error = distance(model.outputs(card, on_card), expected)
        torch.compiler.reset()
        compiled, known, start = torch.compile(card), len(compile_report()), perf_counter()
        compiled_error = distance(model.outputs(compiled, on_card), expected)
        compile_s = perf_counter() - start
        fallbacks = tuple(sorted(torch.spyre.fallback_stats()))
        reports = compile_report()[known:]
        with torch.spyre.predicted_time() as predicted:
            model.outputs(compiled, on_card)
        card_ms = _best_ms(lambda: model.outputs(compiled, on_card), torch.spyre.synchronize)
    bundles = [bundle for report in reports for bundle in report.bundles]
    programs = [program for bundle in bundles for program in bundle.specialisations]
    return Forward(
        parameters, eager_error, compiled_error, float16, fallbacks, len(bundles), sum(p.ops for p in programs),
        sum(len(p.relayouts) for p in programs), tuple(sorted({e.row for p in programs for e in p.extensions})), compile_s,
        card_ms, _best_ms(lambda: model.outputs(reference, inputs), lambda: None),
        predicted.total_us / 1e3, predicted.round_trips_us / 1e3,
    )  # fmt: skip


def _compilations() -> int:
    return eager.counts()["compilations"] + launch.counts()["specialisations"]


@torch.no_grad()
def generation(family: Family) -> Generation:
    """The tokens of each way, and what a second call of it compiles."""
    reference, card = family.build(), family.build(torch.float16).to("spyre")
    verdicts, again = [], []
    with quiet():
        for way in WAYS:
            torch.manual_seed(0)
            torch.compiler.reset()
            found = generate(family, card, family.inputs_on_card(), way)
            before = _compilations()
            generate(family, card, family.inputs_on_card(), way)
            again.append((way, _compilations() - before))
            verdicts.append((way, judge(family, reference, family.inputs(), way, found)))
        fallbacks = tuple(sorted(torch.spyre.fallback_stats()))
    return Generation(tuple(verdicts), fallbacks, tuple(again))


def answer(model: Real) -> tuple[str, bool]:
    """What the model on the card says, and whether that is right."""
    with quiet():
        told = model.answer(model.build(torch.float16).to("spyre"), "spyre")
    return told, model.right(told)
