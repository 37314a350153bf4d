"""Parameters of compiled graphs: re-tiled once where every reader wants it, left alone where a user or another reader does not."""

import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from openspyre.backend.text_cache import TextCache
from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre.inductor.launching import launch
from torch_spyre.inductor.reporting.report import compile_report

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    launch.clear()


class Weight(nn.Module):
    """A parameter and what is computed with it."""

    def __init__(self, size, compute):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))
        self.compute = compute

    def forward(self, *inputs):
        return self.compute(self.weight, *inputs)


def retiled_so_far():
    from torch_spyre.inductor.launching import specialise  # loads Inductor, which warns

    return specialise.counts()["retiled"]


def turned(weight, order):
    return SpyreTensorLayout(list(weight.shape), list(weight.stride()), weight.dtype, order)


def retiled(model, *inputs):
    """Parameters that a compiled call re-tiled; its result is checked, and so is the call after it."""
    with torch.no_grad():
        expected = model(*inputs)
        card = model.to("spyre")
        compiled = torch.compile(card, dynamic=False)
        before = retiled_so_far()
        on_card = [x.to("spyre") for x in inputs]
        for _ in range(2):
            torch.testing.assert_close(compiled(*on_card).cpu(), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(card(*on_card).cpu(), expected, rtol=1e-4, atol=1e-4)
    return retiled_so_far() - before


@pytest.mark.parametrize(
    ("size", "compute", "order"),
    [((192, 70), lambda w, x: F.linear(x, w), [1, 0]), ((3, 192, 70), lambda w, x: x @ w.transpose(1, 2), [0, 2, 1])],
)
def test_a_weight_that_is_read_turned_is_turned_once(size, compute, order):
    model = Weight(size, compute)
    x = torch.randn(*size[:-2], 5, 70)
    assert retiled(model, x) == 1
    assert model.weight.device_tensor_layout() == turned(model.weight, order)
    assert isinstance(model.weight, nn.Parameter)


def test_a_weight_that_is_read_as_it_lies_stays():
    assert retiled(Weight((70, 192), lambda w, x: torch.addmm(x[0, 0], x, w)), torch.randn(5, 70)) == 0
    assert retiled(Weight((3, 70, 192), lambda w, x: torch.bmm(x, w)), torch.randn(3, 5, 70)) == 0
    assert retiled(nn.Linear(70, 192), torch.randn(5, 70)) == 0  # module.to has turned it


def test_a_weight_that_is_also_looked_up_stays():
    def tied(weight, index):
        return F.linear(F.embedding(index, weight), weight)

    assert retiled(Weight((300, 64), tied), torch.arange(7)) == 0
    told = compile_report()[-1].bundles[0].specialisations[-1]
    weight = next(turned.tensor for turned in told.turned)
    assert f"{weight} is turned by" in str(told) and not any(moved.tensor == weight for moved in told.relayouts)


@pytest.mark.parametrize(
    ("size", "equation"),
    [((128, 4, 32), "btd,dhk->bthk"), ((4, 32, 128), "bthk,hkd->btd"), ((128, 4, 32), "bthk,dhk->btd")],
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_no_launch_moves_the_weight_of_an_einsum(size, equation, dtype):
    x = torch.randn((1, 64, 128) if "btd," in equation else (1, 64, 4, 32)).to(dtype)
    model = Weight(size, lambda w, x: torch.einsum(equation, x, w)).to(dtype)
    with torch.no_grad():
        expected = model.float()(x.float())
        result = torch.compile(model.to(dtype).to("spyre"), dynamic=False)(x.to("spyre"))
    step = 2.0**-10 if dtype is torch.float16 else 2.0**-23
    torch.testing.assert_close(result.cpu().float(), expected, rtol=4 * step, atol=128 * step)
    told = compile_report()[-1].bundles[0].specialisations[-1]
    assert not told.turned
    assert all(moved.bytes <= x.numel() * x.element_size() < model.weight.nbytes for moved in told.relayouts)


def test_a_layout_of_the_users_stays():
    model = Weight((2, 192, 70), lambda w, x: x @ w.transpose(1, 2))
    x = torch.randn(2, 5, 70)
    expected = model(x).detach()
    model.to("spyre")
    chosen = turned(model.weight, [1, 0, 2])
    model.weight.data = model.weight.detach().cpu().to("spyre", device_layout=chosen)
    with torch.no_grad():
        result = torch.compile(model, dynamic=False)(x.to("spyre"))
    assert model.weight.device_tensor_layout() == chosen
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_tensors_that_are_no_parameters_stay():
    w, x = torch.randn(192, 70), torch.randn(5, 70)
    card = w.to("spyre")
    before = retiled_so_far()
    result = torch.compile(lambda x, w: F.linear(x, w), dynamic=False)(x.to("spyre"), card)
    assert retiled_so_far() == before
    torch.testing.assert_close(result.cpu(), F.linear(x, w), rtol=1e-4, atol=1e-4)


def test_training_turns_a_weight_at_most_once():
    model = Weight((192, 70), lambda w, x: F.linear(x, w))
    x = torch.randn(5, 70)
    model(x).sum().backward()
    expected = model.weight.grad.clone()
    model.weight.grad = None
    model.to("spyre")
    compiled = torch.compile(model, dynamic=False)
    before = retiled_so_far()
    for _ in range(3):
        model.weight.grad = None
        compiled(x.to("spyre")).sum().backward()
        torch.testing.assert_close(model.weight.grad.cpu(), expected, rtol=1e-4, atol=1e-4)
    assert retiled_so_far() - before == 1


def test_a_weight_is_turned_while_other_threads_compute_with_it():
    """Whoever reads a weight reads it as it lies: as before, or as after."""
    torch.manual_seed(0)
    model = Weight((192, 70), lambda w, x: F.linear(x, w))
    x = torch.randn(5, 70)
    expected = model(x).detach()
    card, y = model.to("spyre"), x.to("spyre")
    compiled = torch.compile(card, dynamic=False)
    wrong, turning = [], threading.Event()
    turning.set()

    def compute(read):
        try:
            with torch.no_grad():
                while turning.is_set():
                    torch.testing.assert_close(read(), expected, rtol=1e-4, atol=1e-4)
        except Exception as error:
            wrong.append(error)

    reads = (
        lambda: compiled(y).cpu(),
        lambda: F.linear(y, card.weight).cpu(),
        lambda: F.linear(x, card.weight.cpu()),
        lambda: F.linear(y, card.weight.clone()).cpu(),
    )
    threads = [threading.Thread(target=compute, args=(read,)) for read in reads]
    for thread in threads:
        thread.start()
    layouts = [turned(model.weight, order) for order in ([1, 0], [0, 1])]
    try:
        for number in range(400):
            torch.spyre.set_spyre_tensor_layout(card.weight.detach(), layouts[number % 2])
    finally:
        turning.clear()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[0]


@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_a_weight_that_is_turned_while_we_compile_and_then_turned_back(kind, monkeypatch, tmp_path):
    """What was compiled in between is for another layout: neither launched nor kept, in memory or on disk."""
    from torch_spyre.inductor.launching import specialise
    from torch_spyre.ops import linear

    torch.manual_seed(0)
    weight, x = torch.randn(192, 71), torch.randn(5, 71)
    w, y = weight.to("spyre"), x.to("spyre")
    turns = []

    def turn(order):
        turns.append(order)
        torch.spyre.set_spyre_tensor_layout(w, turned(weight, order))

    class Builder(linear.ProgramBuilder):
        def __init__(self, call):
            super().__init__(call)
            if not turns:
                turn([1, 0])

        def plan(self):
            plan = super().plan()
            if len(turns) == 1:
                turn([0, 1])
            return plan

    def compile_graph(*arguments, compile_as_ever=specialise.compile_graph, **options):
        if turns:
            return compile_as_ever(*arguments, **options)
        turn([1, 0])
        plan = compile_as_ever(*arguments, **options)
        turn([0, 1])
        return plan

    def product(a, b):
        return F.linear(a, b)

    if kind == "eager":
        monkeypatch.setattr(linear, "ProgramBuilder", Builder)
    else:
        monkeypatch.setattr(specialise, "compile_graph", compile_graph)
        monkeypatch.setattr(specialise, "_kept", lambda: TextCache(tmp_path, "graph"))
        monkeypatch.setattr(specialise, "_caching", lambda: True)
        product = torch.compile(product, dynamic=False)
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(product(y, w).cpu(), F.linear(x, weight), rtol=1e-4, atol=1e-4)
        torch.compiler.reset()
        launch.clear()  # the second round finds on disk what the first has kept
    assert turns == [[1, 0], [0, 1]]
