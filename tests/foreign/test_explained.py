"""Bundles that the reference front end wrote, explained: the data that is counted is that of the arguments beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from foreign.vectors import ABSENT, VECTORS

from openspyre.tools.explaining.counting import read_bundles
from openspyre.tools.explaining.savings import explained

_LAUNCHES = sorted(VECTORS.glob("*/*/launch_*/bundle"))
_TOLD = [bundle for bundle in _LAUNCHES if bundle.parents[2].name == "august"]  # June's form does not tell its pool
_LESS = {"cat_rows", "slice_cols"}  # halves that lie in each other; a part of an argument


def shown(bundle: Path) -> str:
    return "-".join(bundle.parts[-4:-1])


@pytest.mark.skipif(not _LAUNCHES, reason=ABSENT)
@pytest.mark.parametrize("bundle", _LAUNCHES, ids=shown)
def test_no_card_is_faster_than_its_bounds(bundle: Path) -> None:
    explanation = explained(read_bundles([bundle]))
    totals = explanation.totals
    assert 0 < totals.data_bytes <= totals.memory_bytes
    assert 0 < totals.bound_us < totals.card_us
    assert sum(execution.share for execution in explanation.executions) == pytest.approx(1)
    assert all(saving.us <= totals.card_us for saving in explanation.savings)
    assert all(max(r.end for r in launch.residents) <= 2 << 20 for launch in explanation.launches if launch.residents)


@pytest.mark.skipif(not _TOLD, reason=ABSENT)
@pytest.mark.parametrize("bundle", _TOLD, ids=shown)
def test_all_data_once_is_every_argument_once(bundle: Path) -> None:
    told = json.loads((bundle.parent / "args.json").read_text())["args"]
    whole = sum(argument["bytes"] for argument in told if argument.get("parameter") != "%pool_base_addr")
    found = explained(read_bundles([bundle])).totals.data_bytes
    assert found < whole if bundle.parents[1].name in _LESS else found == whole


@pytest.mark.skipif(not _TOLD, reason=ABSENT)
def test_python_lines_are_told() -> None:
    sources = [e.source for bundle in _TOLD for e in explained(read_bundles([bundle])).executions]
    assert sum("graphs.py:" in source for source in sources) > len(sources) / 2


def kept_out(name: str) -> dict[str, str]:
    """Of a foreign graph's first launch: by who writes and who reads first."""
    explanation = explained(read_bundles([VECTORS / "august" / name / "launch_0" / "bundle"]))
    (launch,) = explanation.launches
    op = [execution.op for execution in launch.executions]
    return {
        f"{'outside' if k.written_by is None else op[k.written_by]} to {op[k.read_by[0]]}": k.why
        for k in launch.kept_out
    }


@pytest.mark.skipif(not _TOLD, reason=ABSENT)
def test_of_a_foreign_bundle_the_reason_is_read_off_it() -> None:
    """The reference divides K of the product here, which bars its result; restickifies go through memory; see its graphs.py."""
    found = kept_out("swiglu_block")
    assert found["batchmatmul to silu"].endswith("adds up parts of it over cores")
    assert found["ReStickifyOpHBM to batchmatmul"].endswith("makes it, which goes through memory")
    assert found["mul to batchmatmul"].endswith("divide it differently")
