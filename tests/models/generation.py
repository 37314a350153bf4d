"""What generate() is asked on the card, and how its tokens are judged: by the same weights on the CPU in float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from .families import Family, Inputs, Task

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NEW_TOKENS = 8
NEAR_TIE = 0.05  # of the spread of the logits: what 16 bits may turn round
TOP_K, BEAMS = 5, 3
WAYS: dict[str, dict[str, object]] = {
    "dynamic": {"do_sample": False},
    "static": {"do_sample": False, "cache_implementation": "static"},
    "sampled": {"do_sample": True, "top_k": TOP_K, "temperature": 0.8},
    "beams": {"do_sample": False, "num_beams": BEAMS},
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`equal` of `tokens` generated ones; `problem`: what no near-tie explains."""

    tokens: int
    equal: int
    gap: float | None = None
    problem: str = ""


def generate(family: Family, model: PreTrainedModel, inputs: Inputs, way: str) -> torch.Tensor:
    prompt = {name: value for name, value in inputs.items() if not name.startswith("decoder_")}
    settings = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, **WAYS[way]}
    made = model.generate(**prompt, **settings).cpu()
    if family.task is Task.SPEECH_TO_TEXT:  # which returns what it generated, without the token that it began with
        return torch.cat([torch.full_like(made[:, :1], model.config.decoder_start_token_id), made], 1)
    return made


def judge(family: Family, reference: PreTrainedModel, inputs: Inputs, way: str, found: torch.Tensor) -> Verdict:
    """Of the reference: greedy tokens are its own up to a near-tie, sampled ones among its best, and beams are as likely."""
    match way:
        case "sampled":
            return _among_the_best(family, reference, inputs, found)
        case "beams":
            expected = generate(family, reference, inputs, way)
            return _as_likely(family, reference, inputs, found, expected)
        case _:
            expected = generate(family, reference, inputs, way)
            return _up_to_a_near_tie(family, reference, inputs, found, expected)


def _new(family: Family, inputs: Inputs, sequences: torch.Tensor) -> tuple[torch.Tensor, Callable[..., torch.Tensor]]:
    """The generated tokens of sequences, and what gives the reference's logits for each of them."""
    begin = inputs["input_ids"].shape[1] if family.task is Task.DECODER else 1

    def logits(model: PreTrainedModel) -> torch.Tensor:
        with torch.no_grad():
            if family.task is Task.DECODER:
                ahead = torch.ones(sequences.shape[0], sequences.shape[1] - begin, dtype=torch.int64)
                mask = torch.cat([inputs["attention_mask"], ahead], 1)
                positions = (mask.cumsum(1) - 1).clamp(min=0)
                made = model(input_ids=sequences, attention_mask=mask, **_positions(model, positions)).logits
            else:
                given = {k: v for k, v in inputs.items() if not k.startswith("decoder_")}
                made = model(**given, decoder_input_ids=sequences).logits
        return made[:, begin - 1 : -1].float()

    return sequences[:, begin:], logits


def _positions(model: PreTrainedModel, positions: torch.Tensor) -> dict[str, torch.Tensor]:
    """As generate() gives them: padding at the left does not count."""
    import inspect

    return {"position_ids": positions} if "position_ids" in inspect.signature(model.forward).parameters else {}


def _up_to_a_near_tie(
    family: Family, model: PreTrainedModel, inputs: Inputs, found: torch.Tensor, expected: torch.Tensor
) -> Verdict:
    if found.shape != expected.shape:
        return Verdict(
            expected.numel(), 0, problem=f"sequences of size {tuple(found.shape)}, not {tuple(expected.shape)}"
        )
    new, logits = _new(family, inputs, expected)
    other, _ = _new(family, inputs, found)
    known, equal, gaps = logits(model), 0, []
    for row, (mine, theirs) in enumerate(zip(other.tolist(), new.tolist(), strict=True)):
        place = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b), len(theirs))
        equal += place
        if place < len(theirs):
            here = known[row, place]
            gaps.append(((here[theirs[place]] - here[mine[place]]) / here.std()).item())
    worst = max(gaps, default=None)
    problem = (
        f"a token {worst:.3f} of the logits' spread below the best" if worst is not None and worst > NEAR_TIE else ""
    )
    return Verdict(new.numel(), equal, worst, problem)


def _among_the_best(family: Family, model: PreTrainedModel, inputs: Inputs, found: torch.Tensor) -> Verdict:
    new, logits = _new(family, inputs, found)
    known = logits(model)
    least = known.topk(TOP_K).values[..., -1]
    below = (least - known.gather(2, new.unsqueeze(2)).squeeze(2)) / known.std(-1)
    worst = below.max().item()
    problem = f"a sampled token {worst:.3f} of the logits' spread below the best {TOP_K}" if worst > NEAR_TIE else ""
    return Verdict(new.numel(), int((below <= 0).sum()), worst if worst > 0 else None, problem)


def _as_likely(
    family: Family, model: PreTrainedModel, inputs: Inputs, found: torch.Tensor, expected: torch.Tensor
) -> Verdict:
    likelihoods = []
    for sequences in (found, expected):
        new, logits = _new(family, inputs, sequences)
        likelihoods.append(torch.log_softmax(logits(model), -1).gather(2, new.unsqueeze(2)).squeeze(2).mean(1))
    short = (likelihoods[1] - likelihoods[0]).max().item()
    new = _new(family, inputs, expected)[0]
    equal = int((found == expected).all(1).sum()) * new.shape[1] if found.shape == expected.shape else 0
    problem = f"sequences {short:.3f} less likely per token than the reference's" if short > NEAR_TIE else ""
    return Verdict(new.numel(), equal, short if short > 0 else None, problem)
