"""The page about bundles says what the code does: its tables are the code's, its example is one."""

import re
from pathlib import Path

import pytest

from openspyre.artifact import extension, manifest
from openspyre.artifact.fields import Problems
from openspyre.artifact.mlir import parse_listing, print_listing

PAGE = (Path(__file__).parents[2] / "docs" / "bundle.md").read_text()


def shown(field: str, meaning: str) -> str:
    return f"| `{field}` | {meaning} |\n"


@pytest.mark.parametrize(
    "fields",
    [manifest.FIELDS, manifest.BUFFER_FIELDS, *extension.FIELDS.values()],
    ids=["manifest", "tensor entry", *extension.FIELDS],
)
def test_every_table_is_the_codes(fields: dict[str, str]) -> None:
    table = "| field | meaning |\n|---|---|\n" + "".join(shown(*row) for row in fields.items())
    assert table + "\n" in PAGE, f"the page should have\n{table}"


def test_the_execution_list_of_the_page_is_one() -> None:
    found = re.search(r"```mlir\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    problems = Problems("")
    listing = parse_listing(found[1], problems)
    assert problems.found == []
    assert listing is not None
    assert print_listing(listing) == found[1]
