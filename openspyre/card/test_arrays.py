"""Data goes to the card and comes back. The oracle is numpy and the specification's addressing."""

import gc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from openspyre import card
from openspyre.card import _card
from openspyre.spec import encodings
from openspyre.spec.errors import (
    CardLost,
    InvalidArgument,
    InvalidDevice,
    InvalidLayout,
    OutOfMemory,
    UnsupportedFormat,
    ValueOutOfRange,
)
from openspyre.spec.formats import DTYPES, TENSOR_DTYPES, DataFormats
from openspyre.spec.layout import SpyreTensorLayout


def some_bits(dtype: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
    held_in = np.dtype(DTYPES[dtype].numpy)
    count = int(np.prod(shape))
    random = np.random.default_rng(count)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(np.bool_)
    if dtype == "int64":
        return random.integers(-(2**31), 2**31, shape)
    if dtype == "float32":
        return random.standard_normal(shape).astype(np.float32)
    return random.integers(0, 256, count * held_in.itemsize, dtype=np.uint8).view(held_in).reshape(shape)


def check_on_card(array: NDArray[np.generic], dtype: str, on_card: card.DeviceArray) -> None:
    """Every element lies where the layout says, with the bits the format says, and reads back as specified."""
    offsets = np.arange(array.size)
    places = on_card.layout.addressing(array.shape).device_offsets(offsets)
    expected = encodings.to_device(np.ascontiguousarray(array), dtype).ravel()
    codes = on_card.device_codes().ravel()[places]
    assert np.array_equal(codes.view(np.uint8), expected.view(np.uint8))
    read = encodings.decode_host(on_card.numpy(), dtype)
    wanted = encodings.decode_host(encodings.to_host(expected, dtype).reshape(array.shape), dtype)
    assert np.array_equal(read, wanted, equal_nan=read.dtype.kind == "f")


@pytest.mark.parametrize("dtype", TENSOR_DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (100,), (33, 70), (3, 5, 130), (2, 3, 4, 65), (2, 0, 3)])
def test_every_type_and_rank_makes_the_round_trip(dtype: str, shape: tuple[int, ...]) -> None:
    array = some_bits(dtype, shape)
    check_on_card(array, dtype, card.to_card(array, dtype=dtype))


@given(st.data())
def test_any_tiling_makes_the_round_trip(data: st.DataObject) -> None:
    shape = (*data.draw(st.lists(st.integers(1, 5), max_size=3)), data.draw(st.integers(1, 140)))
    order = [*data.draw(st.permutations(range(len(shape)))), *data.draw(st.sampled_from([[], [-1]]))]
    dtype = data.draw(st.sampled_from(["float16", "float32", "int8", "int64"]))
    array = some_bits(dtype, shape)
    check_on_card(array, dtype, card.to_card(array, dtype=dtype, layout=SpyreTensorLayout(shape, dtype, order)))


@pytest.mark.parametrize(
    "view",
    [
        np.s_[::2, 5:69],
        np.s_[:, ::-1],
        np.s_[3:4],
        np.s_[..., None],
    ],
)
def test_strided_host_arrays_go_as_they_are(view: Any) -> None:
    base = some_bits("float16", (40, 150))
    for array in (base[view], base.T[view]):
        check_on_card(array, "float16", card.to_card(array))


def test_padding_is_left_alone() -> None:
    on_card = card.to_card(np.ones((3, 5), np.float32))
    before = on_card.device_codes().copy()
    again = np.full((3, 5), 2, np.float32)
    _card.copy_in(again, "float32", on_card.buffer, on_card._placement)
    after = on_card.device_codes()
    assert np.all(after[..., :5] == 2)
    assert np.array_equal(after[..., 5:].view(np.uint32), before[..., 5:].view(np.uint32))


def test_memory_is_freed_with_the_array_and_can_be_released_early() -> None:
    gc.collect()  # tracebacks of earlier tests may hold arrays
    statistics = card.get().memory_statistics
    before = statistics()["allocated_bytes"]["current"]
    on_card = card.to_card(np.zeros(1 << 16, np.float16))
    assert statistics()["allocated_bytes"]["current"] == before + (1 << 17)
    on_card.buffer.release()
    assert statistics()["allocated_bytes"]["current"] == before
    with pytest.raises(InvalidArgument, match="released"):
        on_card.numpy()
    another = card.to_card(np.zeros(64, np.float16))
    del another
    gc.collect()
    assert statistics()["allocated_bytes"]["current"] == before


def test_streams_and_events_order_copies() -> None:
    device = card.get()
    side = device.stream(device.next_stream(high_priority=True))
    assert side.priority == -1
    start, end = card.Event(timing=True), card.Event(timing=True)
    start.record(side)
    on_card = card.to_card(np.arange(1000, dtype=np.int32), stream=side.id)
    end.record(side)
    end.synchronize()
    assert end.query()
    assert start.elapsed_ms(end) >= 0
    assert np.array_equal(on_card.numpy(), np.arange(1000))
    device.synchronize()
    assert side.query()


def test_a_lost_card_refuses_work_until_it_is_reset() -> None:
    on_card = card.to_card(np.arange(64, dtype=np.int32))
    device = card.get()
    device.lose("pulled out by a test")
    try:
        assert device.lost
        with pytest.raises(CardLost, match="pulled out by a test"):
            on_card.numpy()
    finally:
        device.reset()
    assert np.array_equal(on_card.numpy(), np.arange(64))


@pytest.mark.parametrize(
    ("array", "options", "error", "message"),
    [
        (np.zeros(3), {}, UnsupportedFormat, "does not support dtype float64"),
        (np.zeros(3, np.complex64), {}, UnsupportedFormat, "complex64"),
        (np.zeros(3, np.float32), {"dtype": "bfloat16"}, InvalidArgument, "as a numpy array of uint16, not of float32"),
        (np.zeros(3, np.int8), {"dtype": "int4"}, UnsupportedFormat, "no tensor on the card has dtype int4"),
        (np.zeros(3, np.int8), {"card": 99}, InvalidDevice, "99"),
        (np.zeros(3, np.int8), {"card": -1}, InvalidDevice, "-1"),
        (np.array([0, 2**40]), {}, ValueOutOfRange, str(2**40)),
        (
            np.zeros((3, 5), np.float16),
            {"layout": SpyreTensorLayout([2, 5], "float16")},
            InvalidLayout,
            r"\[3, 5\]",
        ),
    ],
)
def test_mistakes_are_named(
    array: NDArray[np.generic], options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        card.to_card(array, **options)  # type: ignore[arg-type]


def test_more_memory_than_the_card_has_is_refused_and_leaves_it_usable() -> None:
    device = card.get()
    with pytest.raises(OutOfMemory) as caught:
        device.allocate(device.total_memory + 128)
    assert isinstance(caught.value, MemoryError)
    assert card.to_card(np.ones(3, np.float16)).numpy().tolist() == [1, 1, 1]


def test_a_buffer_too_small_for_its_layout_is_refused() -> None:
    small = card.get().allocate(128)
    shape = _card.intern_default([100, 100], [100, 1], "float16")
    with pytest.raises(InvalidArgument, match="too small"):
        _card.copy_in(np.zeros((100, 100), np.float16), "float16", small, shape)


def run_python(program: str, **environ: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={"PATH": "/usr/bin"} | environ, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_nothing_starts_at_import_and_torch_is_never_needed() -> None:
    program = """
import sys
from openspyre import card
assert not card.cards_started()
assert card.count() == 3 and not card.cards_started()
import numpy as np
assert card.to_card(np.arange(5, dtype=np.int8), card=2).numpy().tolist() == [0, 1, 2, 3, 4]
assert card.cards_started() and "torch" not in sys.modules
print(card.get(2).total_memory >> 20)
"""
    environ = {"OPENSPYRE_CARDS": "4", "SPYRE_DEVICES": "3,1,0", "OPENSPYRE_CARD_MEMORY_GIB": "0.25"}
    assert run_python(program, PYTHONPATH=":".join(sys.path), **environ) == "256"


def test_a_forked_child_gets_a_clear_error() -> None:
    program = """
import os, sys
import numpy as np
from openspyre import card
from openspyre.spec.errors import BadFork
on_card = card.to_card(np.arange(5, dtype=np.int8))
child = os.fork()
if child == 0:
    assert card.in_bad_fork()
    try:
        card.to_card(np.arange(5, dtype=np.int8))
    except BadFork as error:
        os._exit(0 if "fork" in str(error) else 2)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(on_card.numpy().tolist())
"""
    assert run_python(program, PYTHONPATH=":".join(sys.path)) == "[0, 1, 2, 3, 4]"


def test_cards_are_configured_once() -> None:
    program = """
from openspyre import card
from openspyre.spec.environment import Settings
from openspyre.spec.errors import InvalidArgument
card.configure(Settings(cards=2))
card.configure(Settings(cards=3))
card.get(0)
card.configure(Settings(cards=3, local_rank=1))  # no matter of the cards themselves
try:
    card.configure(Settings(cards=1))
except InvalidArgument as error:
    print("refused", card.count())
"""
    assert run_python(program, PYTHONPATH=":".join(sys.path)) == "refused 3"


def test_the_card_stores_what_the_format_says() -> None:
    on_card = card.to_card(np.array([1.0, -1.0, 65504.0], np.float16))
    assert on_card.layout.device_dtype is DataFormats.SEN169_FP16
    assert on_card.device_codes()[0, :3].tolist() == [0x3E00, 0xBE00, 0x5E00]
