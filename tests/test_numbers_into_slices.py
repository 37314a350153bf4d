"""A number written into every second row, where sticks between its own are left out: eager and compiled, of any dtype."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("number", [2.5, True, torch.tensor(True), torch.tensor(1.5), torch.tensor(3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool], ids=str)
def test_a_number_into_rows_that_lie_apart(number, dtype):
    def written(x, value):
        y = x.clone()
        y[1::2, ::2, 3:5] = value
        z = x.clone()
        z[::2] = value
        return y, z

    host = torch.zeros(6, 3, 70, dtype=dtype)
    for function in (written, torch.compile(written, dynamic=False)):
        torch.compiler.reset()
        for found, right in zip(function(host.to("spyre"), number), written(host, number), strict=True):
            assert torch.equal(found.cpu(), right)


def test_rows_chosen_by_a_turned_list():
    """The index of the gather is itself gathered: its dims have the names of the gather's, and other sizes."""

    def written(x):
        rows = torch.arange(11, 33, device=x.device)
        x[:, rows] = x.index_select(1, rows.flip(0))
        return x

    host = torch.arange(165.0).reshape(1, 33, 5)
    right = written(host.clone())
    torch.compiler.reset()
    assert torch.equal(torch.compile(written, dynamic=False)(host.to("spyre")).cpu(), right)
    assert torch.equal(written(host.to("spyre")).cpu(), right)
