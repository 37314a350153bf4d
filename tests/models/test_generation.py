"""transformers' generate() on the card: no operator of it runs on the CPU, and tokens are those of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="generate() is transformers': pip install transformers")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while Inductor loads
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "static": {"cache_implementation": "static"},
    "without_a_cache": {"use_cache": False},
    "beams": {"num_beams": 3},
    "beams_longer": {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True, "num_return_sequences": 2},
    "beams_static": {"num_beams": 2, "cache_implementation": "static"},
    "repetition": {"repetition_penalty": 1.2, "no_repeat_ngram_size": 3},
    "words": {"bad_words_ids": [[5], [6, 7]], "suppress_tokens": [8, 9], "min_new_tokens": 4},
    "bias": {"sequence_bias": {(5,): -3.0, (6, 7): 2.0}, "guidance_scale": 1.5},
    "lengths": {"min_length": 15, "exponential_decay_length_penalty": (3, 1.5), "forced_eos_token_id": 2},
    "ends": {"eos_token_id": [2, 5, 9, 11, 30, 77], "remove_invalid_values": True},
    "prefix": {"prefix_allowed_tokens_fn": lambda batch, tokens: list(range(3, 100))},
    "encoder_repetition": {"encoder_repetition_penalty": 1.2, "begin_suppress_tokens": [9]},
    "told": {"output_scores": True, "output_hidden_states": True, "output_attentions": False},
}
ALONE: dict[str, dict[str, Any]] = {  # of one sequence
    "prompt_lookup": {"prompt_lookup_num_tokens": 3},
    "prompt_lookup_short": {"prompt_lookup_num_tokens": 4, "max_matching_ngram_size": 1},
    "early_exit": {"assistant_early_exit": 1},
    "chunks": {"prefill_chunk_size": 4},
}
SAMPLES: dict[str, dict[str, Any]] = {
    "sampled": {},
    "top_k_and_p": {"top_k": 20, "top_p": 0.9, "temperature": 0.7},
    "min_p": {"min_p": 0.05, "renormalize_logits": True},
    "typical": {"typical_p": 0.9},
    "cutoffs": {"epsilon_cutoff": 3e-4, "eta_cutoff": 3e-4},
    "beams": {"num_beams": 3},
    "static": {"cache_implementation": "static"},
}


@pytest.fixture(scope="module")
def models() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        initializer_range=0.2,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    return model, transformers.LlamaForCausalLM(config).eval().to("spyre"), model.state_dict()


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    torch.spyre.set_downcast_warning(False)
    torch.spyre.set_fallback_mode("error")
    yield
    torch.spyre.set_fallback_mode("warn")


def _prompt() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(3, 512, (2, 12), generator=torch.Generator().manual_seed(1))
    ids[0, :4] = 0  # padded on the left
    return ids, (ids != 0).long()


@pytest.mark.parametrize("how", SEARCHES)
def test_tokens_are_those_of_the_cpu(models: Any, how: str) -> None:
    host, card, weights = models
    card.load_state_dict(weights)
    ids, mask = _prompt()
    options = {"max_new_tokens": 6, "do_sample": False, **SEARCHES[how]}
    expected = host.generate(ids, attention_mask=mask, **options)
    got = card.generate(ids.to("spyre"), attention_mask=mask.to("spyre"), **options)
    assert got.device.type == "spyre"
    assert torch.equal(got.cpu(), expected)


@pytest.mark.parametrize("how", [*ALONE, "assistant"])
def test_tokens_of_one_sequence_are_those_of_the_cpu(models: Any, how: str) -> None:
    host, card, weights = models
    card.load_state_dict(weights)
    ids = _prompt()[0][1:].repeat(1, 2)
    helpers: list[dict[str, Any]] = [{}, {}]
    if how == "assistant":
        torch.manual_seed(3)
        config = transformers.LlamaConfig(**{**host.config.to_dict(), "num_hidden_layers": 1})
        helper = transformers.LlamaForCausalLM(config).eval()
        on_card = transformers.LlamaForCausalLM(config).eval()
        on_card.load_state_dict(helper.state_dict())
        helpers = [{"assistant_model": helper}, {"assistant_model": on_card.to("spyre")}]
    options = {"max_new_tokens": 8, "do_sample": False, **ALONE.get(how, {})}
    expected = host.generate(ids, attention_mask=torch.ones_like(ids), **options, **helpers[0])
    prompt = ids.to("spyre")
    got = card.generate(prompt, attention_mask=torch.ones_like(prompt), **options, **helpers[1])
    assert torch.equal(got.cpu(), expected)


class _Heard:
    """A streamer."""

    def __init__(self) -> None:
        self.tokens: list[int] = []

    def put(self, value: torch.Tensor) -> None:
        self.tokens += value.reshape(-1).tolist()

    def end(self) -> None:
        self.tokens.append(-1)


class _NotSeven(transformers.LogitsProcessor):  # type: ignore[misc]
    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.clone()
        scores[:, 7] = -float("inf")
        return scores


def test_streamers_hear_the_tokens_and_processors_of_ones_own_act(models: Any) -> None:
    host, card, weights = models
    card.load_state_dict(weights)
    ids = _prompt()[0][1:]
    heard = _Heard(), _Heard()
    processors = transformers.LogitsProcessorList([_NotSeven()])
    options = {"max_new_tokens": 6, "do_sample": False, "logits_processor": processors}
    for model, streamer in zip((host, card), heard, strict=True):
        prompt = ids.to(model.device)
        model.generate(prompt, attention_mask=torch.ones_like(prompt), streamer=streamer, **options)
    assert heard[0].tokens == heard[1].tokens and len(heard[0].tokens) == 12 + 6 + 1


@pytest.mark.parametrize("how", SAMPLES)
def test_samples_follow_the_seed(models: Any, how: str) -> None:
    card = models[1]
    ids, mask = (x.to("spyre") for x in _prompt())
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(card.generate(ids, attention_mask=mask, max_new_tokens=6, do_sample=True, **SAMPLES[how]).cpu())
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(drawn[0][:, :12], ids.cpu())
