"""The page of a history in a real browser: headless Chromium, without a network."""

from __future__ import annotations

import time

import numpy as np
import pytest

from bench_compare.cli import main
from bench_compare.report import history
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
        steps=((1, 14, 1.08), (2, 14, 1.05), (3, 23, 1.3)),
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


def test_the_page_shows_the_state_the_events_and_every_series(browser, trend):
    shown(browser, trend)
    (answer,) = texts(browser, "h1")
    assert answer.startswith("FAIL: 1 new regression, not accepted: ")
    assert 1 == len(texts(browser, "#events .event"))
    assert 8 == len(texts(browser, "#rows tbody tr"))


def test_no_text_of_a_document_is_markup_and_nothing_fails(browser, trend):
    shown(browser, trend)
    assert browser.execute_script("return window.hacked") is None
    assert [] == [one["message"] for one in browser.get_log("browser")]


def test_a_link_opens_a_series_with_its_chart(browser, trend):
    shown(browser, trend, "#s0002")
    assert ["graph_001"] == texts(browser, "dialog[open] h2")
    assert 24 == len(browser.find_elements("css selector", "dialog .hit"))


def test_a_point_tells_its_document_and_the_command(browser, trend):
    shown(browser, trend, "#s0002")
    browser.execute_script(
        "document.querySelectorAll('dialog .hit')[14].dispatchEvent(new Event('click'))"
    )
    assert "d013.json" in texts(browser, "dialog pre")[0]
    assert "d014.json" in texts(browser, "dialog pre")[0]


def test_the_arrow_keys_go_to_the_next_series(browser, trend):
    shown(browser, trend, "#s0002")
    before = texts(browser, "dialog[open] h2")
    browser.find_element("css selector", "dialog").send_keys("\ue014")
    time.sleep(0.2)
    assert before != texts(browser, "dialog[open] h2")


def test_a_search_is_kept_in_the_address(browser, trend):
    shown(browser, trend)
    browser.find_element("css selector", "#search").send_keys("graph_004")
    time.sleep(0.3)
    assert 1 == len(texts(browser, "#rows tbody tr"))
    assert browser.current_url.endswith("#find=graph_004")


def test_a_link_to_a_search_selects(browser, trend):
    shown(browser, trend, "#state=slower&sort=name")
    assert 2 == len(texts(browser, "#rows tbody tr"))


def test_the_page_fits_a_telephone(browser, trend):
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        shown(browser, trend)
        width = browser.execute_script("return document.documentElement.scrollWidth")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= 390


def test_a_chart_can_be_read_on_a_telephone(browser, trend):
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        shown(browser, trend, "#s0002")
        height = browser.execute_script(
            "return document.querySelector('dialog .label').getBoundingClientRect().height"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert height >= 9


def test_levels_stay_within_the_frame_of_their_chart(browser, tmp_path):
    make.archive(tmp_path / "a", builds=5, cases=2)
    main(["history", str(tmp_path / "a"), "-q", "--html", str(tmp_path / "t.html")])
    shown(browser, tmp_path / "t.html", "#s0001")
    outside = browser.execute_script("""
        const frame = document.querySelector("dialog svg.history .grid").getBBox();
        const boxes = [...document.querySelectorAll("dialog svg.history .sure, dialog .hit")];
        return boxes.map((box) => box.getBBox()).filter((box) =>
            box.x < frame.x - 0.1 || box.x + box.width > frame.x + frame.width + 0.1).length;
    """)
    assert outside == 0


def test_absent_series_come_last_and_raise_no_alarm(browser, tmp_path):
    random = np.random.default_rng(1)
    rows = [make.one(n, [1e6, 1e6, None if n > 7 else 1e6], random=random) for n in range(9)]
    make.write(tmp_path / "a", rows)
    main(["history", str(tmp_path / "a"), "-q", "--html", str(tmp_path / "t.html")])
    shown(browser, tmp_path / "t.html")
    assert ["●same", "●same", "–absent"] == [
        text.replace("\n", "") for text in texts(browser, "#rows .cell-verdict")
    ]


def test_points_travel_within_a_hundredth_of_a_percent(tmp_path):
    values = np.exp(np.random.default_rng(1).normal(0, 1, 100))
    decoded = np.exp(np.array([history._step(value) for value in values]) / history.STEPS)
    assert np.abs(decoded / values - 1).max() < 1e-4
