"""The page of a history in a real browser: headless Chromium, without a network."""

from __future__ import annotations

import numpy as np
import pytest

from bench_compare.cli import main
from tests.bench_compare.history import make
from tests.bench_compare.report.conftest import HOSTILE
from tests.bench_compare.report.test_browser import browser

__all__ = ["browser"]


@pytest.fixture(scope="module")
def trend(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    make.archive(
        folder / "a",
        cases=8,
        steps=((1, 14, 1.08), (2, 14, 1.05), (3, 23, 1.1)),
        change=(14, {"environment": {"A": HOSTILE[0]}, "libraries": {HOSTILE[1]: HOSTILE[2]}}),
    )
    assert main(["history", str(folder / "a"), "-q", "--html", str(folder / "t.html")]) == 2
    return folder / "t.html"


def shown(browser, trend, place=""):
    browser.get("about:blank")
    browser.get(trend.as_uri() + place)
    assert browser.execute_script("return document.documentElement.dataset.ready") is not None


def texts(browser, selector):
    return [node.text for node in browser.find_elements("css selector", selector)]


@pytest.mark.long
def test_the_page_shows_the_answer_the_events_and_every_series(browser, trend):
    shown(browser, trend)
    (answer,) = texts(browser, "h1")
    assert answer.startswith("FAIL: 1 new regression, not accepted: ")
    assert 1 == len(texts(browser, "#report .event"))
    assert 8 == len(texts(browser, "tr[id^=s0]"))


@pytest.mark.long
def test_no_text_of_a_document_is_markup_and_nothing_fails(browser, trend):
    shown(browser, trend)
    assert browser.execute_script("return window.hacked") is None
    assert [] == [one["message"] for one in browser.get_log("browser")]


@pytest.mark.long
def test_the_first_chart_is_that_of_the_newest_event(browser, trend):
    shown(browser, trend)
    browser.implicitly_wait(5)
    browser.find_element("css selector", "#report > figure .main-svg")
    browser.implicitly_wait(0)
    assert texts(browser, "#report > figure figcaption")[0].startswith("graph_001 ")


@pytest.mark.long
def test_a_point_tells_its_build_and_document(browser, trend):
    shown(browser, trend)
    browser.implicitly_wait(5)
    browser.find_element("css selector", "#report > figure .main-svg")
    browser.implicitly_wait(0)
    text = browser.execute_script(
        "return document.querySelector('#report > figure .chart').data[0].text[14]"
    )
    assert text.endswith("d014.json")


@pytest.mark.long
def test_charts_follow_the_colours_that_a_reader_chooses(browser, trend):
    shown(browser, trend)
    browser.implicitly_wait(5)
    browser.find_element("css selector", "#report > figure .main-svg")
    browser.implicitly_wait(0)
    script = "return document.querySelector('#report > figure .chart').layout.font.color"
    colors = []
    for _ in range(2):  # light, then dark
        browser.find_element("css selector", "#theme").click()
        colors.append(browser.execute_script(script))
    assert ["#1c1f23", "#e7e6e2"] == colors


@pytest.mark.long
def test_paper_has_the_charts_that_were_not_in_view(browser, trend):
    shown(browser, trend)
    browser.execute_cdp_cmd("Page.printToPDF", {})
    assert len(browser.find_elements("css selector", "figure .main-svg")) >= 8


@pytest.mark.long
def test_an_event_has_the_command_that_compares_its_documents(browser, trend):
    shown(browser, trend)
    browser.find_elements("css selector", ".event summary")[-1].click()
    assert "d013.json" in texts(browser, ".event pre")[0]
    assert "d014.json" in texts(browser, ".event pre")[0]


@pytest.mark.long
def test_a_series_links_to_its_chart(browser, trend):
    shown(browser, trend)
    browser.find_element("css selector", "tr#s0003 a").click()
    assert browser.current_url.endswith("#chart-s0003")


@pytest.mark.long
def test_a_head_sorts_its_table(browser, trend):
    shown(browser, trend)
    heads = browser.find_elements("css selector", "section:has(tr[id^=s0]) thead button")
    next(head for head in heads if head.text.startswith("series")).click()
    names = [text.split()[0] for text in texts(browser, "tr[id^=s0]")]
    assert names == sorted(names)


@pytest.mark.long
def test_a_search_narrows_a_long_table(browser, tmp_path):
    make.archive(tmp_path / "a", builds=4, cases=14)
    main(["history", str(tmp_path / "a"), "-q", "--html", str(tmp_path / "t.html")])
    shown(browser, tmp_path / "t.html")
    browser.find_element("css selector", "#report input").send_keys("graph_004")
    assert 1 == len(texts(browser, "tr[id^=s0]"))


@pytest.mark.long
def test_the_page_fits_a_telephone_with_a_chart_on_its_first_screen(browser, trend):
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        shown(browser, trend)
        width = browser.execute_script("return document.documentElement.scrollWidth")
        top = browser.execute_script(
            "return document.querySelector('#report figure').getBoundingClientRect().top"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert (width, top < 600) == (390, True)


@pytest.mark.long
def test_absent_series_come_last_and_raise_no_alarm(browser, tmp_path):
    random = np.random.default_rng(1)
    rows = [make.one(n, [1e6, 1e6, None if n > 7 else 1e6], random=random) for n in range(9)]
    make.write(tmp_path / "a", rows)
    main(["history", str(tmp_path / "a"), "-q", "--html", str(tmp_path / "t.html")])
    shown(browser, tmp_path / "t.html")
    states = [text.replace("\n", "") for text in texts(browser, "tr[id^=s0] .verdict")]
    assert ["●same", "●same", "–absent"] == states
