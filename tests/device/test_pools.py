"""Pages in host memory: what comes back has the bits that went."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from openspyre.spec.encodings import sen169_decode
from openspyre.spec.errors import InvalidArgument
from torch_spyre._C import SharedHostPool, copy_tensor_raw

pytestmark = pytest.mark.filterwarnings("ignore:int64 lives on spyre")
GEOMETRIES = [(2, 64, 8, 128), (3, 17, 70), (5,), (1, 1, 33)]
CODES = np.arange(1 << 16, dtype=np.uint16)


def every_number() -> torch.Tensor:
    """A cache of 64 blocks with every code of the card's 16-bit format."""
    return torch.from_numpy(sen169_decode(CODES)).to("spyre").half().reshape(64, 16, 64)


def codes_of(tensor: torch.Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy().view(np.uint32)


@pytest.fixture
def pool(request: pytest.FixtureRequest) -> Iterator[SharedHostPool]:
    made = SharedHostPool.create_or_attach(None, f"test-{request.node.name[:40].strip('[]')}", 4, 1 << 20)
    yield made
    made.unlink()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool, torch.int8])
@pytest.mark.parametrize("size", GEOMETRIES, ids=str)
def test_a_page_comes_back_as_it_was(size: tuple[int, ...], dtype: torch.dtype) -> None:
    pool = SharedHostPool.create_or_attach(None, "test-round", 2, 1 << 20)
    try:
        page = (torch.randn(size) * 50).to(dtype).to("spyre")
        before = page.cpu()
        copy_tensor_raw(page, pool, 1, to_device=False)
        page.zero_()
        copy_tensor_raw(page, pool, 1, to_device=True)
        assert torch.equal(page.cpu(), before)
        fresh = torch.empty_like(page)
        copy_tensor_raw(fresh, pool, 1, to_device=True, non_blocking=True)
        assert torch.equal(fresh.cpu(), before)
    finally:
        pool.unlink()


def test_every_code_of_the_format_comes_back(pool: SharedHostPool) -> None:
    page = every_number()
    before = codes_of(page)
    copy_tensor_raw(page, pool, 0, to_device=False)
    page.fill_(1)
    copy_tensor_raw(page, pool, 0, to_device=True)
    np.testing.assert_array_equal(codes_of(page), before)


def test_a_copy_waits_for_what_computes_the_page(pool: SharedHostPool) -> None:
    page = torch.zeros(256, 256, dtype=torch.float16, device="spyre")
    for _ in range(50):
        page.add_(1)
    copy_tensor_raw(page, pool, 2, to_device=False)
    page.zero_()
    copy_tensor_raw(page, pool, 2, to_device=True, non_blocking=True)
    assert page.add_(1).eq(51).all().item()


def test_another_process_reads_the_pool(pool: SharedHostPool) -> None:
    page = torch.randn(33, 70).half().to("spyre")
    copy_tensor_raw(page, pool, 3, to_device=False)
    name = pool._path.name
    code = (
        "import sys, torch; from torch_spyre._C import SharedHostPool, copy_tensor_raw\n"
        f"pool = SharedHostPool.create_or_attach(None, {name!r}, 4, 1 << 20)\n"
        "page = torch.empty(33, 70, dtype=torch.float16, device='spyre'); copy_tensor_raw(page, pool, 3, to_device=True)\n"
        "print(page.float().sum().item())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == page.float().sum().item()


def test_pools_are_private_and_know_their_geometry(pool: SharedHostPool) -> None:
    name = pool._path.name
    assert (pool.slot_count(), pool.slot_bytes()) == (4, 1 << 20)
    assert pool._path.stat().st_mode & 0o077 == 0 and pool._path.parent.stat().st_mode & 0o077 == 0
    assert SharedHostPool.create_or_attach(None, name, 4, 1 << 20).slot_count() == 4
    with pytest.raises(InvalidArgument, match="has 4 slots of 1048576 bytes, not 8"):
        SharedHostPool.create_or_attach(None, name, 8, 1 << 20)


@pytest.mark.parametrize(
    ("name", "slots", "words"),
    [("../up", 1, "letters"), ("", 1, "letters"), ("a", 0, "at least one"), ("huge", 1 << 40, "no room")],
)
def test_wrong_pools_are_refused(name: str, slots: int, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        SharedHostPool.create_or_attach(None, name, slots, 1 << 12)


def test_wrong_copies_are_refused(pool: SharedHostPool) -> None:
    page = torch.zeros(64, 64, dtype=torch.float16, device="spyre")
    for tensor, slot, words in (
        (page[1:], 0, "a part of one"),
        (page.cpu(), 0, "not one on cpu"),
        (page, 4, "no slot 4"),
        (torch.zeros(1 << 10, 1 << 10, dtype=torch.float16, device="spyre"), 0, "no room"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            copy_tensor_raw(tensor, pool, slot, to_device=False)


def test_bytes_of_another_layout_are_refused(pool: SharedHostPool) -> None:
    """A weight of a module is tiled for products: its bytes in a tensor as torch.empty lays it would be other numbers."""
    weight = torch.nn.Linear(70, 40, bias=False).half().to("spyre").weight.data
    other = torch.zeros(40, 70, dtype=torch.float16, device="spyre")
    assert weight.device_tensor_layout() != other.device_tensor_layout()
    copy_tensor_raw(weight, pool, 0, to_device=False)
    with pytest.raises(InvalidArgument, match="another layout"):
        copy_tensor_raw(other, pool, 0, to_device=True)
    assert not other.any().item()
    copy_tensor_raw(other, pool, 0, to_device=False)
    copy_tensor_raw(other, pool, 0, to_device=True)


def test_blocks_of_every_number_come_back_in_any_order() -> None:
    cache = every_number()
    before = codes_of(cache)
    pool = torch.spyre.block_pool(cache, 64)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0)).tolist()
    torch.spyre.copy_blocks(cache, pool, [(block, slot) for slot, block in enumerate(order)])
    np.testing.assert_array_equal(pool[order.index(5)].numpy().ravel().view(np.uint16), CODES[5 * 1024 : 6 * 1024])
    cache.zero_()
    torch.spyre.copy_blocks(pool, cache, torch.tensor([(slot, block) for slot, block in enumerate(order)]))
    np.testing.assert_array_equal(codes_of(cache), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.int8])
def test_blocks_of_other_dtypes(dtype: torch.dtype) -> None:
    cache = (torch.randn(6, 4, 33) * 9).to(dtype).to("spyre")
    kept, pool = cache.clone(), torch.spyre.block_pool(cache, 2)
    torch.spyre.copy_blocks(cache, pool, [(4, 1), (2, 0)])
    torch.spyre.copy_blocks(cache, cache, [(0, 4)])
    torch.spyre.copy_blocks(pool, cache, [(1, 4), (0, 2)])
    assert torch.equal(cache.cpu(), kept.cpu())


def test_wrong_blocks_are_refused() -> None:
    cache = torch.zeros(4, 8, dtype=torch.float16, device="spyre")
    pool = torch.spyre.block_pool(cache, 2)
    for source, target, pairs, words in (
        (cache, pool, [(4, 0)], "no block 4"),
        (cache, pool, [(0, 2)], "no block 2"),
        (cache, pool, [(0, 0), (1, 0)], "one place"),
        (cache, pool.float(), [(0, 0)], "block_pool"),
        (pool, pool, [(0, 1)], "both tensors are on the CPU"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            torch.spyre.copy_blocks(source, target, pairs)


def test_tensors_set_from_one_allocation_share_it() -> None:
    raw = torch.UntypedStorage(1 << 16, device="spyre")
    first, second = (
        torch.empty(0, dtype=torch.float16, device="spyre").set_(raw, start, (16, 64), (64, 1)) for start in (0, 1024)
    )
    first.fill_(1)
    second.fill_(2)
    assert (first.sum().item(), second.sum().item(), (first + second).sum().item()) == (1024, 2048, 3072)


def test_a_paged_cache_is_written_and_attended_to() -> None:
    """Against the same keys and values that lie one behind the other."""
    torch.manual_seed(0)
    cache = torch.zeros(8, 16, 2, 64, dtype=torch.float16, device="spyre")
    keys = torch.randn(32, 2, 64).half()
    table = torch.tensor([5, 2])
    cache.index_copy_(0, table.to("spyre"), keys.reshape(2, 16, 2, 64).to("spyre"))
    query = torch.randn(1, 2, 1, 64).half()
    paged = cache[table.to("spyre")].reshape(1, 32, 2, 64).transpose(1, 2)
    here = torch.nn.functional.scaled_dot_product_attention(query.to("spyre"), paged, paged)
    plain = keys.reshape(1, 32, 2, 64).transpose(1, 2).to("spyre")
    assert torch.equal(
        here.cpu(), torch.nn.functional.scaled_dot_product_attention(query.to("spyre"), plain, plain).cpu()
    )


FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_blocks_of_eight_bit_floats_keep_every_code(dtype: torch.dtype) -> None:
    """Also of those that the card has no format for; slots and blocks go in any order, and from cache to cache."""
    codes = torch.arange(256, dtype=torch.uint8).reshape(8, 4, 8)
    cache = codes.view(dtype).to("spyre")
    pool = torch.spyre.block_pool(cache, 8)
    torch.spyre.copy_blocks(cache, pool, [(k, 7 - k) for k in range(8)])
    assert torch.equal(pool.view(torch.uint8), codes.flip(0))
    empty = torch.zeros(8, 4, 8, dtype=torch.uint8).view(dtype).to("spyre")
    torch.spyre.copy_blocks(pool, empty, torch.tensor([[0, 7], [5, 1], [3, 2]]))
    torch.spyre.copy_blocks(empty, empty, [(7, 0), (1, 7)])
    expected = torch.zeros_like(codes)
    expected[0], expected[1], expected[2], expected[7] = codes[7], codes[2], codes[4], codes[2]
    assert torch.equal(empty.cpu().view(torch.uint8), expected)
