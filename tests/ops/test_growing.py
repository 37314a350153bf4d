"""Sizes that grow call by call: from the third length on no program is compiled per length, and the results are the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from torch_spyre import _torch
from torch_spyre.ops import eager

_ATOL = {torch.float16: 2**-6, torch.float32: 2e-6}  # numbers up to 4, of 9 and of 23 bits
LENGTHS = (2, 3, 5, 17, 63, 64, 65, 100, 127, 128, 129)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.manual_seed(0)
    torch.spyre.set_downcast_warning(False)
    _torch.clear_eager_cache()


def _compiled(work: Callable[[], object]) -> int:
    before = eager.counts()["compilations"]
    work()
    return eager.counts()["compilations"] - before


def _attend(
    queries: int | None, length: int, dtype: torch.dtype, *, masked: bool = False, dims: int = 4
) -> tuple[torch.Tensor, torch.Tensor]:
    """On the card, and on the CPU in float64."""
    outer = (1, 4) if dims == 4 else (4,)
    q = torch.randn(*outer, queries or length, 64).to(dtype)
    k, v = (torch.randn(*outer[:-1], 2 if dims == 4 else 4, length, 64).to(dtype) for _ in range(2))
    mask = torch.randn(*outer[:-1], 1, queries or length, length).to(dtype) if masked else None
    options = {"is_causal": queries is None and not masked, "enable_gqa": dims == 4}
    expected = F.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), None if mask is None else mask.double(), **options
    )
    on_card = [None if x is None else x.to("spyre") for x in (q, k, v, mask)]
    return F.scaled_dot_product_attention(*on_card, **options), expected


@pytest.mark.parametrize("masked", (False, True))
@pytest.mark.parametrize("queries", (1, 3, None))
@pytest.mark.parametrize("dtype", (torch.float16, torch.float32))
def test_attention_over_a_growing_cache_is_compiled_per_64_keys(
    dtype: torch.dtype, queries: int | None, masked: bool
) -> None:
    for length in LENGTHS:
        result, expected = _attend(queries, length, dtype, masked=masked)
        assert result.shape == expected.shape
        torch.testing.assert_close(result.cpu().double(), expected, rtol=0, atol=_ATOL[dtype])
    lengths = range(30, 60) if queries != 3 else range(66, 80)
    assert _compiled(lambda: [_attend(queries, length, dtype, masked=masked) for length in lengths]) == 0


@pytest.mark.parametrize("length", (1, 7))
def test_a_mask_of_one_number_for_all_keys_lets_none_through_that_are_filled_up(length: int) -> None:
    """A cache begins with one key when others have grown already; or one number stands for all keys."""
    for other in LENGTHS:
        _attend(1, other, torch.float16, masked=True)
    q, k, v = (torch.randn(1, heads, rows, 64).half() for heads, rows in ((4, 1), (2, length), (2, length)))
    mask = torch.zeros(1, 1, 1, 1).half()
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), mask.double(), enable_gqa=True)
    result = F.scaled_dot_product_attention(*(x.to("spyre") for x in (q, k, v, mask)), enable_gqa=True)
    torch.testing.assert_close(result.cpu().double(), expected, rtol=0, atol=_ATOL[torch.float16])


def test_heads_without_a_batch_grow_as_well() -> None:
    for length in LENGTHS:
        result, expected = _attend(1, length, torch.float16, dims=3)
        torch.testing.assert_close(result.cpu().double(), expected, rtol=0, atol=_ATOL[torch.float16])


@pytest.mark.parametrize("queries", (1, 3, None))
def test_bits_are_those_of_a_program_of_its_own(queries: int | None) -> None:
    """16-bit scores, filled up to whole sticks, are summed as without that."""
    grown = []
    for length in LENGTHS:
        torch.manual_seed(length)
        grown.append(_attend(queries, length, torch.float16)[0].cpu())
    for length, other in zip(LENGTHS, grown, strict=True):
        _torch.clear_eager_cache()
        torch.manual_seed(length)
        result = _attend(queries, length, torch.float16)[0]
        assert result.stride() == result.contiguous().stride() and torch.equal(result.cpu(), other), length


def test_results_lie_as_the_queries_do() -> None:
    for length in (*LENGTHS, 70):
        by_token = torch.randn(1, length, 4, 64, dtype=torch.float16).to("spyre").transpose(1, 2)
        result = F.scaled_dot_product_attention(by_token, by_token, by_token, is_causal=True)
        assert result.stride() == by_token.stride()


def test_lengths_that_do_not_grow_keep_programs_of_their_own() -> None:
    _attend(1, 70, torch.float16), _attend(1, 90, torch.float16)
    counts = eager.counts()
    _attend(1, 70, torch.float16), _attend(1, 90, torch.float16)
    after = eager.counts()
    assert (after["launches"] - counts["launches"], after["compilations"]) == (2, counts["compilations"])


def test_single_elements_of_growing_buffers_share_a_program() -> None:
    one = torch.ones(1, 1, dtype=torch.int64).to("spyre")

    def step(length: int) -> None:
        row = torch.arange(length)[None].to("spyre")
        assert (row[:, -1:] + one).tolist() == [[length]]
        assert (row[:, length // 2 : length // 2 + 1] == length // 2).tolist() == [[True]]

    step(40)
    assert _compiled(lambda: [step(length) for length in range(41, 141)]) == 0


def test_a_clear_forgets_what_was_kept_for_growing() -> None:
    for length in LENGTHS:
        _attend(1, length, torch.float16)
    _torch.clear_eager_cache()
    torch.spyre.synchronize()
    before = torch.spyre.memory_allocated()
    _attend(1, 70, torch.float16)
    torch.spyre.synchronize()
    assert torch.spyre.memory_allocated() == before
