"""Dynamo and our own Python: wrappers of torch do not break graphs, and nobody traces the compiler while it compiles."""

import pytest
import torch

from openspyre.spec.layout import SpyreTensorLayout
from torch_spyre import _torch
from torch_spyre.ops import eager

pytestmark = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()


@pytest.mark.parametrize("device", ["cpu", "spyre"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.Tensor.to(x, torch.float16) + 1,
        lambda x: torch.Tensor.to(x, dtype=torch.float16, device=x.device) + 1,
        lambda x: torch.vmap(lambda row: row.to(torch.float16).sum() + torch.Tensor.to(row, torch.float16)[0])(x),
        lambda x: (
            torch.empty(2, 3, device=x.device).zero_() + torch.empty((2, 3), dtype=x.dtype, device=x.device).zero_()
        ),
    ],
    ids=["method", "keywords", "vmap", "empty"],
)
def test_what_we_wrap_stays_in_the_graph(device, function):
    x = torch.arange(6.0).view(2, 3).to(device)
    compiled = torch.compile(function, fullgraph=True, backend="eager", dynamic=False)
    torch.testing.assert_close(compiled(x), function(x))


def test_a_call_that_compiles_while_dynamo_watches_is_not_traced():
    """As after a graph break: Dynamo skips a frame, and looks at all that are called from there."""
    traced = []

    def backend(module, inputs):
        traced.extend(node.stack_trace or "" for node in module.graph.nodes)
        return module

    @torch._dynamo.decorators.skip
    def skipped(x):
        return torch.atan(x.narrow(0, 0, 6)).sum() + torch.erf(x.narrow(0, 1, 7)).amax()

    def function(x):
        y = x + 1
        torch._dynamo.graph_break()
        return skipped(y) * y

    x = torch.arange(11.0, device="spyre")
    _torch.clear_eager_cache()
    before = eager.counts()["compilations"]
    result = torch.compile(function, backend=backend, dynamic=False)(x)
    assert eager.counts()["compilations"] - before >= 5
    assert traced and not [line for line in traced if "torch_spyre" in line]
    torch.testing.assert_close(result.cpu(), function(x.cpu()), rtol=1e-5, atol=1e-5)


def test_to_and_empty_are_torchs_own_and_take_a_layout():
    assert torch.Tensor.to is torch._C.TensorBase.to and torch.empty is torch._C._VariableFunctions.empty
    x = torch.randn(4, 70, dtype=torch.float16)
    layout = SpyreTensorLayout([4, 70], [70, 1], torch.float16, [1, 0])
    assert x.to("spyre", device_layout=layout).device_tensor_layout() == layout
    assert torch.equal(x.to("spyre", device_layout=None).cpu(), x.to("spyre").cpu())
    with pytest.raises(TypeError):
        torch.Tensor.to(3, "spyre")
    with pytest.raises(TypeError, match=r"unexpected keyword|invalid combination"):
        x.to("spyre", layout_of_device=layout)
    with pytest.raises(RuntimeError, match="nowhere"):
        x.to("nowhere")
    assert torch.empty(4, 70, device_layout=None).device.type == "cpu"
    with torch.device("spyre"):
        assert torch.empty(4, 70, dtype=torch.float16, device_layout=layout).device_tensor_layout() == layout


def test_a_subclass_and_a_mode_see_the_layout():
    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func, "device_layout" in (kwargs or {})))
            return super().__torch_function__(func, types, args, kwargs or {})

    seen: list = []
    layout = SpyreTensorLayout([4, 70], [70, 1], torch.float16, [1, 0])
    x = torch.ones(4, 70, dtype=torch.float16).as_subclass(Logged).to("spyre", device_layout=layout)
    assert seen == [(torch.Tensor.to, True)] and type(x) is Logged
    assert x.as_subclass(torch.Tensor).device_tensor_layout() == layout
