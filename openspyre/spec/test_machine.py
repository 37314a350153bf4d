from dataclasses import FrozenInstanceError, replace

import pytest

from openspyre.spec.formats import STICK_BYTES
from openspyre.spec.machine import GIB, SPYRE


def test_the_peak_is_the_published_one() -> None:
    assert SPYRE.fp16_flops_per_second == pytest.approx(98.304e12, rel=1e-12)
    macs_per_microsecond_and_core = SPYRE.fp16_macs_per_cycle_per_core * SPYRE.core_clock_hz / 1e6
    assert macs_per_microsecond_and_core == pytest.approx(1.536e6, rel=1e-12)


def test_the_units_of_a_core_multiply_to_its_rate() -> None:
    elements = SPYRE.corelets_per_core * SPYRE.matrix_rows_per_corelet * SPYRE.matrix_columns_per_corelet
    eight_way_simd = 8
    assert elements * eight_way_simd == SPYRE.fp16_macs_per_cycle_per_core


def test_memory_limits_are_the_documented_ones() -> None:
    assert SPYRE.usable_device_memory_bytes == 112 * GIB
    assert SPYRE.scratchpad_planned_bytes_per_core == 1_625_344
    assert SPYRE.segment_base(SPYRE.program_segment) == 0x1C_0000_0000
    assert SPYRE.segments * SPYRE.segment_bytes == SPYRE.device_memory_bytes
    assert SPYRE.stick_bytes == STICK_BYTES


def test_a_what_if_card_is_a_replacement_and_nothing_changes_in_place() -> None:
    assert replace(SPYRE, cores=16).fp16_flops_per_second == SPYRE.fp16_flops_per_second / 2
    with pytest.raises(FrozenInstanceError):
        SPYRE.cores = 16  # type: ignore[misc]


@pytest.mark.parametrize("segment", [-1, 8])
def test_a_segment_that_does_not_exist_is_named(segment: int) -> None:
    with pytest.raises(ValueError, match=f"segment {segment}: a job has the segments 0 to 7"):
        SPYRE.segment_base(segment)
