"""torch.spyre, torch.accelerator and module moves, as a user of torch.cuda would call them."""

import pickle
import subprocess
import sys
import weakref

import pytest
import torch

from openspyre.spec.errors import InvalidDevice, ValueOutOfRange


def test_device_management():
    assert torch.spyre.is_available() and torch.spyre.device_count() == 1 and torch.spyre.current_device() == 0
    torch.spyre.set_device(0)
    torch.spyre.set_device("spyre:0")
    with torch.spyre.device(0), torch.spyre.device_of(torch.empty(1, device="spyre")):
        assert torch.empty(1, device="spyre").device == torch.device("spyre", 0)
    assert torch.get_device_module("spyre") is torch.spyre
    assert torch.accelerator.current_accelerator() == torch.device("spyre")
    assert torch.accelerator.device_count() == 1 and torch.accelerator.is_available()
    properties = torch.spyre.get_device_properties()
    assert properties.multi_processor_count == 32 and properties.total_memory == 112 * 2**30
    assert torch.spyre.get_device_name() == properties.name
    assert torch.float16 in torch.accelerator.get_device_capability()["supported_dtypes"]
    assert torch.float64 not in torch.accelerator.get_device_capability()["supported_dtypes"]


@pytest.mark.parametrize("index", [1, 7, 99])
def test_a_wrong_index_is_named(index):
    for action in (
        lambda: torch.empty(1, device=f"spyre:{index}"),
        lambda: torch.ones(2).to(f"spyre:{index}"),
        lambda: torch.spyre.set_device(index),
        lambda: torch.spyre.Stream(device=index),
        lambda: torch.spyre.synchronize(index),
        lambda: torch.spyre.memory_allocated(index),
    ):
        with pytest.raises(InvalidDevice, match=f"spyre:{index}.*OPENSPYRE_CARDS"):
            action()


def test_a_negative_index_is_no_card():
    for action in (torch.spyre.set_device, torch.spyre.Stream, torch.spyre.synchronize, torch.spyre.initial_seed):
        with pytest.raises(InvalidDevice, match="spyre:-1"):
            action(-1)
    with torch.spyre.device(-1), torch.spyre.device_of(torch.empty(1)):
        assert torch.spyre.current_device() == 0


def test_generated_methods_and_default_device():
    x = torch.ones(3)
    assert x.spyre().is_spyre and not x.is_spyre and x.spyre().cpu().tolist() == [1, 1, 1]
    assert torch.nn.Linear(2, 2).spyre().weight.is_spyre
    with torch.device("spyre"):
        assert torch.empty(2).is_spyre and torch.zeros(2).is_spyre and torch.tensor([1.0]).is_spyre
    with torch.device("meta"):
        assert torch.empty(4).is_meta
    torch.set_default_device("spyre")
    try:
        assert torch.ones(2).is_spyre and torch.nn.Linear(2, 2).weight.is_spyre
    finally:
        torch.set_default_device(None)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`")
def test_torch_empty_can_still_be_scripted():
    @torch.jit.script
    def make(n: int):
        return torch.empty([n, 2])

    assert make(3).shape == (3, 2)


def test_memory_numbers_add_up(no_leak):
    torch.spyre.empty_cache()
    before = torch.spyre.memory_allocated()
    x = torch.empty(1024, 1024, dtype=torch.float16, device="spyre")
    assert torch.spyre.memory_allocated() - before == 2 * 2**20
    assert torch.spyre.max_memory_allocated() >= torch.spyre.memory_allocated()
    assert torch.spyre.memory_reserved() >= torch.spyre.memory_allocated()
    assert torch.accelerator.memory_allocated() == torch.spyre.memory_allocated()
    assert torch.spyre.memory.memory_allocated() == torch.spyre.memory_allocated()
    free, total = torch.spyre.mem_get_info()
    assert free < total == 112 * 2**30
    assert torch.spyre.memory_stats()["allocated_bytes.all.current"] == torch.spyre.memory_allocated()
    del x
    torch.spyre.reset_peak_memory_stats()
    assert torch.spyre.max_memory_allocated() == torch.spyre.memory_allocated() == before


def test_module_moves_keep_ties_and_parameter_objects():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(10, 4)
            self.head = torch.nn.Linear(4, 10, bias=False)
            self.head.weight = self.embedding.weight
            self.register_buffer("scale", torch.ones(1))

    model = Tied()
    weight, buffer = model.head.weight, model.scale
    values = weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert model.to("spyre") is model
    assert model.head.weight is weight is model.embedding.weight and weight.is_spyre and weight.is_leaf
    assert optimizer.param_groups[0]["params"][0] is weight and not buffer.is_spyre and model.scale.is_spyre
    assert torch.equal(weight.detach().cpu(), values)
    model.head.weight.data.zero_()
    assert model.embedding.weight.detach().cpu().abs().sum().item() == 0
    assert model.cpu().head.weight is weight is model.embedding.weight and not weight.is_spyre
    model.half().spyre()
    assert weight.dtype == torch.float16 and weight.is_spyre


def test_parameters_move_in_place():
    """As on other devices: with weak references, hooks, a graph that is alive, and by hand through .data."""
    layer, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    seen, alive = weakref.ref(layer.weight), layer(x)
    layer.weight.register_hook(lambda grad: devices.append(grad.device.type))
    devices = []
    weight = layer.to("spyre").weight
    assert seen() is weight and weight.is_spyre and weight.is_leaf
    layer(x.to("spyre")).sum().backward()
    assert devices == ["spyre"] and weight.grad.is_spyre
    torch.testing.assert_close(layer(x.to("spyre")).cpu(), alive, rtol=1e-5, atol=1e-5)
    layer.cpu()
    assert seen() is weight is layer.weight and not weight.is_spyre and not weight.grad.is_spyre
    weight.data = weight.data.to("spyre")
    assert weight.is_spyre and torch.equal(weight.detach().cpu(), weight.data.cpu())
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        weight.data = torch.eye(4).to_sparse()


def test_a_model_made_on_meta_keeps_its_ties():
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    model.to_empty(device="spyre")
    assert model[1].weight is model[0].weight and model[0].weight.is_spyre
    model.load_state_dict({"0.weight": torch.eye(4), "1.weight": torch.eye(4)})
    assert torch.equal(model(torch.ones(2, 4, device="spyre")).cpu(), torch.ones(2, 4))
    with torch.device("meta"):
        other = torch.nn.Linear(4, 4)
    weight = other.weight
    assert other.to_empty(device="cpu").weight is not weight  # what does not concern the card stays torch's rule


def test_state_dict_and_safetensors(tmp_path):
    from safetensors.torch import load_file, save_file

    model = torch.nn.Linear(70, 3)
    expected = {name: value.clone() for name, value in model.state_dict().items()}
    model.to("spyre")
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    torch.save(model.state_dict(), tmp_path / "model.pt")
    for loaded in (load_file(tmp_path / "model.safetensors"), torch.load(tmp_path / "model.pt", map_location="cpu")):
        for name, value in expected.items():
            assert torch.equal(loaded[name].cpu(), value)
    other = torch.nn.Linear(70, 3).to("spyre")
    other.load_state_dict(expected)
    assert torch.equal(other.weight.detach().cpu(), expected["weight"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool, torch.uint8])
def test_pickle_and_the_old_file_format(dtype, tmp_path):
    values = torch.arange(210).view(3, 70).to(dtype)
    base = values.to("spyre")
    for x, expected in (
        (base, values),
        (base[1:, ::3], values[1:, ::3]),
        (base.t(), values.t()),
        (base[:0], values[:0]),
    ):
        torch.save(x, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
        for copy in (pickle.loads(pickle.dumps(x)), torch.load(tmp_path / "old.pt")):
            assert copy.is_spyre and copy.stride() == x.stride() and torch.equal(copy.cpu(), expected)
        assert torch.equal(torch.load(tmp_path / "old.pt", map_location="cpu"), expected)
    layer = torch.nn.Linear(70, 3).to("spyre")
    again = pickle.loads(pickle.dumps(layer))
    assert again.weight.is_spyre and torch.equal(again.weight.detach().cpu(), layer.weight.detach().cpu())


def test_seeds_are_reproducible_and_apart_from_the_cpu():
    def draw():
        return [torch.randn(5, device="spyre").cpu(), torch.rand(3, device="spyre").cpu(), torch.randperm(9, device="spyre").cpu(),
                torch.nn.functional.dropout(torch.ones(50, device="spyre"), 0.5).cpu(),
                torch.bernoulli(torch.full((20,), 0.5).to("spyre")).cpu(), torch.empty(4, device="spyre").normal_().cpu()]  # fmt: skip

    for seed in (torch.spyre.manual_seed, torch.spyre.manual_seed_all, torch.accelerator.manual_seed,
                 torch.accelerator.manual_seed_all, torch.manual_seed):  # fmt: skip
        torch.manual_seed(0)
        cpu_state = torch.get_rng_state()
        seed(7)
        if seed is torch.manual_seed:
            cpu_state = torch.get_rng_state()
        first = draw()
        assert torch.equal(torch.get_rng_state(), cpu_state), "the CPU generator is not touched"
        seed(7)
        assert all(torch.equal(a, b) for a, b in zip(first, draw(), strict=True))
        assert not all(torch.equal(a, b) for a, b in zip(first, draw(), strict=True))
    state = torch.spyre.get_rng_state()
    a = torch.rand(4, device="spyre").cpu()
    torch.spyre.set_rng_state(state)
    assert torch.equal(a, torch.rand(4, device="spyre").cpu())
    with torch.random.fork_rng(devices=[0], device_type="spyre"):
        torch.rand(4, device="spyre")
    generator = torch.Generator("spyre").manual_seed(3)
    b = torch.randn(4, device="spyre", generator=generator).cpu()
    assert torch.equal(b, torch.randn(4, device="spyre", generator=generator.manual_seed(3)).cpu())


def test_importing_torch_starts_nothing_and_prints_nothing():
    done = subprocess.run([sys.executable, "-c", "import torch; assert not torch.spyre.is_initialized(); import os; "
                           "assert not any('spyre' in open(f'/proc/self/task/{t}/comm').read() for t in os.listdir('/proc/self/task'))"],
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_failure_while_loading_does_not_break_torch():
    program = "import sys; sys.modules['torch_spyre._torch'] = None\nimport torch; print(torch.ones(2).sum().item())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout == "2.0\n" and "openspyre doctor" in done.stderr


def test_importing_torch_leaves_op_table_and_compiler_on_the_shelf():
    program = "import sys, torch; print([m for m in sys.modules if m.startswith(('openspyre.spec.ops', 'openspyre.compiler'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[]\n", done.stderr


def test_numbers_that_do_not_fit_are_an_error_when_they_are_read():
    """A tensor may be set on a storage whose contents are still to come."""
    storage = torch.tensor([1, 2**40]).untyped_storage().to(device=torch.device("spyre"))
    x = torch.empty(0, dtype=torch.int64, device="spyre").set_(storage, 0, (2,), (1,))
    with pytest.raises(ValueOutOfRange, match="1099511627776"):
        x.cpu()
    storage.copy_(torch.tensor([1, 2]).untyped_storage())
    assert x.tolist() == [1, 2]


def test_a_lazy_module_moves_to_the_card_and_materialises_there():
    module = torch.nn.LazyLinear(4).to("spyre", torch.float16)
    assert module(torch.ones(2, 3, dtype=torch.float16, device="spyre")).shape == (2, 4)
    assert module.weight.device.type == "spyre" and type(module) is torch.nn.Linear
