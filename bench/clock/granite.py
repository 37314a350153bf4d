"""How long a card would take for the first and the next token of Granite 3.3 8B, batch 1: predicted, nothing is computed.

One layer of each kind and the head are compiled for the null card and timed; all 40 layers are alike, so the layer counts 40 times.
Embedding the tokens is a gather, priced from its bytes. The launch on the host stands apart: one for the whole model, or one per layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from bench.clock.graphs import (
    LAYERS,
    WIDTH,
    GraniteHead,
    GraniteLayer,
    Graph,
    decoding_inputs,
    empty,
    on_card,
    places,
    programs_of,
)
from openspyre.clock.bundles import time_bundle
from openspyre.clock.kernels import Gather
from openspyre.clock.predict import predict
from openspyre.clock.timing import Timing
from openspyre.compiler import pipeline
from openspyre.compiler.emit import emit_bundle
from openspyre.compiler.ir import Program
from openspyre.spec.machine import SPYRE
from openspyre.spec.planning import Planning

PUBLISHED_MS = {"first": 969.0, "next": 865.0}  # May 2026, batch 1, prompt 128


@dataclass(frozen=True, slots=True)
class Token:
    """A token's times: of one layer, of the head, of embedding it; all layers together in milliseconds."""

    name: str
    layer: Timing
    head: Timing
    embedding_us: float

    @property
    def card_ms(self) -> float:
        return (LAYERS * self.layer.card_us + self.head.card_us + self.embedding_us) / 1e3

    @property
    def launch_ms(self) -> float:
        return self.layer.launch.time_us / 1e3


def _timed(program: Program, strategy: str) -> Timing:
    return time_bundle(emit_bundle(pipeline.run(program, SPYRE, Planning(strategy=strategy))))


def tokens(prompt: int, strategies: tuple[str, ...]) -> Iterator[tuple[str, Token]]:
    """For the first and the next token, what each strategy makes of it."""
    layer, head = on_card(GraniteLayer), on_card(GraniteHead)
    cached = -(-(prompt + 1) // 64) * 64
    inputs = {"first": (empty(1, prompt, WIDTH), *places(prompt)), "next": decoding_inputs(cached)}
    for name, given in inputs.items():
        rows = prompt if name == "first" else 1
        embedding = predict(Gather(2 * WIDTH * rows, 2 * WIDTH * rows, rows, 1)).time_us
        (one,) = programs_of(Graph("layer", layer, given))
        (last,) = programs_of(Graph("head", head, (empty(1, rows, WIDTH),)))
        for strategy in strategies:
            yield strategy, Token(name, _timed(one, strategy), _timed(last, strategy), embedding)


def run(prompt: int) -> int:
    start = perf_counter()
    print("| token | planner | one layer | head | card | with one launch | with a launch per layer | published |")
    print("|---|---|---|---|---|---|---|---|")
    for strategy, token in tokens(prompt, ("documented", "timed")):
        published = f"{PUBLISHED_MS[token.name]:.0f} ms" if prompt == 128 else "-"
        print(
            f"| {token.name} | {strategy} | {token.layer.card_us / 1e3:.2f} ms | {token.head.card_us / 1e3:.2f} ms | "
            f"{token.card_ms:.0f} ms (+-{token.layer.band:.0%}) | {token.card_ms + token.launch_ms:.0f} ms | "
            f"{token.card_ms + (LAYERS + 2) * token.launch_ms:.0f} ms | {published} |"
        )
    print(
        f"one layer of each kind and the head were compiled, and the layer counted {LAYERS} times; {perf_counter() - start:.0f} s"
    )
    return 0
