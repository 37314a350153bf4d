"""Libraries people run models with take the card as they take other accelerators: unchanged code, right results."""

import os
import subprocess
import sys
from importlib import import_module

import pytest
import torch

from torch_spyre.library_seams import LIBRARY_SEAMS

from .comparing import BOUND, distance
from .families import BY_NAME

for needed in ("transformers", "accelerate", "peft", "fms", "sentence_transformers"):
    pytest.importorskip(needed, reason="pip install 'openspyre[models]' for the tests of libraries")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, about themselves

FAMILY = BY_NAME["llama"]
CARD = torch.device("spyre", 0)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("llama")
    FAMILY.build().save_pretrained(path)
    return path


@pytest.fixture
def fresh_accelerate():
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@torch.no_grad()
def _error(model):
    return distance(FAMILY.outputs(model, FAMILY.inputs_on_card()), FAMILY.outputs(FAMILY.build(), FAMILY.inputs()))


@pytest.mark.parametrize("seam", LIBRARY_SEAMS, ids=lambda seam: f"{seam.module}.{seam.symbol}")
def test_a_seam_is_in_place_once_its_library_is_imported(seam):
    found = import_module(seam.module)
    for part in seam.symbol.split("."):
        found = vars(found)[part]
    found = getattr(found, "func", getattr(found, "fget", found))
    assert seam.hooked or callable(found.__wrapped__)
    assert seam.why and seam.remove_when


@pytest.mark.parametrize("module", sorted({seam.module for seam in LIBRARY_SEAMS}))
def test_a_library_that_is_imported_before_torch_takes_the_card_as_well(module):
    """Then it is the one that imports torch, and not whole yet when torch brings the device along."""
    symbols = [seam.symbol for seam in LIBRARY_SEAMS if seam.module == module and not seam.hooked]
    program = f"""
import {module}, sys, torch
from functools import reduce
for symbol in {symbols}:
    *path, name = symbol.split(".")
    owner = reduce(getattr, path, sys.modules[{module!r}])
    found = vars(owner)[name]
    found = getattr(found, "fget", None) or getattr(found, "func", None) or getattr(found, "__func__", found)
    assert hasattr(found, "__wrapped__"), symbol
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "not with spyre" not in done.stderr


def test_torch_alone_imports_none_of_them():
    libraries = {seam.library for seam in LIBRARY_SEAMS} - {"safetensors"}
    script = f"import sys, torch; torch.ones(2).to('spyre') + 1; print({libraries!r} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.strip() == "set()"


def test_a_library_without_the_symbol_is_told_of_and_stays_usable(tmp_path):
    (tmp_path / "safetensors").mkdir()
    (tmp_path / "safetensors" / "__init__.py").write_text("answer = 42\n")
    script = "import torch, safetensors; print(safetensors.answer)"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    assert run.stdout.strip() == "42" and "safetensors has no safe_open any more" in run.stderr


@pytest.mark.parametrize("where", ["spyre", "auto", {"": "spyre"}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_device_map_brings_a_model_to_the_card_as_to_does(checkpoint, where, dtype):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=dtype, device_map=where)
    assert {parameter.device for parameter in model.parameters()} == {CARD}
    moved = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=dtype).to("spyre")
    for one, other in zip(model.parameters(), moved.parameters(), strict=True):
        assert one.dtype == dtype and one.device_tensor_layout() == other.device_tensor_layout()
    assert _error(model) < BOUND


def test_memory_for_auto_counts_the_cards_and_says_nothing_of_missing_ones(caplog):
    from accelerate.utils import get_max_memory

    free, _ = torch.spyre.mem_get_info(0)
    assert get_max_memory()[0] == free and "cpu" in get_max_memory()
    with caplog.at_level("WARNING"):
        assert get_max_memory({0: "1GiB", "cpu": 7}) == {0: 1 << 30, "cpu": 7}
    assert not caplog.records


def test_safetensors_go_straight_to_the_card(checkpoint):
    from safetensors import safe_open
    from safetensors.torch import load_file

    file = checkpoint / "model.safetensors"
    expected = load_file(file)
    found = load_file(file, device="spyre")
    assert {tensor.device for tensor in found.values()} == {CARD} and found.keys() == expected.keys()
    assert all(torch.equal(found[name].cpu(), expected[name]) for name in expected)
    name = "model.embed_tokens.weight"
    with safe_open(file, "pt", device="spyre:0") as opened:
        part = opened.get_slice(name)
        assert part.get_shape() == list(expected[name].shape) and set(opened.keys()) == set(expected)
        assert torch.equal(part[3:5].cpu(), expected[name][3:5]) and part[3:5].device == CARD
        assert opened.get_tensor(name).device == CARD
    with pytest.raises(Exception, match="nonsense"):
        load_file(file, device="nonsense")


def _steps(model, optimizer, batch, backward, count=3):
    losses = []
    for _ in range(count):
        loss = model(**batch, labels=batch["input_ids"]).loss
        backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def test_accelerator_trains_on_the_card(fresh_accelerate):
    from accelerate import Accelerator

    accelerator = Accelerator()
    assert accelerator.device == CARD
    model = FAMILY.build()
    rows = [{name: value[row] for name, value in FAMILY.inputs().items()} for row in range(2)]
    loader = torch.utils.data.DataLoader(rows, batch_size=2)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 1e-2), loader)
    (batch,) = loader
    assert batch["input_ids"].device == CARD
    found = _steps(model, optimizer, batch, accelerator.backward)
    other = FAMILY.build()
    expected = _steps(other, torch.optim.AdamW(other.parameters(), 1e-2), FAMILY.inputs(), lambda loss: loss.backward())
    assert found == pytest.approx(expected, rel=1e-3)


def test_trainer_takes_the_card_unless_the_cpu_is_asked_for(tmp_path, fresh_accelerate):
    from transformers import Trainer, TrainingArguments

    def trained(**settings):
        told = {"max_steps": 3, "per_device_train_batch_size": 2, "learning_rate": 1e-2, "report_to": [], "seed": 1}
        arguments = TrainingArguments(tmp_path, save_strategy="no", disable_tqdm=True, **told, **settings)
        rows = [{**{name: value[row] for name, value in FAMILY.inputs().items()}} for row in range(2)]
        rows = [row | {"labels": row["input_ids"]} for row in rows] * 3
        trainer = Trainer(FAMILY.build(), arguments, train_dataset=rows)
        return trainer.train().training_loss, trainer.model.device, arguments.device

    torch.spyre.reset_fallback_stats()
    on_card = trained(use_cpu=False)
    assert on_card[1:] == (CARD, CARD) and torch.spyre.fallback_stats() == {}
    on_host = trained(use_cpu=True)
    assert on_host[2] == torch.device("cpu")
    assert on_card[0] == pytest.approx(on_host[0], rel=1e-3)


def test_trainer_with_bfloat16_trains_experts_without_a_fallback(tmp_path, fresh_accelerate):
    from transformers import Trainer, TrainingArguments

    family = BY_NAME["granitemoe"]
    told = {
        "max_steps": 2,
        "per_device_train_batch_size": 2,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    rows = [{name: value[row] for name, value in family.inputs().items()} for row in range(2)]
    rows = [row | {"labels": row["input_ids"]} for row in rows] * 2
    trainer = Trainer(family.build(), TrainingArguments(tmp_path, bf16=True, **told), train_dataset=rows)
    torch.spyre.set_fallback_mode("error")
    assert 4 < trainer.train().training_loss < 7


def test_a_lora_of_peft_learns_on_the_card(checkpoint, tmp_path):
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM

    def loaded():
        return AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float16, device_map="spyre")

    torch.manual_seed(0)
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(loaded(), config)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    frozen = [parameter.detach().cpu() for parameter in model.parameters() if not parameter.requires_grad]
    losses = _steps(model, torch.optim.AdamW(trained, 1e-2), FAMILY.inputs_on_card(), lambda loss: loss.backward(), 5)
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0] - 0.3
    untouched = [parameter.cpu() for parameter in model.parameters() if not parameter.requires_grad]
    assert all(map(torch.equal, frozen, untouched))
    model.save_pretrained(tmp_path)
    again = PeftModel.from_pretrained(loaded(), tmp_path).merge_and_unload()
    with torch.no_grad():
        merged = FAMILY.outputs(again, FAMILY.inputs_on_card())
        assert distance(merged, FAMILY.outputs(model, FAMILY.inputs_on_card()).float().cpu()) < BOUND


@pytest.mark.parametrize("kind", ["llama", "granite"])
def test_a_model_of_fms(kind):
    from fms.models import get_model
    from fms.utils.generation import generate

    small = {"emb_dim": 64, "nheads": 4, "kvheads": 2, "nlayers": 2, "src_vocab_size": 256, "max_expected_seq_len": 64}
    torch.manual_seed(0)
    variant = {"llama": "micro", "granite": "8b"}[kind]
    small = {} if kind == "llama" else {**small, "head_dim": 16}
    host = get_model(kind, variant, device_type="cpu", data_type=torch.float32, **small).eval()
    card = get_model(kind, variant, device_type="spyre", data_type=torch.float16, **small).eval()
    card.load_state_dict(host.state_dict())
    assert {parameter.device for parameter in card.parameters()} == {CARD}
    ids = torch.randint(5, 200, (1, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert distance(card(ids.to("spyre")), host(ids)) < BOUND
    found = generate(card, ids.to("spyre"), max_new_tokens=4, use_cache=True, do_sample=False)
    assert found.tolist() == generate(host, ids, max_new_tokens=4, use_cache=True, do_sample=False).tolist()


def test_a_static_cache_compiles_by_itself(checkpoint):
    from torch._dynamo.utils import counters
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float16).to("spyre")
    graphs = []
    for settings in (
        {"cache_implementation": "static"},
        {"cache_implementation": "static", "disable_compile": True},
        {},
    ):
        torch.compiler.reset()
        counters.clear()
        model.generate(**FAMILY.inputs_on_card(), max_new_tokens=4, **settings)
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs == [1, 0, 0]


def test_a_longer_prompt_has_the_static_cache_of_the_one_before(checkpoint):
    from torch._dynamo.utils import counters
    from transformers import AutoModelForCausalLM

    from torch_spyre.inductor.launching import launch

    host = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float16).to("spyre")
    torch.compiler.reset()
    counters.clear()
    made = []
    for length in (5, 9, 40):
        ids = torch.randint(5, 90, (1, length), generator=torch.Generator().manual_seed(length))
        settings = {"max_new_tokens": 4, "do_sample": False, "cache_implementation": "static"}
        found = model.generate(ids.to("spyre"), return_dict_in_generate=True, **settings)
        assert found.past_key_values.layers[0].keys.shape[-2] == 256
        assert found.sequences.tolist() == host.generate(ids, disable_compile=True, **settings).tolist()
        made.append((counters["stats"]["unique_graphs"], launch.counts()["specialisations"]))
    assert [graphs for graphs, _ in made] == [1, 1, 1]
    assert made[1] == made[2]  # no program for another length either
