"""The page of a history in a real browser: headless Chromium, without a network."""

from __future__ import annotations

import numpy as np
import pytest

from bench_compare.cli import main
from tests.bench_compare.history import make
from tests.bench_compare.report.chromium import browser, drawn, look, texts, until
from tests.bench_compare.report.conftest import HOSTILE

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
    look(browser, trend.as_uri() + place)


@pytest.mark.long
def test_the_page_shows_the_answer_the_events_and_every_series(browser, trend):
    shown(browser, trend)
    (answer,) = texts(browser, "h1")
    assert answer.startswith("FAIL: 1 new regression, not accepted: ")
    assert 1 == len(texts(browser, ".event"))
    assert 8 == len(texts(browser, "tr[id^=s0]"))


@pytest.mark.long
def test_no_text_of_a_document_is_markup_and_nothing_fails(browser, trend):
    shown(browser, trend)
    assert browser.execute_script("return window.hacked") is None
    assert [] == [one["message"] for one in browser.get_log("browser")]


@pytest.mark.long
def test_a_point_tells_its_build_and_document(browser, trend):
    shown(browser, trend)
    assert drawn(browser, "main > figure .chart")["data"][0]["text"][14].endswith("d014.json")


@pytest.mark.long
def test_an_event_has_the_command_that_compares_its_documents(browser, trend):
    shown(browser, trend)
    browser.find_elements("css selector", ".event summary")[-1].click()
    assert "d013.json" in texts(browser, ".event pre")[0]
    assert "d014.json" in texts(browser, ".event pre")[0]


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
    browser.find_element("css selector", "input").send_keys("graph_004")
    assert until(lambda: 1 == len(browser.find_elements("css selector", "tr[id^=s0]")))


@pytest.mark.long
def test_absent_series_come_last_and_raise_no_alarm(browser, tmp_path):
    random = np.random.default_rng(1)
    rows = [make.one(n, [1e6, 1e6, None if n > 7 else 1e6], random=random) for n in range(9)]
    make.write(tmp_path / "a", rows)
    main(["history", str(tmp_path / "a"), "-q", "--html", str(tmp_path / "t.html")])
    shown(browser, tmp_path / "t.html")
    states = [text.replace("\n", "") for text in texts(browser, "tr[id^=s0] .state")]
    assert ["●same", "●same", "–absent"] == states
