"""Names of kernels: as documented, short enough, and read back."""

from __future__ import annotations

from openspyre.artifact.kernel_key import NAME_BYTES, KernelEvent, event_name, kernel_name, read_event_name

KEY = "abcdefgh23456777"


def test_operators_come_once_in_order_without_overloads() -> None:
    assert kernel_name(["aten.add.Tensor", None, "aten.mm.default", "aten.add.Scalar"], KEY) == (
        f"spyre_kernel_v1_fused_add_mm_{KEY}"
    )
    assert kernel_name([], KEY) == f"spyre_kernel_v1_fused_unknown_{KEY}"


def test_a_name_leaves_room_for_the_longest_step() -> None:
    name = kernel_name((f"aten.operator_number_{i}.default" for i in range(50)), KEY)
    assert len(event_name(name, (1 << 64) - 1).encode()) <= NAME_BYTES
    assert name.endswith(KEY) and "operator_number_0_operator_number_1" in name


def test_names_are_read_back() -> None:
    name = kernel_name(["aten._softmax.default"], KEY)
    assert read_event_name(event_name(name, 3)) == KernelEvent("fused__softmax", KEY, 3)
    assert read_event_name(name) == KernelEvent("fused__softmax", KEY, None)
    assert read_event_name("aten::add") is None
    assert read_event_name("spyre_kernel_v1_fused_add_short#1") is None
