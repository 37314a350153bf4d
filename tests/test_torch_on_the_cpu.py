"""With the package installed and unused, torch on the CPU is what it was: nothing here touches the card."""

import copy
import inspect
import io
import pickle

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# torch.jit and Dynamo warn of their own deprecations.
pytestmark = pytest.mark.filterwarnings("ignore")

_LAZY = {
    nn.LazyLinear: (4,),
    nn.LazyConv1d: (4, 2),
    nn.LazyConv2d: (4, 2),
    nn.LazyConv3d: (4, 2),
    nn.LazyConvTranspose1d: (4, 2),
    nn.LazyConvTranspose2d: (4, 2),
    nn.LazyConvTranspose3d: (4, 2),
    nn.LazyBatchNorm1d: (),
    nn.LazyBatchNorm2d: (),
    nn.LazyBatchNorm3d: (),
    nn.LazyInstanceNorm1d: (),
    nn.LazyInstanceNorm2d: (),
    nn.LazyInstanceNorm3d: (),
}


def _made(kind: type[nn.Module]) -> nn.Module:
    affine = {"affine": True} if "InstanceNorm" in kind.__name__ else {}
    return kind(*_LAZY[kind], **affine)


def test_every_lazy_module_is_here():
    assert {name for name in dir(nn) if name.startswith("Lazy")} == {kind.__name__ for kind in _LAZY}


@pytest.mark.parametrize("kind", _LAZY, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "convert",
    [
        lambda module: module.to(torch.float16),
        lambda module: module.to("cpu", torch.bfloat16),
        lambda module: module.half(),
        lambda module: module.double().float(),
        lambda module: module.cpu().to(torch.device("cpu"), non_blocking=True),
    ],
    ids=["to dtype", "to device and dtype", "half", "double, float", "cpu"],
)
def test_a_lazy_module_moves_and_materialises(kind, convert):
    module = convert(_made(kind))
    assert any(nn.parameter.is_lazy(parameter) for parameter in module.parameters())
    module.float()
    dims = int(kind.__name__[-2]) if kind.__name__.endswith("d") else 0
    x = torch.randn(2, 3, *(4,) * dims)
    module(x)
    assert not any(nn.parameter.is_lazy(parameter) for parameter in module.parameters())


def test_overrides_know_the_methods():
    overridable = torch.overrides.get_overridable_functions()
    for name in ("to", "share_memory_", "__dlpack__", "__dlpack_device__", "size"):
        method = getattr(torch.Tensor, name)
        assert torch.overrides.is_tensor_method_or_property(method), name
    assert torch.Tensor.to in overridable[torch.Tensor] and torch.empty in torch.overrides.get_ignored_functions()
    assert torch.overrides.resolve_name(torch.Tensor.to) == "torch.Tensor.to"
    assert torch.overrides.resolve_name(torch.ones(1).share_memory_.__func__) == "torch.Tensor.share_memory_"
    assert torch.Tensor.to is torch._C.TensorBase.to and torch.empty is torch._C._VariableFunctions.empty
    assert torch.Tensor.to in nn.parameter.UninitializedTensorMixin._allowed_methods


def test_what_help_shows_is_torchs_own():
    assert "to(*args, **kwargs) -> Tensor" in inspect.getdoc(torch.Tensor.to)
    assert "empty(*size" in inspect.getdoc(torch.empty)
    assert str(inspect.signature(nn.Module._apply)) == "(self, fn, recurse=True)"
    assert inspect.ismethoddescriptor(torch.Tensor.to) and inspect.isbuiltin(torch.empty)
    for replaced in (torch.Tensor.share_memory_, torch.Tensor.__dlpack__, nn.Module._apply):
        assert replaced.__module__.startswith("torch.") or replaced.__module__ == "torch._tensor"


class _Logged(torch.Tensor):
    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_subclass_sees_the_functions_themselves():
    x = torch.ones(3).as_subclass(_Logged)
    _Logged.calls.clear()
    y = x.to(torch.float64)
    assert _Logged.calls == [torch.Tensor.to] and type(y) is _Logged
    _Logged.calls.clear()
    x.to(dtype=torch.float64, copy=True, memory_format=torch.preserve_format)
    assert _Logged.calls == [torch.Tensor.to]


def test_a_mode_sees_the_functions_themselves():
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    seen: list = []
    with Mode():
        torch.empty(3)
        torch.empty((2, 3), dtype=torch.int32)
        torch.ones(2).to(torch.float16)
    assert seen == [torch.empty, torch.empty, torch.ones, torch.Tensor.to]


class _Wrapped(torch.Tensor):
    """Holds another tensor and unwraps at the dispatcher."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrap(value):
            return value.inner if isinstance(value, cls) else value

        result = func(*torch.utils._pytree.tree_map(unwrap, args), **torch.utils._pytree.tree_map(unwrap, kwargs or {}))
        return cls(result) if isinstance(result, torch.Tensor) else result


def test_a_dispatch_subclass_works():
    x = _Wrapped(torch.arange(4.0))
    assert type(x.to(torch.float16) + 1) is _Wrapped and (x.to(torch.float16) + 1).inner.dtype == torch.float16


def test_transforms_pass_through_to_and_empty():
    x = torch.randn(3, 4)
    scaled = torch.vmap(lambda row: row.to(torch.float64).sum() + torch.empty(2).zero_().sum())(x)
    torch.testing.assert_close(scaled, x.double().sum(1))
    slope = torch.func.grad(lambda row: row.to(torch.float64).square().sum())(x)
    torch.testing.assert_close(slope, 2 * x)
    assert torch.func.jacrev(lambda row: row.to(torch.float64) * 2)(x[0]).shape == (4, 4)
    model = nn.Linear(4, 2)
    twice = {name: parameter * 2 for name, parameter in model.state_dict().items()}
    torch.testing.assert_close(torch.func.functional_call(model, twice, (x,)), 2 * model(x))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_and_pickles(again):
    x = torch.randn(3, 4)
    assert torch.equal(again(x), x)
    model = again(nn.Sequential(nn.Linear(4, 2), nn.LazyLinear(3)))
    assert model(x).shape == (3, 3)
    assert again(torch.Tensor.to) is torch.Tensor.to and again(torch.empty) is torch.empty


@pytest.mark.parametrize("zipped", [True, False])
def test_files_keep_tensors(zipped):
    file = io.BytesIO()
    x = torch.randn(5)
    torch.save({"x": x, "view": x[1:]}, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    loaded = torch.load(file)
    assert torch.equal(loaded["x"], x) and loaded["view"].data_ptr() == loaded["x"][1:].data_ptr()


def _to_and_empty(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float64) + torch.empty(2, 3, dtype=torch.float64).zero_()


def test_torchscript_and_fx_take_the_functions():
    x = torch.randn(2, 3)
    for made in (
        torch.jit.script(_to_and_empty),
        torch.jit.trace(_to_and_empty, (x,)),
        torch.fx.symbolic_trace(_to_and_empty),
        torch.compile(_to_and_empty, backend="aot_eager", fullgraph=True),
    ):
        torch.testing.assert_close(made(x), x.double())


def test_export_and_compile_on_the_cpu():
    model, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).eval(), torch.randn(2, 3)
    exported = torch.export.export(model, (x,)).module()
    compiled = torch.compile(model, backend="aot_eager")
    torch.testing.assert_close(exported(x), model(x))
    torch.testing.assert_close(compiled(x), model(x))


def test_device_contexts_and_meta():
    with torch.device("meta"):
        assert torch.empty(2).is_meta and torch.ones(2).is_meta and nn.Linear(2, 2).weight.is_meta
    with torch.device("cpu"):
        assert torch.empty(2, 3, dtype=torch.int32).device.type == "cpu"
    torch.set_default_device("meta")
    try:
        assert torch.empty(2).is_meta
    finally:
        torch.set_default_device(None)
    model = nn.Linear(2, 2, device="meta").to_empty(device="cpu")
    assert model.weight.device.type == "cpu" and torch.ones(2, device="meta").to(torch.float16).is_meta


def test_module_functions_are_called_once_per_tensor():
    model, calls = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), []
    model._apply(lambda tensor: calls.append(tuple(tensor.shape)) or tensor)
    assert len(calls) == len(list(model.parameters())) + len(list(model.buffers()))
    assert all(parameter.is_shared() for parameter in model.share_memory().parameters())


def test_a_loader_with_a_spawned_worker():
    loader = DataLoader(TensorDataset(torch.arange(4.0)), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    assert [batch.tolist() for (batch,) in loader] == [[0.0, 1.0], [2.0, 3.0]]


def test_dlpack_and_numpy():
    x = torch.arange(3.0)
    assert torch.equal(torch.from_dlpack(x), x) and x.__dlpack_device__()[0] == 1
    assert torch.equal(torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)), x)
    assert x.numpy().tolist() == [0.0, 1.0, 2.0]
