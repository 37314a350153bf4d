"""SmolLM2 on the card beside itself in float32 on the CPU: greedy tokens up to the first near-tie, and the perplexity of a fixed text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .smollm2 import checkpoint

PROMPTS = (
    "What is the capital of France?",
    "Explain in one sentence what a compiler does.",
    "Name three fruits that are red.",
    "Write a short poem about rain.",
    "How many legs does a spider have?",
    "Translate 'good morning' into Spanish.",
    "Why is the sky blue?",
    "Give me a recipe for pancakes.",
    "What is the difference between a list and a tuple in Python?",
    "Tell me a joke about computers.",
)
TEXT = Path(__file__).parents[2] / "LICENSE"  # the Apache licence: nobody will change it


@dataclass(frozen=True, slots=True)
class Greedy:
    """`equal` tokens before the first that differs; `gap`: how far below the best that one was, as a part of the logits' spread."""

    prompt: str
    tokens: int
    equal: int
    gap: float | None


@dataclass(frozen=True, slots=True)
class Perplexity:
    tokens: int
    card: float
    cpu: float

    @property
    def off(self) -> float:
        return abs(self.card / self.cpu - 1)


def _models() -> tuple[Any, Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = checkpoint()
    cpu = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    card = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float16).eval().to("spyre")
    return AutoTokenizer.from_pretrained(folder), cpu, card


def greedy(prompts: Sequence[str] = PROMPTS, tokens: int = 64) -> list[Greedy]:
    tokenizer, cpu, card = _models()
    found = []
    for prompt in prompts:
        asked = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        begin = asked["input_ids"].shape[1]
        told = {"max_new_tokens": tokens, "do_sample": False}
        truth = cpu.generate(**asked, **told)[0]
        here = card.generate(**asked.to("spyre"), **told)[0].cpu()
        new = len(truth) - begin
        both = zip(truth[begin:].tolist(), here[begin:].tolist(), strict=False)
        equal = next((place for place, (a, b) in enumerate(both) if a != b), min(new, len(here) - begin))
        gap = None
        if equal < new:
            with torch.no_grad():
                logits = cpu(truth[None, : begin + equal]).logits[0, -1]
            other = here[begin + equal] if begin + equal < len(here) else truth[begin + equal]
            gap = ((logits.max() - logits[other]) / logits.std()).item()
        found.append(Greedy(prompt, new, equal, gap))
    return found


def perplexity(tokens: int = 2000) -> Perplexity:
    tokenizer, cpu, card = _models()
    text = tokenizer(TEXT.read_text(), return_tensors="pt")["input_ids"][:, :tokens]

    def of(model: Any, ids: torch.Tensor) -> float:
        with torch.no_grad():
            logits = model(ids, use_cache=False).logits.float().cpu()
        return torch.nn.functional.cross_entropy(logits[0, :-1], text[0, 1:]).exp().item()

    return Perplexity(text.shape[1], of(card, text.to("spyre")), of(cpu, text))
