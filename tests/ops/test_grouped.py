"""Products in groups whose ends are data, and the counts that make them: on the card, of fixed size, and what float64 says."""

from itertools import pairwise

import pytest
import torch

from torch_spyre.inductor.reporting.report import compile_report
from torch_spyre.ops import eager, grouped

# Rows of each expert: some with none, one with all, rows behind the last; blocks of 1, 16 and 64 rows.
GROUPS = {
    "few rows": ([1, 0, 2, 3], 6),
    "one expert has all": ([0, 48, 0, 0], 48),
    "blocks that are not full": ([17, 1, 30, 0], 48),
    "rows behind the last end": ([9, 0, 3, 20], 40),
    "many rows": ([100, 1, 70, 29], 200),
    "one expert": ([5], 5),
    "no expert has any": ([0, 0], 7),
}


def _ends(counts):
    return torch.cumsum(torch.tensor(counts), 0).to(torch.int32)


def _operands(counts, rows, dtype=torch.float16):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(rows, 64, generator=generator).to(dtype)
    return x, torch.randn(len(counts), 64, 48, generator=generator).to(dtype), _ends(counts)


def _expected(x, matrices, ends):
    out = torch.zeros(x.shape[0], matrices.shape[2], dtype=torch.float64)
    for expert, (begin, end) in enumerate(pairwise([0, *ends.tolist()])):
        out[begin:end] = x[begin:end].double() @ matrices[expert].double()
    return out


def _on_card(*tensors):
    torch.spyre.set_fallback_mode("error")
    return [tensor.to("spyre") for tensor in tensors]


@pytest.mark.parametrize("name", GROUPS)
def test_each_group_of_rows_has_its_own_product(name):
    operands = _operands(*GROUPS[name])
    found = torch._grouped_mm(*_on_card(*operands))
    torch.testing.assert_close(found.cpu().double(), _expected(*operands), rtol=2**-9, atol=2**-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while Inductor loads
@pytest.mark.parametrize("name", ["few rows", "blocks that are not full", "many rows"])
def test_in_a_graph_groups_are_one_launch(name):
    operands = _operands(*GROUPS[name])
    on_card = _on_card(*operands)
    torch.compiler.reset()
    made = torch.compile(lambda x, matrices, ends: grouped.rows_by_group(x * 2, matrices, ends) + 1)(*on_card)
    assert len(compile_report()[-1].bundles) == 1 and not compile_report()[-1].fallbacks
    expected = _expected(operands[0] * 2, *operands[1:]) + 1
    torch.testing.assert_close(
        made.cpu().double(), expected, rtol=2**-9, atol=2**-4
    )  # two roundings of numbers up to 64


def test_no_group_is_a_program_of_its_own():
    """Where rows go is data: other groups of as many rows compile nothing."""
    x, matrices, ends = _on_card(*_operands([17, 1, 30, 0], 48))
    torch._grouped_mm(x, matrices, ends)
    before = eager.counts()["compilations"]
    for counts in ([0, 40, 8, 0], [12, 12, 12, 12], [48, 0, 0, 0]):
        torch._grouped_mm(x, matrices, _ends(counts).to("spyre"))
    assert eager.counts()["compilations"] == before


def test_matrices_too_large_to_be_gathered_at_once_are_read_in_parts(monkeypatch):
    monkeypatch.setattr(grouped, "_GATHERED_BYTES", 64 * 2 * 64 * 5)
    x, _, ends = _operands([17, 1, 30, 0], 48)
    matrices = torch.randn(4, 64, 200, generator=torch.Generator().manual_seed(4)).half()
    found = grouped.rows_by_group(*_on_card(x, matrices, ends))
    torch.testing.assert_close(found.cpu().double(), _expected(x, matrices, ends), rtol=2**-9, atol=2**-6)


def test_the_gradients_are_those_of_separate_products():
    x, matrices, ends = _operands([17, 1, 30, 0], 48)
    on_card = [tensor.requires_grad_() for tensor in _on_card(x, matrices)]
    weight = torch.randn(48, 48, generator=torch.Generator().manual_seed(6)).half()
    (torch._grouped_mm(*on_card, ends.to("spyre")) * weight.to("spyre")).sum().backward()
    wide = [tensor.double().requires_grad_() for tensor in (x, matrices)]
    parts = [wide[0][b:e] @ wide[1][k] for k, (b, e) in enumerate(pairwise([0, *ends.tolist()]))]
    (torch.cat(parts) * weight).sum().backward()
    for found, expected in zip(on_card, wide, strict=True):
        torch.testing.assert_close(found.grad.cpu().double(), expected.grad, rtol=2**-8, atol=2**-4)


def test_autocast_does_not_reach_into_the_operator():
    """It is not on autocast's list: operands of float32 give float32, and its gradient as well."""
    x, matrices, ends = _on_card(*_operands([17, 1, 30, 0], 48, torch.float32))
    with torch.autocast("spyre", dtype=torch.bfloat16):
        found = torch._grouped_mm(x.requires_grad_(), matrices, ends)
        assert found.dtype == torch.float32
    found.sum().backward()
    expected = _expected(x.detach().cpu(), matrices.cpu(), ends.cpu())
    torch.testing.assert_close(found.detach().cpu().double(), expected, rtol=1e-5, atol=1e-5)
    assert x.grad.dtype == torch.float32


@pytest.mark.parametrize("dims", [(3, 3), (3, 2)])
def test_the_other_forms(dims):
    generator = torch.Generator().manual_seed(7)
    first = torch.randn(2, 16, 64, generator=generator).half()
    second = torch.randn(*((2, 64, 32) if dims[1] == 3 else (64, 32)), generator=generator).half()
    ends = None if dims[1] == 3 else torch.tensor([20, 32], dtype=torch.int32)
    wide = first.double(), second.double()
    if ends is None:
        expected = wide[0] @ wide[1]
    else:
        expected = torch.cat([wide[0][0] @ wide[1][:, :20], wide[0][1] @ wide[1][:, 20:]], 1)
    found = torch._grouped_mm(*_on_card(first, second), None if ends is None else ends.to("spyre"))
    torch.testing.assert_close(found.cpu().double(), expected, rtol=2**-9, atol=2**-6)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32])
@pytest.mark.parametrize(
    ("count", "bins", "least", "most"),
    [(48, 4, 0, 3), (1000, 32, 0, 31), (100, 7, 0, 0), (40000, 100, -2, 9), (5, 3, 9, 9)],
)
def test_histc_counts_as_on_the_cpu(dtype, count, bins, least, most):
    values = torch.randint(-1, 33, (count,), generator=torch.Generator().manual_seed(8)).to(dtype)
    found = torch.histc(*_on_card(values), bins, least, most)
    assert found.dtype == dtype
    assert found.tolist() == torch.histc(values.float(), bins, least, most).tolist()


def test_histc_of_equal_values_and_of_none():
    torch.spyre.set_fallback_mode("error")
    assert torch.histc(torch.full((5,), 2.0).to("spyre"), 4).tolist() == torch.histc(torch.full((5,), 2.0), 4).tolist()
    assert torch.histc(torch.empty(0).to("spyre"), 4).tolist() == [0, 0, 0, 0]
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        torch.histc(torch.ones(3).to("spyre"), 0)
