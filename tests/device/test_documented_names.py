"""Names that existing Spyre code imports: every one of the documents', and that it does what they say."""

import importlib

import pytest
import torch

from fuzz import samples
from openspyre.artifact import write_launch
from openspyre.spec.errors import InvalidArgument, InvalidLayout

NAMES = {
    "torch.spyre": """is_available device_count current_device set_device is_initialized synchronize manual_seed manual_seed_all
        Stream stream current_stream default_stream SpyreTensorLayout get_device_dtype get_downcast_warning set_downcast_warning
        memory get_device_properties _impl _lazy_init""",
    "torch.spyre.memory": "memory_allocated max_memory_allocated memory_reserved reset_peak_memory_stats",
    "torch_spyre._C": """SpyreTensorLayout DataFormats ElementArrangement get_elem_in_stick get_device_dtype
        get_spyre_tensor_layout set_spyre_tensor_layout get_downcast_warning set_downcast_warning prepare_kernel JobPlan
        spyre_empty_with_layout empty_with_layout as_strided_with_layout reinterpret_tensor reinterpret_tensor_with_layout
        copy_tensor device_count current_device set_device launch_kernel launch_jobplan encode_constant get_rng_state
        set_rng_state manual_seed manual_seed_all initial_seed current_stream set_current_stream default_stream
        get_stream_from_pool synchronize to_with_layout start_runtime free_runtime _get_default_generator
        host_compute_stream host_compute_stream_by_id""",
    "torch_spyre._inductor": "spyre_hint config propagate_named_dims",
    "torch_spyre._inductor.config": """patch sencores lx_planning allow_all_ops_in_lx_planning dxp_lx_frac_avail layout_solver
        ignore_work_division_hints bundle_symbolic_args co_optimizing_lx_planning lx_boundary_clones hbm_planning
        chunk_large_tensors global_stick_optimizer max_buckets min_default_granularity core_id_k_fast_emission unroll_loops""",
    "torch_spyre._inductor.propagate_named_dims": "declare_tensor_dim name_tensor_dims",
    "torch_spyre.ops.fallbacks": "FallbackWarning",
    "torch_spyre._inductor.wsr.propagate_named_dims": "declare_tensor_dim name_tensor_dims",
    "torch_spyre.model_utils": "load_model_to_spyre patch_module_to_for_spyre",
    "torch_spyre.streams": "Stream stream current_stream default_stream synchronize",
    "torch_spyre.constants": "DEVICE_NAME DISTRIBUTED_BACKEND_NAME",
    "torch_spyre.device.interface": "SpyreInterface",
}
OPERATORS = """softplus layer_norm exx2 layernormscale layernormnorm rms_norm topkvalue topkindex gelu silu clamp empty logical_not
    copy_from_d2d overwrite overwrite_f restickify max_dim_int64_fallback min_dim_int64_fallback unfold reshape_via_cpu
    batched_matmul constant to_dtype_cpu qfp8ch quantize_fp8_with_scale dequantize_fp8_with_scale
    quantize_weight_fp8_with_scale qfp8wt scaled_mm"""


def _found(module, name):
    if module.startswith("torch.spyre"):
        place = torch.spyre.memory if module.endswith("memory") else torch.spyre
    else:
        place = importlib.import_module(module)
    if not hasattr(place, name):
        importlib.import_module(f"{module}.{name}")
    return getattr(place, name)


@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in NAMES.items() for n in names.split()])
def test_a_documented_name_is_there(module, name):
    assert _found(module, name) is not None


# --- torch.ops.spyre -------------------------------------------------------------------------------------------------


def _values(*size):
    """All different, and exact on the card."""
    count = size[0] * size[1]
    return ((torch.randperm(count, generator=torch.Generator().manual_seed(3)) - count // 2) / 512).half().view(size)


def _layer_norm_by_steps(x):
    statistics = torch.ops.spyre.exx2(x, 1 / x.shape[-1], False)
    return torch.ops.spyre.layernormnorm(x, statistics, torch.ops.spyre.layernormscale(statistics, 1e-5))


def _overwritten(x):
    target = torch.zeros_like(x)
    torch.ops.spyre.overwrite(x[1:3], target, [0], [2])
    copied = torch.empty_like(x)
    torch.ops.spyre.copy_from_d2d(x, copied)
    return target + torch.ops.spyre.overwrite_f(x[:, 2:4], copied, [1], [5])


_S = torch.ops.spyre
CALLS = {  # operators: the call, and the same in aten's words
    "softplus": (lambda x: _S.softplus(x, 2.0, 1.0), lambda x: torch.nn.functional.softplus(x, 2.0, 1.0)),
    "gelu": (lambda x: _S.gelu(x, "tanh"), lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    "silu": (_S.silu, torch.nn.functional.silu),
    "clamp": (lambda x: _S.clamp(x, -0.25, 0.125), lambda x: x.clamp(-0.25, 0.125)),
    "logical_not": (_S.logical_not, torch.logical_not),
    "layer_norm": (lambda x: _S.layer_norm(x, [70]), lambda x: torch.nn.functional.layer_norm(x, (70,))),
    "rms_norm": (lambda x: _S.rms_norm(x, [70]), lambda x: torch.nn.functional.rms_norm(x, (70,))),
    "exx2 layernormscale layernormnorm": (_layer_norm_by_steps, lambda x: torch.nn.functional.layer_norm(x, (70,))),
    "topkvalue": (lambda x: _S.topkvalue(x, 3), lambda x: x.topk(3)[0]),
    "topkindex": (lambda x: _S.topkindex(x, 3, 0, False), lambda x: x.topk(3, 0, largest=False)[1]),
    "max_dim_int64_fallback": (
        lambda x: _S.max_dim_int64_fallback((x * 9).long(), 1)[0],
        lambda x: (x * 9).long().max(1)[0],
    ),
    "min_dim_int64_fallback": (
        lambda x: _S.min_dim_int64_fallback((x * 9).long(), 1, True)[0],
        lambda x: (x * 9).long().min(1, True)[0],
    ),
    "restickify": (lambda x: _S.restickify(x.t()), lambda x: x.t().contiguous()),
    "batched_matmul": (lambda x: _S.batched_matmul(x, x.t()), lambda x: x @ x.t()),
    "reshape_via_cpu": (lambda x: _S.reshape_via_cpu(x, [2, 210]), lambda x: x.reshape(2, 210)),
    "to_dtype_cpu": (lambda x: _S.to_dtype_cpu(x, torch.float32), lambda x: x.float()),
    "constant": (lambda x: _S.constant(2.5, torch.float16, x.device) + x, lambda x: x + 2.5),
    "empty": (lambda x: _S.empty([6, 70], torch.float16, x.device).copy_(x), lambda x: x),
    "overwrite overwrite_f copy_from_d2d": (
        _overwritten,
        lambda x: (
            torch.slice_scatter(torch.zeros_like(x), x[1:3], 0, 2, 4) + torch.slice_scatter(x, x[:, 2:4], 1, 5, 7)
        ),
    ),
    "qfp8ch": (lambda x: _S.qfp8ch(x).float(), lambda x: x.to(torch.float8_e4m3fn).float()),
    "quantize_fp8_with_scale dequantize_fp8_with_scale": (
        lambda x: _S.dequantize_fp8_with_scale(_S.quantize_fp8_with_scale(x, x[:1] * 0 + 0.5), x[:1] * 0 + 0.5),
        lambda x: (x / 0.5).to(torch.float8_e4m3fn).half() * 0.5,
    ),
    "qfp8wt scaled_mm": (
        lambda x: _S.scaled_mm(_S.qfp8wt(x), _S.qfp8wt(x).t(), out_dtype=torch.float32),
        lambda x: x.to(torch.float8_e4m3fn).float() @ x.to(torch.float8_e4m3fn).float().t(),
    ),
    "quantize_weight_fp8_with_scale": (
        lambda x: _S.quantize_weight_fp8_with_scale(x, x[:1] * 0 + 0.25).float(),
        lambda x: (x / 0.25).to(torch.float8_e4m3fn).float(),
    ),
    "unfold": (
        lambda x: _S.unfold(x.reshape(1, 6, 7, 10), [3, 3]),
        lambda x: torch.nn.functional.unfold(x.reshape(1, 6, 7, 10), 3),
    ),
}
_OVER_THE_HOST = {"unfold"}
_NOT_IN_GRAPHS = {  # parts no bundle has yet; calls of which a graph reads one result of two
    "unfold", "qfp8ch", "quantize_fp8_with_scale dequantize_fp8_with_scale", "qfp8wt scaled_mm",
    "quantize_weight_fp8_with_scale",
    "topkvalue", "max_dim_int64_fallback", "min_dim_int64_fallback",
}  # fmt: skip


def test_every_operator_of_the_documents_is_called():
    assert sorted(OPERATORS.split()) == sorted(name for names in CALLS for name in names.split())


@pytest.mark.parametrize("names", CALLS)
def test_an_operator_means_what_its_name_says(names):
    torch.spyre.set_fallback_mode("silent" if names in _OVER_THE_HOST else "error")
    call, meaning = CALLS[names]
    host = _values(6, 70)
    found, expected = call(host.to("spyre")).cpu(), meaning(host)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    torch.testing.assert_close(found, expected, rtol=2**-8, atol=2**-9)


_GRAPH = pytest.mark.filterwarnings("ignore")  # Dynamo and Inductor warn of their own deprecations while they load


@_GRAPH
@pytest.mark.parametrize("names", [names for names in CALLS if names not in _NOT_IN_GRAPHS])
def test_an_operator_can_be_traced(names):
    """Without a graph break; the parts stand in the graph."""
    call, _ = CALLS[names]
    card = _values(6, 70).to("spyre")
    torch.compiler.reset()
    compiled = torch.compile(call, fullgraph=True, dynamic=False)
    torch.testing.assert_close(compiled(card).cpu(), call(card).cpu(), rtol=2**-8, atol=2**-9)


def test_gradients_are_those_of_the_parts():
    x = _values(6, 70).to("spyre").requires_grad_()
    y = x.detach().clone().requires_grad_()
    torch.ops.spyre.silu(x).sum().backward()
    torch.nn.functional.silu(y).sum().backward()
    assert torch.equal(x.grad.cpu(), y.grad.cpu())


# --- _inductor and _C ------------------------------------------------------------------------------------------------


def _cores(size):
    """Over how many cores a new program of this size is divided."""
    from torch_spyre.ops import programs

    seen = []
    keep = programs.emit_bundle
    programs.emit_bundle = lambda program, **options: seen.append(program) or keep(program, **options)
    try:
        torch.neg(torch.ones(size, device="spyre"))
    finally:
        programs.emit_bundle = keep
    split = 1
    for dim in seen[-1].ops[-1].dims:
        split *= dim.split
    return split


def test_config_patch_changes_the_planning_for_a_while():
    from torch_spyre._inductor import config

    assert config.sencores == 32
    with config.patch(sencores=4):
        assert config.sencores == 4
        assert _cores((32, 2048)) == 4
    assert _cores((64, 2048)) == 32

    @config.patch({"sencores": 2, "lx_planning": False})
    def planned():
        assert config.lx_planning is False
        return _cores((96, 2048))

    assert planned() == 2
    assert config.sencores == 32
    with config.patch(sencores=33), pytest.raises(InvalidArgument, match="1 to 32"):
        torch.neg(torch.ones(3, 6404, device="spyre"))


def test_options_without_effect_say_so():
    from torch_spyre._inductor import OPTIONS_WITHOUT_EFFECT, config

    scratchpads = {"lx_planning", "dxp_lx_frac_avail", "layout_solver", "lx_planner_relayout"}
    effective = {
        "sencores",
        "planner",
        "core_id_k_fast_emission",
        "hbm_pool_planning",
        "hbm_planning",
        "ignore_hints",
        "enable_reduction_tiling",
        "ignore_span_overflow_hints",
        "clock_tiling",
        "max_buckets",
        "min_default_granularity",
        "global_stick_optimizer",
        "disable_copy_opt",
        "ignore_work_division_hints",
        "allow_all_ops_in_lx_planning",
        "co_optimizing_lx_planning",
        *scratchpads,
    }
    assert OPTIONS_WITHOUT_EFFECT | effective == set(config.get_config_copy())
    assert not OPTIONS_WITHOUT_EFFECT & effective


def test_the_planner_and_the_order_of_cores_can_be_chosen():
    from torch_spyre._inductor import config
    from torch_spyre.ops import programs

    def slices():
        """Of k, by core; the product has 128 rows, and is divided m 8, n 2, k 2."""
        found = []
        emit = programs.emit_bundle
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                programs, "emit_bundle", lambda *given, **more: found.append(emit(*given, **more)) or found[-1]
            )
            torch.ones(128, 128, device="spyre", dtype=torch.float16) @ torch.ones(128, 127, device="spyre").half()
        (op,) = (op for emitted in found for op in emitted.bundle.ops.values() if op.op == "batchmatmul")
        assert [axis.split for axis in op.axes] == [8, 2, 2]
        return [chosen[2] for chosen in op.slices]

    assert slices() == [0, 1] * 16
    with config.patch(core_id_k_fast_emission=False):
        assert slices() == [0] * 16 + [1] * 16
    with config.patch(planner="guessed"), pytest.raises(InvalidArgument, match="one of timed, documented"):
        torch.neg(torch.ones(3, 6404, device="spyre"))


def test_hints_are_checked_and_kept():
    from torch_spyre._inductor import spyre_hint
    from torch_spyre._inductor.hints import active_hints

    with spyre_hint(work_div={"M": 2}), spyre_hint(num_tiles_per_dim={"N": 4}):
        assert active_hints() == [{"work_div": {"M": 2}}, {"num_tiles_per_dim": {"N": 4}}]
    assert active_hints() == []
    for wrong in ({"work_div": {"M": 0}}, {"work_div": {"M": True}}, {"worc_div": {"M": 2}}, {}, {"named_dims": "MN"}):
        with pytest.raises(InvalidArgument), spyre_hint(**wrong):
            pass
    with pytest.raises(NotImplementedError, match="one dim per scope"), spyre_hint(num_tiles_per_dim={"M": 2, "N": 2}):
        pass
    for old in ("tiles", "slices"):
        with (
            pytest.warns(FutureWarning, match=f"{old} is the old name of num_tiles_per_dim"),
            spyre_hint(**{old: {"M": 2}}),
        ):
            assert active_hints() == [{old: {"M": 2}}]


@_GRAPH
def test_a_hint_does_not_break_a_graph():
    from torch_spyre._inductor import spyre_hint

    @torch.compile(fullgraph=True)
    def doubled(x):
        with spyre_hint(expected_named_dims=[]):
            return x * 2

    assert torch.equal(doubled(torch.ones(4, 70, device="spyre")).cpu(), torch.full((4, 70), 2.0))


def test_dims_have_names():
    from torch_spyre._inductor import propagate_named_dims as named

    x = torch.ones(3, 70, device="spyre")
    named.declare_tensor_dim("M", 3)
    named.declare_tensor_dim("N", 70)
    named.name_tensor_dims(x, ["M", "N"])
    assert named.tensor_dim_names(x) == ("M", "N")
    with pytest.raises(KeyError, match="is not declared"):
        named.name_tensor_dims(x, ["M", "Q"])
    with pytest.raises(InvalidArgument, match=r"size \(3, 70\) has no dims \[N=70, M=3\]"):
        named.name_tensor_dims(x, ["N", "M"])
    flat = torch.ones(210, device="spyre")
    named.name_tensor_dims(flat, ["M", "N"])
    assert named.tensor_dim_names(flat) == ("M", "N")
    with pytest.raises(InvalidArgument, match="has no dims"):
        named.name_tensor_dims(x.t(), ["M", "N"])


def test_a_bundle_is_prepared_as_a_job_plan(tmp_path):
    from torch_spyre import _C

    write_launch(samples.pointwise(), tmp_path / "bundle")
    plan = _C.prepare_kernel(tmp_path / "bundle")
    assert isinstance(plan, _C.JobPlan)
    assert [type(step).__name__ for step in plan.execution] == ["ComputeOnHost", "DataTransfer", "ComputeOnDevice"]


def test_views_with_a_layout_share_their_buffer():
    from torch_spyre import _C

    x = torch.arange(128.0).reshape(2, 64).to("spyre")
    layout = _C.get_spyre_tensor_layout(x)
    view = _C.as_strided_with_layout(x, [64], [1], 64, layout)
    assert torch.equal(view.cpu(), torch.arange(64.0, 128.0))
    assert torch.equal(_C.reinterpret_tensor(view, [32], [2], 0).cpu(), torch.arange(64.0, 128.0, 2))
    assert torch.equal(_C.reinterpret_tensor_with_layout(x[1], [2], [1], 1, layout).cpu(), torch.tensor([65.0, 66.0]))
    other = type(layout)([2, 64], [64, 1], torch.float32, [1, 0])
    with pytest.raises(InvalidLayout, match="shares its buffer"):
        _C.as_strided_with_layout(x, [64], [1], 64, other)
