"""Views share storage: what is written through one is seen through all, wherever the sticks lie."""

import copy
import io
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from openspyre.spec.errors import UnsupportedFormat

VIEWS = {
    "slice": lambda t: t[1:, 3:],
    "transpose": lambda t: t.t(),
    "slice of transpose": lambda t: t.t()[5:90, 2:],
    "select": lambda t: t[3],
    "select column": lambda t: t[:, 65],
    "reshape": lambda t: t.view(4, 3, 130),
    "split last": lambda t: t.view(12, 2, 65),
    "merge": lambda t: t.view(-1),
    "merge and offset": lambda t: t.view(-1)[77:400],
    "unsqueeze": lambda t: t.unsqueeze(1),
    "diagonal": lambda t: t.diagonal(),
    "unfold": lambda t: t.unfold(1, 10, 10),
    "as_strided": lambda t: t.as_strided((5, 7), (130, 9), 66),
    "narrow": lambda t: t.narrow(1, 60, 10),
    "unbind": lambda t: t.unbind(1)[64],
    "chunk": lambda t: t.chunk(3, 1)[2],
    "permute": lambda t: t.view(2, 6, 130).permute(2, 0, 1),
    "step": lambda t: t[::2, ::5],
    "squeeze": lambda t: t[:, 4:5].squeeze(1),
    "detach": lambda t: t.detach(),
    "movedim": lambda t: t.view(2, 6, 130).movedim(0, 2),
    "real rows": lambda t: t[[0]] if False else t[0:1],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("name", VIEWS)
def test_writing_through_a_view_is_seen_in_the_base(name, dtype, no_leak):
    host = (torch.arange(12 * 130).reshape(12, 130) % 61).to(dtype)
    card = host.to("spyre")
    view = VIEWS[name]
    assert torch.equal(view(card).cpu(), view(host))
    assert view(card).untyped_storage().data_ptr() == card.untyped_storage().data_ptr()
    assert view(card).stride() == view(host).stride() and view(card).storage_offset() == view(host).storage_offset()
    patch = (torch.arange(view(host).numel()).reshape(view(host).shape) % 7 + 1).to(dtype)
    view(host).copy_(patch)
    view(card).copy_(patch)
    assert torch.equal(card.cpu(), host)
    card.zero_()
    assert view(card).cpu().eq(0).all()


def test_expand_shares_and_reads_back():
    card = torch.arange(70.0).to("spyre").expand(3, 70)
    assert card.stride() == (0, 1)
    assert torch.equal(card.cpu(), torch.arange(70.0).expand(3, 70))


def test_operators_on_views_update_the_base():
    host = torch.arange(300.0).reshape(3, 100)
    card = host.to("spyre")
    card.t()[65:70].mul_(2)
    host.t()[65:70].mul_(2)
    card[1:, 99].add_(1)
    host[1:, 99].add_(1)
    torch.sub(host[0], 1, out=host[2])
    torch.sub(card[0], 1, out=card[2])
    assert torch.equal(card.cpu(), host)


def test_view_dtype_where_the_bits_agree():
    x = torch.tensor([1.0, -2.0, 0.5])
    assert torch.equal(x.to("spyre").view(torch.int32).cpu(), x.view(torch.int32))
    card = x.to("spyre")
    card.view(torch.int32)[0] = 0
    assert card.cpu().tolist() == [0.0, -2.0, 0.5]


@pytest.mark.parametrize("target", [torch.int16, torch.bfloat16, torch.float32, torch.uint8], ids=str)
def test_view_dtype_where_they_do_not_names_the_way_over_the_cpu(target):
    with pytest.raises(UnsupportedFormat, match=r"x\.cpu\(\)\.view"):
        torch.ones(64, dtype=torch.float16).to("spyre").view(target)


def test_set_resize_and_empty_tensors():
    card = torch.arange(10.0).to("spyre")
    other = torch.empty(0, device="spyre").set_(card)
    assert other.data_ptr() == card.data_ptr()
    card.resize_(4)
    assert card.cpu().tolist() == [0, 1, 2, 3]
    card.resize_(3, 70)
    assert card.shape == (3, 70) and card.cpu().view(-1)[:10].tolist() == list(range(10))
    assert other.cpu().tolist() == list(range(10))
    empty = torch.empty(0, 5, device="spyre")
    assert empty.cpu().shape == (0, 5) and empty.t().shape == (5, 0)
    assert torch.empty(0, device="spyre").set_().numel() == 0


def test_rank_above_six_is_folded_and_still_correct():
    x = torch.arange(2.0**8).reshape([2] * 8)
    card = x.to("spyre")
    assert len(card.device_tensor_layout().device_size) <= 7
    assert torch.equal(card.cpu(), x)
    assert torch.equal(card.permute(7, 0, 3, 1, 2, 6, 5, 4)[1].cpu(), x.permute(7, 0, 3, 1, 2, 6, 5, 4)[1])


def test_deepcopy_keeps_layout_and_independence():
    layout = torch.spyre.SpyreTensorLayout([96, 200], [200, 1], torch.float16, [1, 0])
    x = torch.randn(96, 200, dtype=torch.float16).to("spyre", device_layout=layout)
    clone = copy.deepcopy(x)
    assert clone.device_tensor_layout() == layout
    assert torch.equal(clone.cpu(), x.cpu())
    clone.zero_()
    assert not torch.equal(clone.cpu(), x.cpu())


def test_save_and_load_hold_host_data():
    x = torch.randn(33, 70)
    tied = x.to("spyre")
    file = io.BytesIO()
    torch.save({"a": tied, "row": tied[5], "half": tied.half()}, file)
    for location, device in ((None, "spyre"), ("cpu", "cpu"), ("spyre", "spyre"), ("spyre:0", "spyre")):
        file.seek(0)
        loaded = torch.load(file, map_location=location)
        assert loaded["a"].device.type == device and torch.equal(loaded["a"].cpu(), x)
        assert torch.equal(loaded["row"].cpu(), x[5]) and torch.equal(loaded["half"].cpu(), tied.half().cpu())
        loaded["a"].zero_()
        assert loaded["row"].cpu().abs().sum().item() == 0, "views of one storage stay views"
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    assert torch.equal(torch.load(file, map_location="spyre").cpu(), x)


def test_printing_costs_no_fallback_and_reads_like_torch():
    card = torch.arange(6.0).reshape(2, 3).to("spyre")
    assert repr(card) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]], device='spyre:0')"
    assert not torch.spyre.fallback_stats()
    assert card.tolist() == [[0, 1, 2], [3, 4, 5]] and card[1, 2].item() == 5
    assert "grad_fn" in repr(card.requires_grad_() * 1)


def test_threads_that_meet_at_the_first_use_of_loaded_bytes():
    """Loaded storages are the host's bytes until the first typed use: two threads may be the first."""
    want = torch.arange(300.0)
    saved = io.BytesIO()
    torch.save(want, saved)

    def first_use(x, barrier):
        barrier.wait()
        return (x + 1).cpu()

    with ThreadPoolExecutor(4) as pool:
        for _ in range(30):
            saved.seek(0)
            loaded = torch.load(saved, map_location="spyre")
            barrier = threading.Barrier(4)
            for got in [pool.submit(first_use, loaded, barrier) for _ in range(4)]:
                assert torch.equal(got.result(timeout=60), want + 1)
