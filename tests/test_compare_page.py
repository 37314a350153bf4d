"""The page of a comparison in a real browser, clicked through with the mouse."""

from collections.abc import Iterator

import chromium
import pytest
import torch
from torch import nn

import torch_spyre

BROWSER = chromium.find()
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium in PATH, and none fetched (make browser tells why)"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Chromium]:
    place = tmp_path_factory.mktemp("page")
    assert BROWSER is not None
    if why := chromium.why_not(BROWSER):
        pytest.skip(f"{BROWSER} does not start here: {why}")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Sequential(nn.Linear(128, 64), nn.Softmax(-1)))
    found = torch_spyre.compare(model, torch.randn(16, 64), dtype=torch.float16, bound=1e-4)
    with chromium.Chromium(BROWSER, place) as browser:
        browser.open(f"file://{found.html(place / 'page.html')}")
        yield browser


@pytest.fixture(autouse=True)
def _as_it_was_opened(page: chromium.Chromium) -> Iterator[None]:
    yield
    page.evaluate("sorted = 'number'; falling = false; chosen = picked = null; byId('search').value = ''; draw()")


def count(page: chromium.Chromium, selector: str) -> int:
    return int(page.evaluate(f"document.querySelectorAll({selector!r}).length"))


def test_it_loads_nothing_and_shows_everything(page: chromium.Chromium) -> None:
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0
    assert count(page, "#modules tr") == page.evaluate("records.modules.length") == 6
    assert count(page, "#rows tr") == page.evaluate("records.operators.length") >= 4
    assert count(page, "#weights tr") == 4
    assert count(page, "#course circle.own") == page.evaluate(
        "records.operators.filter(o => o.own.relative > 0).length"
    )
    assert count(page, "#modules tr.beyond") == 6  # the bound is below the format's own


def test_a_click_on_a_module_keeps_its_operators(page: chromium.Chromium) -> None:
    page.click("[...byId('modules').children].find(row => row.cells[0].textContent === '2')")
    inside = page.evaluate("records.operators.filter(o => o.module.startsWith('2')).length")
    assert 0 < count(page, "#rows tr") == inside < page.evaluate("records.operators.length")
    page.click("byId('modules').querySelector('.picked')")
    assert count(page, "#rows tr") == page.evaluate("records.operators.length")


def test_a_search_keeps_what_it_finds(page: chromium.Chromium) -> None:
    page.click("byId('search')")
    page.type("gelu")
    assert count(page, "#rows tr") == 1
    assert page.evaluate("byId('found').textContent").startswith("1 of ")


def test_a_click_on_a_head_sorts(page: chromium.Chromium) -> None:
    page.click("[...byId('head').children].find(th => th.textContent === 'rounds')")
    first = page.evaluate("Number(byId('rows').children[0].cells[0].textContent)")
    assert first == page.evaluate("[...records.operators].sort((a, b) => b.own.relative - a.own.relative)[0].number")


def test_a_click_on_a_point_picks_its_row(page: chromium.Chromium) -> None:
    page.click("byId('course').querySelector('circle.own')")
    number = page.evaluate("Number(byId('course').querySelector('circle.own').dataset.number)")
    assert page.evaluate("Number(byId('rows').querySelector('.picked').cells[0].textContent)") == number
