from collections.abc import Callable

from openspyre.spec.ops import TABLE
from openspyre.tools.places import ROOT, place_of
from openspyre.tools.where import row_lines


def test_every_row_is_found_on_the_line_that_names_it() -> None:
    for name, (file, line) in row_lines().items():
        text = (ROOT / file).read_text().splitlines()[line - 1]
        assert f'"{name}"' in text, f"{file}:{line}"
    assert row_lines().keys() == TABLE.keys()


def test_a_function_that_another_made_is_found_by_the_name_it_is_kept_under() -> None:
    def make() -> Callable[[], None]:
        return lambda: None

    table = {"an_operator_of_this_test": make()}
    place = place_of("an_operator_of_this_test", "kernel", table["an_operator_of_this_test"])
    assert place.file == "openspyre/tools/test_where.py"
    assert "an_operator_of_this_test" in (ROOT / place.file).read_text().splitlines()[place.line - 1]
