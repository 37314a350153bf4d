"""Models with real weights: what is built, what it is asked, and what its answer must say."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from .networks import Crepe, MobileNetV2, SileroVad
from .packages import CREPE, MINILM, MOBILENET, RXNFP, SILERO, SMOLLM2, Package
from .smollm2 import checkpoint

Inputs = dict[str, torch.Tensor]
QUESTION = "What is the capital of France?"
SENTENCES = (
    "A man is eating food.",
    "Someone is having a meal.",
    "The stock market fell sharply on Tuesday, and analysts expect more of it.",
    "Deep learning accelerators multiply matrices.",
)
REACTION = "CC(=O)O.OCC>>CC(=O)OCC"
PITCHES = (110.0, 220.0, 440.0, 880.0)


@dataclass(frozen=True, slots=True)
class Real:
    """`answer` is what it says in words or numbers, `right` what that must hold."""

    name: str
    package: Package
    load: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]
    rows: Callable[[nn.Module, Inputs], torch.Tensor]
    answer: Callable[[nn.Module, str], str]
    right: Callable[[str], bool]
    generates: bool = False

    def build(self, dtype: torch.dtype = torch.float32) -> nn.Module:
        return self.load().eval().to(dtype)

    def inputs_on_card(self) -> Inputs:
        halves = {name: value.half() if value.is_floating_point() else value for name, value in self.inputs().items()}
        return {name: value.to("spyre") for name, value in halves.items()}

    def outputs(self, model: nn.Module, inputs: Inputs) -> torch.Tensor:
        return self.rows(model, inputs)


# --- language ------------------------------------------------------------------------------------------------------------


def _chat() -> Inputs:
    from transformers import AutoTokenizer

    told = [{"role": "user", "content": QUESTION}]
    given = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
    return dict(AutoTokenizer.from_pretrained(checkpoint()).apply_chat_template(told, **given))


def _smollm2() -> nn.Module:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(checkpoint(), dtype=torch.float32)


def _says(model: nn.Module, device: str) -> str:
    from transformers import AutoTokenizer

    given = {name: value.to(device) for name, value in _chat().items()}
    made = model.generate(**given, max_new_tokens=12, do_sample=False)[0, given["input_ids"].shape[1] :]
    return AutoTokenizer.from_pretrained(checkpoint()).decode(made.cpu(), skip_special_tokens=True)


def _sentences() -> Inputs:
    from transformers import AutoTokenizer

    return dict(AutoTokenizer.from_pretrained(MINILM.folder())(list(SENTENCES), padding=True, return_tensors="pt"))


def _minilm() -> nn.Module:
    from transformers import AutoModel

    return AutoModel.from_pretrained(MINILM.folder(), dtype=torch.float32)


def _similarity(model: nn.Module, device: str) -> str:
    given = {name: value.to(device) for name, value in _sentences().items()}
    with torch.no_grad():
        hidden = model(**given).last_hidden_state.float().cpu()
    weight = given["attention_mask"].cpu().unsqueeze(2)
    vectors = nn.functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=1)
    return f"{vectors[0] @ vectors[1]:.2f} of a paraphrase, {vectors[0] @ vectors[2]:.2f} of another subject"


def _reaction() -> Inputs:
    words = (RXNFP.folder() / "vocab.txt").read_text().split()
    parts = re.findall(r"\[[^\]]+]|Br?|Cl?|>>|[NOSPFIbcnosp().=#\-+\\/:~@?>*$%0-9]", REACTION)
    ids = [words.index(word) for word in ("[CLS]", *parts, "[SEP]")]
    return {"input_ids": torch.tensor([ids])}


def _rxnfp() -> nn.Module:
    from transformers import AutoConfig, BertModel

    settings = AutoConfig.for_model("bert", **_json(RXNFP, "config.json"))
    model = BertModel(settings)
    model.load_state_dict(_weights(RXNFP, "pytorch_model.bin"))
    return model


def _fingerprint(model: nn.Module, device: str) -> str:
    with torch.no_grad():
        first = model(**{name: value.to(device) for name, value in _reaction().items()}).last_hidden_state[0, 0]
    return f"a fingerprint of length {first.float().cpu().norm():.2f}"


# --- sound and pictures --------------------------------------------------------------------------------------------------


def _tones() -> Inputs:
    time = torch.arange(1024) / 16000
    waves = torch.stack([torch.sin(2 * math.pi * pitch * time) for pitch in PITCHES])
    return {"frames": (waves - waves.mean(1, keepdim=True)) / waves.std(1, keepdim=True)}


def _crepe() -> nn.Module:
    model = Crepe()
    model.load_state_dict(_weights(CREPE, ".pth"))
    return model


def _heard(model: nn.Module, device: str) -> str:
    with torch.no_grad():
        bins = model(_tones()["frames"].to(device, next(model.parameters()).dtype)).float().cpu().argmax(1)
    return " ".join(f"{10 * 2 ** ((20 * bin + 1997.3794084376191) / 1200):.0f}" for bin in bins.tolist()) + " Hz"


def _recording() -> Inputs:
    generator, time = torch.Generator().manual_seed(5), torch.arange(10 * 512) / 16000
    noise = 0.01 * torch.randn(10 * 512, generator=generator)
    voice = sum(torch.sin(2 * math.pi * 120 * k * time) / k for k in range(1, 20)) * (
        1 + torch.sin(2 * math.pi * 4 * time)
    )
    tracks = nn.functional.pad(torch.stack([noise, 0.1 * voice + noise]), (64, 0))
    return {"chunks": torch.stack([tracks[:, k * 512 : k * 512 + 576] for k in range(10)], 1)}


def _silero() -> nn.Module:
    from safetensors.torch import load_file

    model = SileroVad()
    model.load_state_dict(load_file(SILERO.folder() / "tensors"))
    return model


def _speech(model: nn.Module, device: str) -> str:
    with torch.no_grad():
        told = model(_recording()["chunks"].to(device, next(model.parameters()).dtype)).float().cpu()
    return f"speech {told[0].max():.2f} of noise, {told[1].max():.2f} of tones like a voice"


def _picture() -> Inputs:
    """A disc in front of stripes."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, 224), torch.linspace(-1, 1, 224), indexing="ij")
    disc, stripes = ((x**2 + y**2) < 0.4).float(), torch.sin(20 * x) * 0.3
    return {"pictures": torch.stack([2 * disc - 0.5, stripes + disc, stripes - disc]).unsqueeze(0)}


def _mobilenet() -> nn.Module:
    model = MobileNetV2()
    model.load_state_dict(_weights(MOBILENET, "b0353104.pth"))
    return model


def _seen(model: nn.Module, device: str) -> str:
    with torch.no_grad():
        likely = model(_picture()["pictures"].to(device, next(model.parameters()).dtype)).float().cpu().softmax(1)
    return f"class {likely.argmax().item()}"


# --- all of them ---------------------------------------------------------------------------------------------------------


def _json(package: Package, name: str) -> dict[str, object]:
    import json

    return json.loads((package.folder() / name).read_text())


def _weights(package: Package, name: str) -> dict[str, torch.Tensor]:
    """Tensors only: a file of a stranger's may hold code otherwise."""
    return torch.load(package.folder() / name, weights_only=True, map_location="cpu")


def _logits(model: nn.Module, inputs: Inputs) -> torch.Tensor:
    return model(**inputs).logits.flatten(0, 1)


def _hidden(model: nn.Module, inputs: Inputs) -> torch.Tensor:
    hidden = model(**inputs).last_hidden_state.cpu()
    mask = inputs.get("attention_mask")
    return hidden.flatten(0, 1) if mask is None else hidden[mask.cpu().bool()]


def _plain(model: nn.Module, inputs: Inputs) -> torch.Tensor:
    return model(*inputs.values())


REAL: tuple[Real, ...] = (
    Real(
        "SmolLM2-135M-Instruct", SMOLLM2, _smollm2, _chat, _logits, _says, lambda told: "Paris" in told, generates=True
    ),
    Real("all-MiniLM-L6-v2", MINILM, _minilm, _sentences, _hidden, _similarity, lambda told: float(told[:4]) > 0.6),
    Real("rxnfp (BERT)", RXNFP, _rxnfp, _reaction, _hidden, _fingerprint, lambda told: "length" in told),
    Real("CREPE tiny", CREPE, _crepe, _tones, _plain, _heard, lambda told: told.startswith(("109 ", "110 ", "111 "))),
    Real("Silero VAD", SILERO, _silero, _recording, _plain, _speech, lambda told: "speech 0.0" in told),
    Real("MobileNetV2", MOBILENET, _mobilenet, _picture, _plain, _seen, lambda told: told.startswith("class")),
)
