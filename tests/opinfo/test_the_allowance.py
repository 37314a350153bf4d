"""What is allowed is no larger than what it is for: CPU kernels' own roundings, and rows of the list that speak of the judge."""

from __future__ import annotations

import math

import pytest
import torch
from judgement import complaint
from known import Known, known_differences

MIXED = torch.tensor([1.0, 1e6], dtype=torch.float64)
OWN = (MIXED * torch.tensor([1.0, 1 + 1e-5])).float()  # torch's own kernel errs at the large element only


def told(got: torch.Tensor, *fallen: str) -> str | None:
    return complaint(got, torch.float32, MIXED, [MIXED], OWN, fallen)


def test_a_large_element_of_a_fallback_excuses_no_small_one():
    wrong = torch.tensor([1.5, 1e6])
    assert told(OWN, "aten::special_i0") is None
    said = told(wrong, "aten::special_i0")
    assert said is not None and said.startswith("at [0], 1 of 2")
    assert told(wrong, "aten::linalg_svd") is None  # bounds the whole result


def test_kernels_of_the_card_have_no_excuse():
    assert told(OWN) is not None


JUDGES = [row for row in known_differences() if row.kind == "judge"]


@pytest.mark.parametrize("row", JUDGES, ids=lambda row: row.entry)
def test_a_row_of_the_judge_explains_roundings_and_no_bug(row: Known):
    where = "result 1 at [0], 1 of 2: 1.0, exactly 2.0 within 0.1, at most {} roundings of the largest"
    assert row.explains(where.format(row.most))
    assert not any(row.explains(where.format(much)) for much in ("64", "8.4e+06", "inf", "nan"))
    assert not row.explains("result 1 at [0], 1 of 2: 1, exactly 2")


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 2.0**30])
def test_a_number_that_is_none_is_farther_than_any_row_allows(wrong):
    said = told(torch.tensor([wrong, 1e6]))
    assert said is not None and not any(row.explains(f"result 1 {said}") for row in JUDGES)


@pytest.mark.parametrize(("dtype", "seen"), [(torch.float32, 2.0**-140), (torch.float64, 1e-300)], ids=str)
def test_only_what_the_format_cannot_hold_may_be_lost(dtype, seen):
    wanted, none = torch.tensor([1.0, 1e-320], dtype=torch.float64), torch.tensor([1.0, 0.0], dtype=dtype)
    assert dtype is torch.float64 or complaint(none, dtype, wanted, [wanted], None, ()) is None
    wanted[1] = seen
    assert complaint(none, dtype, wanted, [wanted], None, ()) is not None
