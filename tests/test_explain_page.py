"""The page of an explanation in a real browser, clicked through with the mouse."""

from collections.abc import Iterator

import chromium
import pytest
import torch

import torch_spyre

BROWSER = chromium.find()
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch's own, while Inductor loads
    pytest.mark.skipif(BROWSER is None, reason="no Chromium in PATH, and none fetched (make browser tells why)"),
]


class Attended(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scores, self.shares = torch.nn.Linear(256, 256, bias=False), torch.nn.Softmax(-1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.scores(x)  # the line of the product
        shares = self.shares(scores)  # the softmax(
        return shares.t().contiguous().exp()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Chromium]:
    place = tmp_path_factory.mktemp("page")
    assert BROWSER is not None
    if why := chromium.why_not(BROWSER):
        pytest.skip(f"{BROWSER} does not start here: {why}")
    model, x = Attended().half().to("spyre").requires_grad_(False), torch.randn(256, 256).half().to("spyre")
    torch_spyre.explain(model, x).html(place / "page.html")
    with chromium.Chromium(BROWSER, place) as browser:
        browser.open(f"file://{place}/page.html")
        yield browser


@pytest.fixture(autouse=True)
def _as_it_was_opened(page: chromium.Chromium) -> Iterator[None]:
    yield
    page.evaluate("picked = line = sorted = null; byId('search').value = ''; draw()")


def count(page: chromium.Chromium, selector: str) -> int:
    return int(page.evaluate(f"document.querySelectorAll({selector!r}).length"))


def test_it_loads_nothing_and_shows_every_execution_everywhere(page: chromium.Chromium) -> None:
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0
    executions = page.evaluate("all.length")
    assert executions >= 7
    shown = count(page, "#rows tr"), count(page, "#timeline rect"), count(page, "#graph rect")
    assert shown == (executions, executions, executions)
    assert count(page, "#scratchpads rect") == page.evaluate("records.launches[0].residents.length") > 0
    assert count(page, "#graph line") == page.evaluate("records.launches[0].edges.length") > 0


def test_a_search_keeps_what_it_finds(page: chromium.Chromium) -> None:
    page.click("byId('search')")
    page.type("batchmatmul")
    assert count(page, "#rows tr") == 1
    assert page.evaluate("byId('found').textContent").startswith("1 of ")


def test_a_click_on_a_row_marks_it_everywhere(page: chromium.Chromium) -> None:
    page.click("[...byId('rows').children].find(row => row.textContent.includes('batchmatmul'))")
    assert "the line of the product" in page.evaluate("byId('lines').querySelector('.picked').textContent")
    assert "reads" in page.evaluate("byId('detail').textContent")
    assert [count(page, f"#{part} .picked") for part in ("rows", "timeline", "graph", "roofline")] == [1, 1, 1, 1]
    page.click("byId('rows').querySelector('.picked')")
    assert count(page, ".picked") == 0


@pytest.mark.parametrize("part", ["timeline", "graph"])
def test_a_click_into_a_picture_picks_what_is_there(page: chromium.Chromium, part: str) -> None:
    page.click(f"byId('{part}').querySelectorAll('rect')[0]")
    assert page.evaluate("picked.number") == 0 and count(page, "#rows .picked") == 1


def test_a_line_shows_its_ops_and_gives_back_the_others(page: chromium.Chromium) -> None:
    every = count(page, "#rows tr")
    page.click("[...byId('lines').children].find(row => row.textContent.includes('softmax('))")
    ops = page.evaluate("[...byId('rows').children].map(row => row.firstChild.textContent.split(' ')[1])")
    assert {"max", "sub", "sum", "realdiv"} <= set(ops) and "batchmatmul" not in ops
    assert count(page, "#graph .faded") == count(page, "#timeline .faded") == every - len(ops)
    page.click("byId('lines').querySelector('.marked')")
    assert count(page, "#rows tr") == every


def test_a_module_shows_its_ops_and_an_op_its_line_module_and_names(page: chromium.Chromium) -> None:
    every = count(page, "#rows tr")
    page.click("[...byId('modules').children].find(row => row.textContent.includes('shares (Softmax)'))")
    ops = page.evaluate("[...byId('rows').children].map(row => row.firstChild.textContent.split(' ')[1])")
    assert {"max", "sub", "sum", "realdiv"} <= set(ops) and "batchmatmul" not in ops
    assert count(page, "#graph .faded") == every - len(ops)
    page.click("byId('modules').querySelector('.marked')")
    page.click("[...byId('rows').children].find(row => row.textContent.includes('realdiv'))")
    assert "the softmax(" in page.evaluate("byId('lines').querySelector('.picked').textContent")
    assert "shares (Softmax)" in page.evaluate("byId('modules').querySelector('.picked').textContent")
    detail = page.evaluate("byId('detail').textContent")
    assert "through softmax \u2192 _softmax" in detail or "\u2192 _softmax \u2192" in detail
    assert "decomposition by ExpandComposites" in detail


def test_a_column_sorts(page: chromium.Chromium) -> None:
    page.click("[...byId('head').children].find(head => head.textContent === 'time')")
    longest = page.evaluate("all.reduce((a, b) => a.time_us > b.time_us ? a : b).name")
    page.click("byId('rows').firstChild")
    assert page.evaluate("picked.name") == longest


def test_a_tensor_in_memory_tells_why_and_leads_to_its_writer(page: chromium.Chromium) -> None:
    kept = page.evaluate("records.launches[0].kept_out[0]")
    assert page.evaluate("byId('kept').firstChild.lastChild.textContent") == kept["why"] != ""
    page.click("byId('kept').firstChild")
    assert page.evaluate("picked.number") == (
        kept["written_by"] if kept["written_by"] is not None else kept["read_by"][0]
    )
