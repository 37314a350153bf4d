"""The families of transformers, as small random configurations: what is built, and what it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

Inputs = dict[str, torch.Tensor]
VOCABULARY = 256
BATCH, LENGTH, IMAGE = 2, 12, 32


class Task(Enum):
    """How a family is called: its class in transformers, and the side of its padding."""

    DECODER = "AutoModelForCausalLM"
    ENCODER = "AutoModel"
    TEXT_TO_TEXT = "AutoModelForSeq2SeqLM"
    SPEECH_TO_TEXT = "AutoModelForSpeechSeq2Seq"
    IMAGE = "AutoModelForImageClassification"
    TEXT_AND_IMAGE = "AutoModel "


GENERATING = (Task.DECODER, Task.TEXT_TO_TEXT, Task.SPEECH_TO_TEXT)


@dataclass(frozen=True, slots=True)
class Family:
    """One model_type of transformers and the numbers that make it small."""

    name: str
    task: Task
    settings: dict[str, object]

    @property
    def generates(self) -> bool:
        return self.task in GENERATING

    def config(self) -> PreTrainedConfig:
        from transformers import AutoConfig

        return AutoConfig.for_model(self.name, **self.settings)

    def build(self, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
        """The model on the CPU, its random weights those that float16 can hold."""
        import transformers

        torch.manual_seed(0)
        made = getattr(transformers, self.task.value.strip()).from_config(self.config())
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.copy_(parameter.half())
        return _in_dtype(made.eval(), dtype)

    def inputs(self) -> Inputs:
        return _INPUTS[self.task](self)

    def inputs_on_card(self) -> Inputs:
        halves = {name: value.half() if value.is_floating_point() else value for name, value in self.inputs().items()}
        return {name: value.to("spyre") for name, value in halves.items()}

    def outputs(self, model: PreTrainedModel, inputs: Inputs) -> torch.Tensor:
        """What is compared: a row per position that is no padding."""
        made = model(**inputs)
        return _rows(self.task, made, inputs)


def _in_dtype(model: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """As from_pretrained(dtype=...) does: parameters are converted, tables computed in float32 stay."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.dtype.is_floating_point and name not in module._non_persistent_buffers_set:
                setattr(module, name, buffer.to(dtype))
    model.config.dtype = dtype
    return model


def _ids(batch: int = BATCH, length: int = LENGTH) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


def _text(*, padded_left: bool) -> Inputs:
    mask = torch.ones(BATCH, LENGTH, dtype=torch.int64)
    if padded_left:
        mask[1, :4] = 0
    else:
        mask[1, -4:] = 0
    ids = torch.where(mask.bool(), _ids(), torch.tensor(1))
    return {"input_ids": ids, "attention_mask": mask}


def _noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2))


_INPUTS: dict[Task, Callable[[Family], Inputs]] = {
    Task.DECODER: lambda _: _text(padded_left=True),
    Task.ENCODER: lambda _: _text(padded_left=False),
    Task.TEXT_TO_TEXT: lambda _: {**_text(padded_left=False), "decoder_input_ids": _ids(BATCH, 6)},
    Task.SPEECH_TO_TEXT: lambda _: {"input_features": _noise(BATCH, 80, 64), "decoder_input_ids": _ids(BATCH, 6)},
    Task.IMAGE: lambda _: {"pixel_values": _noise(BATCH, 3, IMAGE, IMAGE)},
    Task.TEXT_AND_IMAGE: lambda _: {**_text(padded_left=False), "pixel_values": _noise(BATCH, 3, IMAGE, IMAGE)},
}


def _rows(task: Task, made: object, inputs: Inputs) -> torch.Tensor:
    match task:
        case Task.ENCODER:
            rows = made.last_hidden_state
        case Task.TEXT_AND_IMAGE:
            rows = torch.cat([made.text_embeds, made.image_embeds])
        case _:
            rows = made.logits
    if task in (Task.ENCODER, Task.DECODER):
        return rows.cpu()[inputs["attention_mask"].bool().cpu()]
    return rows.reshape(-1, rows.shape[-1])


_ENCODER = {
    "initializer_range": 0.1,  # about 1/sqrt(width), so that layers change what they read
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
}
_DECODER = {
    **_ENCODER,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
_VISION = {
    "initializer_range": 0.1,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": IMAGE,
    "patch_size": 8,
}
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_SLIDING = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}

FAMILIES: tuple[Family, ...] = (
    Family("bert", Task.ENCODER, _ENCODER),
    Family("clip", Task.TEXT_AND_IMAGE, {"text_config": {**_ENCODER, "eos_token_id": 2}, "vision_config": _VISION, "projection_dim": 64}),
    Family("gemma2", Task.DECODER, {**_DECODER, **_SLIDING, "query_pre_attn_scalar": 16}),
    Family("gemma3_text", Task.DECODER, {**_DECODER, **_SLIDING, "query_pre_attn_scalar": 16}),
    Family("gpt2", Task.DECODER, {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.1, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}),
    Family("gpt_oss", Task.DECODER, {**_DECODER, **_EXPERTS, **_SLIDING}),
    Family("granite", Task.DECODER, _DECODER),
    Family("granitemoe", Task.DECODER, {**_DECODER, **_EXPERTS}),
    Family("granitemoehybrid", Task.DECODER, {**_DECODER, **_EXPERTS, "layer_types": ["mamba", "attention"], "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_chunk_size": 8, "shared_intermediate_size": 64, "position_embedding_type": "rope"}),
    Family("llama", Task.DECODER, _DECODER),
    Family("mistral", Task.DECODER, {**_DECODER, "sliding_window": 8}),
    Family("mixtral", Task.DECODER, {**_DECODER, **_EXPERTS}),
    Family("modernbert", Task.ENCODER, {**_ENCODER, "bos_token_id": 0, "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2, "global_attn_every_n_layers": 2, "local_attention": 8}),
    Family("mpnet", Task.ENCODER, _ENCODER),
    Family("phi", Task.DECODER, {**_DECODER, "num_key_value_heads": 4}),
    Family("phi3", Task.DECODER, _DECODER),
    Family("qwen2", Task.DECODER, _DECODER),
    Family("qwen3", Task.DECODER, _DECODER),
    Family("resnet", Task.IMAGE, {"num_channels": 3, "embedding_size": 32, "hidden_sizes": [32, 64], "depths": [1, 1], "num_labels": 10}),
    Family("roberta", Task.ENCODER, _ENCODER),
    Family("siglip", Task.TEXT_AND_IMAGE, {"text_config": {**_ENCODER, "projection_size": 64, "max_position_embeddings": LENGTH}, "vision_config": _VISION}),
    Family("t5", Task.TEXT_TO_TEXT, {"vocab_size": VOCABULARY, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0}),
    Family("vit", Task.IMAGE, {**_VISION, "num_labels": 10}),
    Family("whisper", Task.SPEECH_TO_TEXT, {"vocab_size": VOCABULARY, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "num_mel_bins": 80, "max_source_positions": 32, "max_target_positions": 64, "init_std": 0.1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0, "suppress_tokens": None, "begin_suppress_tokens": None}),
)  # fmt: skip
BY_NAME = {family.name: family for family in FAMILIES}
