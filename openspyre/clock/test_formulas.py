"""Formulas on paper: round constants, sizes that divide, and the arithmetic written out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openspyre.clock.kernels import (
    Chain,
    Division,
    Form,
    Layout,
    Matmul,
    Move,
    Pointwise,
    Reduction,
    RoundTrip,
    Runs,
    Softmax,
)
from openspyre.clock.predict import parts_of, predict
from openspyre.clock.prediction import KernelClass, Part, Resource, overlapped
from openspyre.clock.transfers import from_card_us, launch, to_card_us
from openspyre.spec.machine import SPYRE, Machine
from openspyre.spec.rates import CopyRates, MatmulRates, PointwiseRates, Rates, ReductionRates, ResidentRates

MB = 1_000_000


def plain(**groups: object) -> Machine:
    return replace(SPYRE, rates=replace(Rates(), **groups))  # type: ignore[arg-type]


def us(
    kernel: Pointwise | Reduction | Softmax | Chain | Layout | Matmul, machine: Machine, resource: Resource
) -> list[float]:
    return [part.us for part in parts_of(kernel, machine).overlapped if part.resource is resource]


def test_a_unary_kernel_moves_its_bytes_and_turns_the_bus_round() -> None:
    rates = PointwiseRates(turnaround_us_per_mb=5.77, long_stride=0, size=0, fixed_us=0)
    kernel = Pointwise(Form.UNARY, 15 * MB, 15 * MB, 32)
    # 30 MB at 150 GB/s are 200 us, and 5.77 us for each of 15 MB.
    assert us(kernel, plain(pointwise=rates), Resource.MEMORY) == pytest.approx([200 + 5.77 * 15])


def test_runs_as_short_as_the_constant_cost_a_copy_twice() -> None:
    rates = CopyRates(
        short_run_bytes=256, short_run_power=1, turnaround_us_per_mb=0, size=0, long_stride=0, page_conflict=0
    )
    long, short = (Pointwise(Form.COPY, 15 * MB, 15 * MB, 32, runs) for runs in (Runs(), Runs(256, 8192)))
    assert us(long, plain(copy=rates), Resource.MEMORY) == pytest.approx([200])
    assert us(short, plain(copy=rates), Resource.MEMORY) == pytest.approx([400])


def test_one_core_has_a_ceiling() -> None:
    kernel = Pointwise(Form.UNARY, 34 * MB, 34 * MB, 1)
    machine = plain(pointwise=PointwiseRates(one_core_gb_per_s=68))
    assert us(kernel, machine, Resource.VECTOR) == pytest.approx([1000])
    assert predict(kernel, machine).bound is Resource.VECTOR


def test_a_row_reduction_slows_down_with_the_distance_of_its_sticks() -> None:
    rates = ReductionRates(gb_per_s=150, long_stride=0.1, turnaround_us_per_mb=0)
    near, far = (Reduction(30 * MB, 0, 2048, 1, 32, stride=stride) for stride in (1 << 18, 1 << 20))
    assert us(near, plain(reduction=rates), Resource.MEMORY) == pytest.approx([200])
    assert us(far, plain(reduction=rates), Resource.MEMORY) == pytest.approx([200 * 1.2])  # two doublings


def test_a_softmax_that_fits_goes_through_memory_once_and_else_eight_times() -> None:
    rates = ResidentRates(gb_per_s=128, large_tiles=0, spilled_gb_per_s=128)
    fits, spills = Softmax(2048, 512, 32), Softmax(32768, 4096, 32)
    assert us(fits, plain(resident=rates), Resource.MEMORY) == pytest.approx([2 * 2 * 2048 * 512 / 128e3])
    assert us(spills, plain(resident=rates), Resource.MEMORY) == pytest.approx([8 * 2 * 32768 * 4096 / 128e3])


def test_a_restickify_has_one_rate_and_a_fixed_time() -> None:
    # 1024 x 4096 in fp16, read and written: 16.8 MB at 116.5 GB/s and 1.5 us. Measured: 145.3.
    machine = replace(
        SPYRE, rates=replace(Rates(), layout=replace(Rates().layout, restickify_gb_per_s=116.5, fixed_us=1.5))
    )
    kernel = Layout(Move.RESTICKIFY, 1024, 4096, 2 * 2 * 1024 * 4096)
    assert predict(kernel, machine).time_us == pytest.approx(16.777216 / 116.5e-3 + 1.5)
    assert predict(kernel, machine).time_us == pytest.approx(145.3, rel=0.01)


STUDY = MatmulRates(
    gb_per_s=156,
    turnaround_us_per_mb=6.8,
    narrowest_tile_rows=256,
    kept_k=0,
    streams_32=0.15,
    streams_16=0.045,
    streams_odd=0.35,
    stream_gb_per_s=45,
    macs_per_ns=1126,
    fill_rows=10.3,
    split_k=2.03,
    partial_sums_gb_per_s=102,
    overlap_power=8.7,
)


def test_a_matmul_by_hand() -> None:
    """512 x 4096 x 4096 as (m, n, k) = (4, 8, 1): 128 rows and 512 columns a core."""
    kernel = Matmul(1, 512, 4096, 4096, Division(1, 4, 8, 1), 32)
    machine = plain(matmul=STUDY)
    first, second, result = 2 * 512 * 4096, 2 * 4096 * 4096, 2 * 512 * 4096
    read = 2 * first + second  # 512 columns are two tiles: the first operand is read twice
    memory = (read + result) / 156e3 + 6.8e-6 * result
    assert us(kernel, machine, Resource.MEMORY) == pytest.approx([memory])
    assert us(kernel, machine, Resource.CORE_STREAM) == pytest.approx([second / 8 / 45e3, 2 * first / 4 / 45e3])
    assert us(kernel, machine, Resource.ARRAY) == pytest.approx([512 * 4096 * 4096 / 32 / 1126e3 * (1 + 10.3 / 128)])
    assert predict(kernel, machine).time_us == pytest.approx(317.36, rel=0.05)  # measured


def test_the_second_operand_is_read_again_for_every_tile_of_rows() -> None:
    """2048 x 2048 x 2048 as (4, 8, 1): 512 rows of 128 a tile, four passes over the second operand."""
    kernel = Matmul(1, 2048, 2048, 2048, Division(1, 4, 8, 1), 32)
    size = 2 * 2048 * 2048
    expected = (size + 4 * size + size) / 156e3 + 6.8e-6 * size
    assert us(kernel, plain(matmul=STUDY), Resource.MEMORY) == pytest.approx([expected])
    assert predict(kernel, plain(matmul=STUDY)).time_us == pytest.approx(384.9, rel=0.03)  # measured


def test_splitting_k_doubles_the_array_and_adds_partial_sums() -> None:
    kernel = Matmul(1, 512, 4096, 4096, Division(1, 4, 4, 2), 32)
    found = predict(kernel, plain(matmul=STUDY))
    assert found.part(Resource.ARRAY) == pytest.approx(2.03 * 512 * 4096 * 4096 / 32 / 1126e3 * (1 + 10.3 / 128))
    assert found.part(Resource.PARTIAL_SUMS) == pytest.approx(2 * 512 * 4096 / 16 / 102e3)
    assert found.time_us == pytest.approx(547.71, rel=0.05)  # measured


def test_an_operand_in_scratchpads_is_not_read_from_memory() -> None:
    kernel = Matmul(1, 512, 4096, 4096, Division(1, 4, 8, 1), 32)
    far, near = (predict(replace(kernel, first_resident=there, result_resident=there)) for there in (False, True))
    assert far.part(Resource.MEMORY) - near.part(Resource.MEMORY) > 3 * 2 * 512 * 4096 / 160e3


def test_a_chain_in_scratchpads_moves_its_ends_alone() -> None:
    rates = replace(Rates().chain, resident=1.0, two_ops=1.0)
    machine = plain(pointwise=PointwiseRates(turnaround_us_per_mb=0, size=0, fixed_us=0), chain=rates)
    near, far = (Chain(2, 15 * MB, 32, resident=stays) for stays in (True, False))
    assert us(near, machine, Resource.MEMORY) == pytest.approx([4 * 100])  # three inputs, one result
    assert us(far, machine, Resource.MEMORY) == pytest.approx([2 * 3 * 100])  # two adds of three tensors each


@pytest.mark.parametrize(("power", "expected"), [(1, 7.0), (2, 5.0)])
def test_resources_that_overlap_are_joined_by_a_norm(power: float, expected: float) -> None:
    parts = (Part(Resource.MEMORY, 3.0), Part(Resource.ARRAY, 4.0))
    assert overlapped(parts, power) == pytest.approx(expected)


def test_an_extension_is_a_round_trip_over_the_link_and_the_cpu() -> None:
    found = predict(RoundTrip((64 * MB,), (32 * MB,)))
    assert found.kernel_class is KernelClass.EXTENSION
    assert found.part(Resource.HOST_LINK) == pytest.approx(from_card_us(64 * MB) + to_card_us(32 * MB))
    assert found.part(Resource.CPU) == pytest.approx(96 * MB / 10e3)
    assert found.time_us == pytest.approx(found.part(Resource.HOST_LINK) + found.part(Resource.CPU))


def test_dma_runs_at_the_rates_that_were_seen() -> None:
    assert to_card_us(109_051_904) == pytest.approx(1809, rel=0.02)  # 512 x 4096 and 4096 x 12800
    assert from_card_us(13_107_200) == pytest.approx(1286 - 959, rel=0.02)  # 512 x 12800, the kernel taken off
    assert launch().time_us == pytest.approx(2900)


def test_a_card_with_faster_memory_takes_less_where_memory_bounds() -> None:
    kernel = Pointwise(Form.BINARY, 30 * MB, 15 * MB, 32)
    fast = replace(SPYRE, device_memory_bytes_per_second=2 * SPYRE.device_memory_bytes_per_second)
    assert us(kernel, fast, Resource.MEMORY)[0] == pytest.approx(us(kernel, SPYRE, Resource.MEMORY)[0] / 2)
    faster_clock = replace(SPYRE, core_clock_hz=2 * SPYRE.core_clock_hz)
    product = Matmul(1, 2048, 2048, 2048, Division(1, 4, 8, 1), 32)
    assert us(product, faster_clock, Resource.ARRAY)[0] == pytest.approx(us(product, SPYRE, Resource.ARRAY)[0] / 2)


def test_kernels_nobody_has_measured_say_how_uncertain_they_are() -> None:
    assert predict(Pointwise(Form.UNARY, 1024, 1024, 32)).kernel_class is KernelClass.SMALL
    product = Matmul(32, 512, 128, 512, Division(1, 8, 2, 2), 32, three_dims=True)
    assert predict(product).band.p90 == 0.5
    large = predict(Pointwise(Form.UNARY, 15 * MB, 15 * MB, 32))
    assert large.low_us < large.time_us < large.high_us and large.band.measured
