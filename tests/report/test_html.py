"""The page, in a real browser: it draws, opens, filters, and no name of a model becomes anything but text."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from codl.analysis.bound import assess
from codl.report.assessment_page import render_assessment
from codl.report.html import embed_json, render_html
from codl.report.inspection import Inspection, Totals
from tests.browser import CHROMIUM, DRIVER, Browser, open_browser
from tests.graphs import residual_block
from tests.report.samples import (
    HOSTILE,
    PREDICTORS,
    count_colours,
    hostile_graph,
    inspect,
    long_graph,
    measure,
)

TAB, ENTER, RIGHT = "\ue004", "\ue007", "\ue014"
needs_browser = pytest.mark.skipif(
    DRIVER is None or CHROMIUM is None,
    reason="needs chromium and chromedriver (apt-get install chromium-driver)",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def small() -> Inspection:
    return measure(inspect(residual_block(height=64)))


def show(browser: Browser, inspection: Inspection, folder: Path) -> None:
    page = folder / "page.html"
    page.write_text(render_html(inspection), encoding="utf-8")
    browser.open(page)


def texts(selector: str) -> str:
    """Return the script that finds the texts of some elements."""
    return f"return [...document.querySelectorAll({selector!r})].map(element => element.textContent)"


@needs_browser
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_page_draws_everything_without_complaint(
    browser: Browser, small: Inspection, tmp_path: Path, is_dark: bool
) -> None:
    browser.set_dark(is_dark)
    show(browser, small, tmp_path)

    assert browser.log() == []
    assert browser.run("return document.querySelectorAll('#rows > li').length") == len(small.operators)
    assert browser.run("return document.querySelectorAll('#graph-box .node').length") == len(small.operators)
    launches = browser.run("return document.querySelectorAll('#timeline-box .span').length")
    assert launches >= len(small.operators)
    assert browser.run("return document.querySelectorAll('#scatter-box tbody tr').length") > 0
    dots = browser.run("return document.querySelectorAll('#scatter-box circle').length")
    assert dots == sum(len(operator.parts) for operator in small.operators)
    assert count_colours(browser.screenshot()) > 50
    shade = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", shade)[0]) < 128) is is_dark


@needs_browser
def test_row_opens_by_keyboard_and_shows_what_it_lost_to(
    browser: Browser, small: Inspection, tmp_path: Path
) -> None:
    show(browser, small, tmp_path)
    browser.run("document.querySelector('#rows summary').focus()")

    browser.press(ENTER)

    operator = small.operators[0]
    assert browser.run("return document.querySelector('#rows details').open")
    browser.wait_until("return document.querySelector('#rows .ways') !== null")
    labels = browser.run(texts("#rows .ways tbody td:first-child"))
    assert labels == [way.label for way in operator.alternatives]
    chosen = browser.run("return document.querySelector('#rows .ways tr.chosen td').textContent")
    assert chosen == next(way.label for way in operator.alternatives if way.is_chosen)
    assert browser.log() == []


@needs_browser
def test_filter_leaves_what_is_asked_for(browser: Browser, small: Inspection, tmp_path: Path) -> None:
    show(browser, small, tmp_path)

    browser.type("#filter", "conv_b")

    assert browser.run(texts("#rows > li:not([hidden]) .opname")) == ["conv_b"]
    assert browser.run(texts("#count")) == [f"1 of {len(small.operators)}"]


@needs_browser
def test_order_by_time_has_the_longest_first(browser: Browser, small: Inspection, tmp_path: Path) -> None:
    show(browser, small, tmp_path)

    browser.run("document.getElementById('order').value = 'time'")
    browser.run("document.getElementById('order').dispatchEvent(new Event('change'))")

    longest_first = sorted(small.operators, key=lambda operator: -(operator.measured_us or 0))
    assert browser.run(texts(".opname")) == [operator.name for operator in longest_first]


@needs_browser
def test_everything_is_reached_by_keyboard_and_has_a_name(
    browser: Browser, small: Inspection, tmp_path: Path
) -> None:
    show(browser, small, tmp_path)
    focused = "const e = document.activeElement; return e.id || e.textContent || e.tagName"

    names = []
    for _ in range(30):
        browser.press(TAB)
        names.append(browser.run(focused))

    assert names[0] == "Skip to the operators"
    assert "filter" in names
    assert any("conv_a" in name for name in names)
    for control in browser.run(
        "return document.querySelectorAll('button, input, select, summary, svg[tabindex]')"
    ):
        browser.run("arguments[0].scrollIntoView()", control)  # what is out of sight is not laid out
        assert browser.label(next(iter(control.values())))


@needs_browser
def test_pictures_are_walked_through_by_arrows(browser: Browser, small: Inspection, tmp_path: Path) -> None:
    show(browser, small, tmp_path)

    for picture in ("timeline", "graph"):
        browser.run(f"document.querySelector('#{picture}-box svg').focus()")
        browser.press(RIGHT)

        assert browser.run(f"return document.getElementById('{picture}-status').textContent")
        assert browser.run(f"return document.querySelectorAll('#{picture}-box .chosen').length") == 1
    browser.press(ENTER)
    assert browser.run("return document.querySelectorAll('#rows details[open]').length") == 1


@needs_browser
def test_hostile_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    show(browser, inspect(hostile_graph()), tmp_path)
    browser.run("document.querySelectorAll('#rows details').forEach(details => { details.open = true; })")
    browser.wait_until("return document.querySelectorAll('.body').length === 4")

    assert browser.log() == []
    assert browser.run("return window.pwned === undefined")
    assert browser.run("return document.querySelectorAll('script').length") == 2
    assert browser.run("return document.querySelectorAll('img, iframe, object, embed, base').length") == 0
    # The last name holds half a surrogate pair, which WebDriver cannot carry.
    names = browser.run(texts("#rows > li:not(:last-child) .opname"))
    assert names == list(HOSTILE[:3])


@needs_browser
def test_thousand_operators_are_shown(browser: Browser, tmp_path: Path) -> None:
    show(browser, inspect(long_graph(1000)), tmp_path)

    browser.type("#filter", "conv999")

    assert browser.log() == []
    assert browser.run("return document.getElementById('count').textContent") == "1 of 1000"
    assert browser.run("return document.querySelectorAll('#graph-box .node').length") == 1000
    assert browser.run("return document.querySelectorAll('#graph-strip rect').length") == 2001
    assert count_colours(browser.screenshot()) > 50


@needs_browser
def test_assessment_is_drawn_without_complaint(browser: Browser, tmp_path: Path) -> None:
    graph = hostile_graph()
    page = tmp_path / "page.html"
    page.write_text(render_assessment(assess(inspect(graph), graph, PREDICTORS)), encoding="utf-8")

    browser.open(page, is_drawn=False)

    assert browser.log() == []
    assert browser.run("return window.pwned === undefined")
    widths = browser.run("return [...document.querySelectorAll('.track i')].map(e => e.clientWidth)")
    assert max(widths) > 100


@needs_browser
def test_page_without_predictions_says_so(browser: Browser, tmp_path: Path) -> None:
    show(browser, strip(inspect(residual_block())), tmp_path)

    assert browser.log() == []
    assert "no profiles" in browser.run("return document.getElementById('bars').textContent")
    assert browser.run("return document.getElementById('timeline').hidden")


def strip(inspection: Inspection) -> Inspection:
    """Return an inspection as it is without profiles."""
    nothing = Totals(
        predicted_us=None, single_us=(None, None), best_single=None, best_single_us=None, ideal_us=None
    )
    operators = [
        replace(
            operator,
            predicted_us=None,
            of_total=None,
            alternatives=(),
            parts=tuple(replace(part, predicted_us=None, uncertainty=None) for part in operator.parts),
        )
        for operator in inspection.operators
    ]
    return replace(inspection, timeline=(), origins=(None, None), totals=nothing, operators=tuple(operators))


def test_page_loads_nothing(small: Inspection) -> None:
    page = render_html(small)

    assert set(re.findall(r'(?:src|href)="([^"]*)"', page)) == {"data:,", "#operators"}
    assert not re.findall(r"@import|url\(|fetch\(|XMLHttpRequest|innerHTML|document\.write|eval\(", page)
    assert "default-src 'none'" in page


def test_json_in_a_page_cannot_end_its_element() -> None:
    text = embed_json(["</script>", "<!--", "&amp;", "\u2028\u2029", "\ud800"])

    assert not set("<>&\u2028\u2029") & set(text)
    assert text.isascii()
