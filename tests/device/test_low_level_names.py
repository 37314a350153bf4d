"""torch_spyre._C and its neighbours: what existing Spyre code calls does what its name says."""

import struct

import pytest
import torch

from fuzz import samples
from openspyre.artifact import write_launch
from openspyre.spec.errors import InvalidArgument, InvalidDevice, InvalidLayout
from torch_spyre import _C, constants, model_utils
from torch_spyre._inductor import propagate_named_dims
from torch_spyre.device import weights

F = torch.nn.functional


# --- devices, streams, random numbers --------------------------------------------------------------------------------


def test_the_device_of_torch_spyre_is_the_one_of_the_low_level_names():
    _C.start_runtime()
    torch.spyre._impl._lazy_init()
    assert torch.spyre.is_initialized()
    assert (_C.device_count(), _C.current_device()) == (torch.spyre.device_count(), torch.spyre.current_device())
    _C.set_device(0)
    with pytest.raises(InvalidDevice, match="spyre:1"):
        _C.set_device(1)
    assert constants.DISTRIBUTED_BACKEND_NAME == "spyreccl"


def test_free_runtime_waits_and_gives_memory_back():
    x = torch.ones(1 << 20, device="spyre")
    y = x + 1
    del x
    _C.free_runtime()
    assert torch.spyre.current_stream().query()
    assert torch.spyre.memory_reserved() - torch.spyre.memory_allocated() < 4 << 20
    assert y[-1].item() == 2


def test_streams_of_the_low_level_names():
    low, high = _C.get_stream_from_pool("spyre", 0), _C.get_stream_from_pool(0, priority=1)
    assert 1 <= low.id <= 32 < high.id <= 64 and low.id == low.stream_id
    assert _C.default_stream().id == 0
    _C.set_current_stream(low)
    try:
        assert _C.current_stream().id == torch.spyre.current_stream().id == low.id
        made = torch.ones(100, device="spyre") * 2
        _C.synchronize("spyre:0")
        assert low.query() and made.sum().item() == 200
    finally:
        _C.set_current_stream(_C.default_stream())
    assert _C.current_stream() == _C.default_stream()


def test_host_compute_streams_take_turns():
    four = [_C.host_compute_stream() for _ in range(8)]
    assert four[:4] == four[4:] and len({stream.id for stream in four}) == 4
    assert {stream.id for stream in four} == {_C.host_compute_stream_by_id(65 + n).id for n in range(4)}
    with torch.spyre.stream(_C.host_compute_stream_by_id(65)) as stream:
        result = torch.ones(64, device="spyre") + 1
        assert torch.spyre.current_stream() == stream
    stream.synchronize()
    assert result.sum().item() == 128
    with pytest.raises(InvalidDevice, match="65 to 68"):
        _C.host_compute_stream_by_id(69)


def test_random_numbers_of_the_low_level_names():
    _C.manual_seed(7)
    state, seed = _C.get_rng_state("spyre:0"), _C.initial_seed()
    assert seed == torch.spyre.initial_seed("spyre") == _C._get_default_generator(0).initial_seed() == 7
    first = torch.rand(8, device="spyre").cpu()
    _C.set_rng_state(state)
    assert torch.equal(torch.rand(8, device="spyre").cpu(), first)
    _C.manual_seed_all(7)
    assert torch.equal(torch.rand(8, device="spyre").cpu(), first)
    with pytest.raises(InvalidDevice):
        torch.spyre.initial_seed(3)


# --- formats and layouts ---------------------------------------------------------------------------------------------


def test_constants_are_encoded_as_their_format_says():
    assert _C.encode_constant(1.0, _C.DataFormats.SEN169_FP16) == 0x3E00
    assert _C.encode_constant(float("-inf"), _C.DataFormats.SEN169_FP16) == 0xFFFF
    assert (
        _C.encode_constant(0.1, _C.DataFormats.SEN169_FP16) == _C.encode_constant(0.1, _C.DataFormats.SENINT8) == 0x3733
    )
    assert _C.encode_constant(0.1, _C.DataFormats.IEEE_FP32) == struct.unpack("<I", struct.pack("<f", 0.1))[0]
    assert _C.DataFormats.SEN169_FP16.elems_per_stick() == 64 and _C.DataFormats.INVALID.elems_per_stick() == 0


TURNED = torch.spyre.SpyreTensorLayout([6, 70], [70, 1], torch.float16, [1, 0])


def test_a_layout_implies_the_card():
    host = torch.arange(420.0).reshape(6, 70)
    half = host.half()
    for moved in (
        half.to(device_layout=TURNED),
        host.to(torch.float16, device_layout=TURNED),
        host.to(dtype=torch.float16, device_layout=TURNED),
        half.to("spyre").to(device_layout=TURNED),
        _C.to_with_layout(half, TURNED),
    ):
        assert moved.is_spyre and moved.device_tensor_layout() == TURNED and torch.equal(moved.cpu(), half)
    for elsewhere in (("cpu",), (torch.device("cpu"), torch.float16), (half,)):
        with pytest.raises(InvalidLayout, match="to be on cpu"):
            half.to(*elsewhere, device_layout=TURNED)


def test_a_new_tensor_in_a_layout_is_like_the_old_one_otherwise():
    half = torch.arange(420.0).reshape(6, 70).half()
    card = half.to("spyre")
    for made in (
        card.new_empty((6, 70), device_layout=TURNED),
        card.new_empty(6, 70, device_layout=TURNED),
        half.new_empty([6, 70], device_layout=TURNED),
        card.float().new_empty(6, 70, dtype=torch.float16, device="spyre:0", device_layout=TURNED),
    ):
        assert (made.dtype, made.device) == (torch.float16, torch.device("spyre:0"))
        assert made.device_tensor_layout() == TURNED and torch.equal(made.copy_(half).cpu(), card.cpu())
    assert card.new_empty(3, requires_grad=True, device_layout=None).requires_grad
    with pytest.raises(InvalidLayout, match="to be on cpu"):
        card.new_empty(6, 70, device="cpu", device_layout=TURNED)


def test_the_memory_format_is_kept_beside_a_layout():
    size = [2, 3, 4, 5]
    strides = [60, 1, 15, 3]
    layout = torch.spyre.SpyreTensorLayout(size, strides, torch.float16, [0, 2, 3, 1])
    x = torch.empty(size, dtype=torch.float16, device="spyre", device_layout=layout, memory_format=torch.channels_last)
    assert list(x.stride()) == strides and x.device_tensor_layout() == layout
    host = torch.randn(size).half()
    assert torch.equal(x.copy_(host).cpu(), host.to("spyre").cpu())
    moved = host.to("spyre", device_layout=layout, memory_format=torch.channels_last)
    assert list(moved.stride()) == strides and torch.equal(moved.cpu(), host.to("spyre").cpu())


# --- kernels ---------------------------------------------------------------------------------------------------------


def _arguments(bundle):
    """Tensors of the card as a bundle's launch spec wants them; those that are read, with small whole numbers."""
    made = {}
    for number, buffer in enumerate(a for a in bundle.arguments if a.role in ("input", "output", "update")):
        dtype = getattr(torch, buffer.dtype)
        tensor = _C.spyre_empty_with_layout(list(buffer.size), list(buffer.stride), dtype, buffer.layout)
        if buffer.role != "output":
            values = torch.randint(-4, 4, buffer.size, generator=torch.Generator().manual_seed(number))
            tensor.copy_(values.to(dtype))
        made[buffer.name] = tensor
    return made


@pytest.mark.parametrize("launch", [_C.launch_kernel, _C.launch_jobplan], ids=["kernel", "jobplan"])
def test_a_prepared_kernel_runs_on_tensors(tmp_path, launch):
    bundle = samples.matmul()
    write_launch(bundle, tmp_path / "bundle")
    plan = _C.prepare_kernel(tmp_path / "bundle")
    tensors = _arguments(bundle)
    a, b, out = tensors.values()
    with torch.spyre.stream(torch.spyre.Stream()):  # written and launched elsewhere than on stream 0
        a.mul_(2)
        launch(plan, [a, b, out])
        assert torch.equal(out.cpu(), (a.cpu().float() @ b.cpu().float()).to(out.dtype))
        launch(plan, [a, b, out])
        if launch is _C.launch_kernel:
            out.zero_()
            launch(tmp_path / "bundle", [a, b, out])
    assert torch.equal(out.cpu(), (a.cpu().float() @ b.cpu().float()).to(out.dtype))


def test_a_kernel_takes_its_scalars_and_refuses_what_it_was_not_compiled_for(tmp_path):
    bundle = samples.pointwise()
    write_launch(bundle, tmp_path / "bundle")
    plan = _C.prepare_kernel(tmp_path / "bundle")
    tensors = _arguments(bundle)
    x, s, out = tensors.values()
    _C.launch_jobplan(plan, [x, s, out], {"slope": 0.5})
    left = out.cpu()
    _C.launch_jobplan(plan, [x, s, out], {"slope": 0.0})
    assert torch.equal(left, (x.cpu() + 2 * s.cpu()) / 2) and not out.cpu().any()
    with pytest.raises(InvalidArgument, match="slope"):
        _C.launch_jobplan(plan, [x, s, out])
    with pytest.raises(InvalidArgument, match="takes 3 tensors"):
        _C.launch_jobplan(plan, [x, s])
    with pytest.raises(InvalidArgument, match=r"tensor 'x': it has device cpu, not spyre"):
        _C.launch_jobplan(plan, [x.cpu(), s, out], {"slope": 0.5})
    with pytest.raises(InvalidArgument, match=r"tensor 'x': it has size"):
        _C.launch_jobplan(plan, [x[:2], s, out], {"slope": 0.5})


# --- models ----------------------------------------------------------------------------------------------------------


class Tied(torch.nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(40, 100), torch.nn.Linear(100, 40, bias=False)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, tokens):
        return self.head(self.table(tokens))


def _vocabulary_outermost(weight):
    layout = weight.device_tensor_layout()
    return layout.device_size[0] == 40 and layout.stride_map[0] == 100


@pytest.mark.parametrize("dtype", [None, torch.float16])
def test_a_model_is_loaded_with_its_tables_by_rows(dtype):
    torch.manual_seed(3)
    model, host = Tied(False), Tied(False)
    host.load_state_dict(model.state_dict())
    moved = model_utils.load_model_to_spyre(model, dtype) if dtype else model_utils.load_model_to_spyre(model)
    assert moved is model and model.table.weight.dtype == (dtype or torch.float32)
    assert _vocabulary_outermost(model.table.weight) and model.head.weight.device_tensor_layout().stride_map[-1] == 100
    tokens = torch.randint(40, (3, 9))
    close = {"rtol": 2**-7, "atol": 2**-7} if dtype else {"rtol": 1e-5, "atol": 1e-5}
    result = model(tokens.to("spyre"))
    torch.testing.assert_close(result.cpu().float(), host(tokens), **close)
    result.sum().backward()
    host(tokens).sum().backward()
    torch.testing.assert_close(model.table.weight.grad.cpu().float(), host.table.weight.grad, **close)


def test_a_tied_table_keeps_the_layout_of_its_head():
    model = model_utils.load_model_to_spyre(Tied(True))
    assert model.table.weight is model.head.weight and not _vocabulary_outermost(model.table.weight)


def test_module_to_lays_tables_once_it_is_told_to(monkeypatch):
    monkeypatch.setattr(weights, "embeddings_too", False)
    assert not _vocabulary_outermost(Tied(False).to("spyre").table.weight)
    model_utils.patch_module_to_for_spyre()
    assert _vocabulary_outermost(Tied(False).to("spyre").table.weight)


def test_a_model_of_complex_numbers_is_refused_as_it_is():
    model = torch.nn.Linear(3, 3)
    model.register_buffer("phase", torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match=r"phase \(torch.complex64\)"):
        model_utils.load_model_to_spyre(model)
    assert model.weight.device.type == "cpu"
    with pytest.raises(ValueError, match=r"dtype=torch\.complex64"):
        model_utils.load_model_to_spyre(torch.nn.Linear(3, 3), torch.complex64)


def test_names_of_dims_are_the_same_in_both_places():
    from torch_spyre._inductor.wsr import propagate_named_dims as later

    assert later.name_tensor_dims is propagate_named_dims.name_tensor_dims
    later.declare_tensor_dim("rows", 6)
    later.declare_tensor_dim("columns", 70)
    x = torch.ones(6, 70, device="spyre")
    later.name_tensor_dims(x, ["rows", "columns"])
    assert propagate_named_dims.tensor_dim_names(x) == ("rows", "columns")


# --- torch._scaled_mm ------------------------------------------------------------------------------------------------


def _operands(m, k, n):
    generator = torch.Generator().manual_seed(m + k + n)
    a, b = ((torch.randn(*size, generator=generator)).to(torch.float8_e4m3fn) for size in ((m, k), (n, k)))
    return a, b.t()


@pytest.mark.parametrize("scales", ["one number", "rows"])
@pytest.mark.parametrize("scale_dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("out_dtype", [torch.float16, torch.float32, torch.bfloat16])
def test_a_scaled_product_of_8_bit_floats(scales, scale_dtype, out_dtype):
    """Exact products, summed in float32, scaled in float32, rounded once."""
    torch.spyre.set_fallback_mode("error")
    a, b = _operands(17, 300, 70)
    shapes = ((), ()) if scales == "one number" else ((17, 1), (1, 70))
    generator = torch.Generator().manual_seed(5)
    scale_a, scale_b = ((torch.rand(shape, generator=generator) * 4 + 0.5).to(scale_dtype) for shape in shapes)
    scale_a, scale_b = (scale.to("spyre").cpu() for scale in (scale_a, scale_b))  # as the card holds them
    bias = torch.randn(70, generator=generator).half().to("spyre").cpu()
    found = torch._scaled_mm(
        *(t.to("spyre") for t in (a, b, scale_a, scale_b)), bias=bias.to("spyre"), out_dtype=out_dtype
    )
    assert found.dtype == out_dtype and found.shape == (17, 70)
    exact = (a.double() @ b.double()) * scale_a.double() * scale_b.double() + bias.double()
    terms = (a.double().abs() @ b.double().abs()) * scale_a.double() * scale_b.double() + bias.double().abs()
    rounding = {torch.float16: 2**-10, torch.bfloat16: 2**-8, torch.float32: 0.0}[out_dtype]  # to the host's type
    error = (found.cpu().double() - exact).abs()
    assert (error <= 304 * 2**-24 * terms + (rounding + 2**-10 * (out_dtype != torch.float32)) * exact.abs()).all()


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_scaled_product_has_the_bits_of_eager():
    a, b = (tensor.to("spyre") for tensor in _operands(8, 128, 64))
    scale = torch.tensor(0.5).to("spyre")
    call = lambda a, b: torch._scaled_mm(a, b, scale, scale, out_dtype=torch.float16)  # noqa: E731
    assert torch.equal(torch.compile(call)(a, b).cpu(), call(a, b).cpu())


def test_a_scaled_product_without_a_type_is_8_bits_and_nonsense_is_refused():
    a, b = (tensor.to("spyre") for tensor in _operands(8, 64, 32))
    one = torch.tensor(2.0**-4).to("spyre")
    assert torch._scaled_mm(a, b, one, one).dtype == torch.float8_e4m3fn
    for wrong, says in (
        (lambda: torch._scaled_mm(a, a, one, one), r"\[8, 64\] and \[8, 64\]"),
        (lambda: torch._scaled_mm(a.half(), b, one, one), "not torch.float16"),
        (lambda: torch._scaled_mm(a, b, torch.ones(8, device="spyre"), one), r"\[8, 1\] is wanted"),
        (lambda: torch._scaled_mm(a, b, one, one, bias=torch.ones(8, device="spyre")), r"\[32\] is wanted"),
    ):
        with pytest.raises(RuntimeError, match=says):
            wrong()
