"""`python -m bench.large`: the configuration of Granite 3.3 8B with random float16 weights, loaded and asked for four tokens.

The checkpoint takes 16 GB of disk for as long as it runs, the card as much memory: a host of 24 GB has to do.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GraniteConfig

import torch_spyre  # noqa: F401, the device

GIB = 1 << 30
GRANITE_8B = GraniteConfig(
    vocab_size=49159, hidden_size=4096, intermediate_size=12800, num_hidden_layers=40, num_attention_heads=32,
    num_key_value_heads=8, max_position_embeddings=131072, embedding_multiplier=12.0, attention_multiplier=0.0078125,
    residual_multiplier=0.22, logits_scaling=16.0, tie_word_embeddings=True, rms_norm_eps=1e-5, dtype="float16",
    architectures=["GraniteForCausalLM"],
)  # fmt: skip


def write_checkpoint(config: GraniteConfig, directory: Path) -> int:
    """A file a layer, so that no more than one is in memory; returns the bytes of all weights."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    files: dict[str, list[tuple[str, torch.Size]]] = defaultdict(list)
    for name, weight in model.state_dict().items():
        if name != "lm_head.weight":  # tied
            files[name.split(".")[2] if ".layers." in name else "other"].append((name, weight.shape))
    places, total = {}, 0
    for part, weights in files.items():
        made = {
            name: torch.ones(shape, dtype=torch.float16) if len(shape) == 1 else (torch.randn(shape) * 0.02).half()
            for name, shape in weights
        }
        save_file(made, directory / f"model-{part}.safetensors", metadata={"format": "pt"})
        places.update(dict.fromkeys(made, f"model-{part}.safetensors"))
        total += sum(weight.nbytes for weight in made.values())
    config.save_pretrained(directory)
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


def host_gib(what: str) -> float:
    """Of this process, as the kernel counts it: VmHWM is the most it ever had, RssAnon what it has and no file stands behind."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / (1 << 20) for line in lines if line.startswith(f"{what}:"))


def said(what: str, since: float) -> None:
    card = torch.spyre.memory_allocated() / GIB, torch.spyre.max_memory_allocated() / GIB
    print(
        f"{what}: {time.perf_counter() - since:.1f} s, card {card[0]:.2f} GiB, at most {card[1]:.2f}; host "
        f"{host_gib('RssAnon'):.2f} GiB, with mapped files at most {host_gib('VmHWM'):.2f}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.large", description=__doc__)
    parser.add_argument("--layers", type=int, default=40, help="fewer for a smaller host (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=4, help="to generate (default: %(default)s)")
    parser.add_argument("--cache", choices=("dynamic", "static"), default="dynamic", help="static compiles")
    parser.add_argument("--directory", type=Path, help="for the checkpoint (default: a temporary one)")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message="int64 lives on spyre")
    torch.manual_seed(0)
    GRANITE_8B.num_hidden_layers = given.layers
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        start = time.perf_counter()
        total = write_checkpoint(GRANITE_8B, Path(directory))
        print(f"written: {time.perf_counter() - start:.1f} s, {total / GIB:.2f} GiB of weights", flush=True)
        start = time.perf_counter()
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float16, device_map="spyre")
        said("loaded", start)
    prompt = torch.randint(0, GRANITE_8B.vocab_size, (1, 32)).to("spyre")
    options = {} if given.cache == "dynamic" else {"cache_implementation": "static"}
    for call in ("first", "second"):
        start = time.perf_counter()
        found = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=given.tokens, do_sample=False, **options
        )
        said(f"{call} {given.tokens} tokens {found[0, 32:].tolist()}", start)
    return 0


if __name__ == "__main__":
    sys.exit(main())
