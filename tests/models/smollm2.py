"""SmolLM2-135M-Instruct: the quantised file of its package as an ordinary checkpoint of float16, made once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .packages import SMOLLM2, models_directory

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def checkpoint() -> Path:
    """The folder for from_pretrained()."""
    kept = models_directory() / f"smollm2-{SMOLLM2.version}-float16"
    if not kept.is_dir():
        with tempfile.TemporaryDirectory(dir=models_directory()) as scratch:
            made = Path(scratch) / "checkpoint"
            _write(SMOLLM2.folder(), made)
            made.replace(kept)
    return kept


def _write(source: Path, target: Path) -> None:
    from gguf import GGUFReader
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    reader = GGUFReader(source / _FILE)
    config = LlamaConfig(**_settings(reader), tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=2)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    weights = dict(_weight(tensor, config) for tensor in reader.tensors)
    model.load_state_dict(weights | {"lm_head.weight": weights["model.embed_tokens.weight"]}, assign=True)
    model.tie_weights()
    model.to(torch.float16).save_pretrained(target)
    AutoTokenizer.from_pretrained(source, gguf_file=_FILE).save_pretrained(target)


def _settings(reader: Any) -> dict[str, Any]:
    def known(name: str) -> Any:
        return reader.fields[f"llama.{name}"].contents()

    return {
        "vocab_size": int(known("vocab_size")),
        "hidden_size": int(known("embedding_length")),
        "intermediate_size": int(known("feed_forward_length")),
        "num_hidden_layers": int(known("block_count")),
        "num_attention_heads": int(known("attention.head_count")),
        "num_key_value_heads": int(known("attention.head_count_kv")),
        "max_position_embeddings": int(known("context_length")),
        "rms_norm_eps": float(known("attention.layer_norm_rms_epsilon")),
        "rope_theta": float(known("rope.freq_base")),
    }


def _weight(tensor: Any, config: Any) -> tuple[str, torch.Tensor]:
    from gguf.quants import dequantize

    values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    kind, _, rest = tensor.name.removesuffix(".weight").partition(".")
    if kind != "blk":
        return f"{_OUTSIDE[kind]}.weight", torch.from_numpy(values)
    layer, _, part = rest.partition(".")
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(part)
    if heads is not None:  # there, the two halves that rotary embeddings turn stand side by side
        values = values.reshape(heads, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
    return f"model.layers.{layer}.{_NAMES[part]}.weight", torch.from_numpy(np.ascontiguousarray(values))
