"""Every seam names something the installed torch has, and every wrapper is in place and reachable back."""

import pytest
import torch

from torch_spyre.torch_seams import SEAMS, original_of, resolve


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while Inductor loads
@pytest.mark.parametrize("seam", SEAMS, ids=lambda seam: seam.symbol)
def test_a_seam_is_pinned(seam):
    found = resolve(seam.symbol)
    assert found is not None and seam.why and seam.remove_when and torch.__version__.startswith(seam.since)
    if seam.replaced:
        assert callable(original_of(found))


def test_no_symbol_stands_twice():
    assert len({seam.symbol for seam in SEAMS}) == len(SEAMS)
