"""The page about bundles says what the code does: its tables are the code's, its example is one."""

import re
from pathlib import Path

import pytest

from openspyre.artifact import launch_spec
from openspyre.artifact.extensions import record
from openspyre.artifact.fields import Problems
from openspyre.artifact.mlir_reader import read_function
from openspyre.artifact.mlir_writer import function_text

PAGE = (Path(__file__).parents[2] / "docs" / "bundle.md").read_text()
TABLES = {"launch spec": launch_spec.FIELDS, "layout": launch_spec.LAYOUT_FIELDS, **record.FIELDS}


def shown(field: str, meaning: str) -> str:
    return f"| `{field}` | {meaning} |\n"


@pytest.mark.parametrize("fields", TABLES.values(), ids=TABLES)
def test_every_table_is_the_codes(fields: dict[str, str]) -> None:
    table = "| field | meaning |\n|---|---|\n" + "".join(shown(*row) for row in fields.items())
    assert table + "\n" in PAGE, f"the page should have\n{table}"


def test_the_execution_list_of_the_page_is_one() -> None:
    found = re.search(r"```mlir\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    problems = Problems("")
    function = read_function(found[1], problems)
    assert problems.found == []
    assert function is not None
    assert function_text(function) == found[1]
