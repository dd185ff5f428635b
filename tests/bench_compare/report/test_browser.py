"""The page in a real browser: headless Chromium, driven by selenium, without a network."""

import os
import re
import sys
from pathlib import Path

import pytest

from bench_compare.cli import main
from bench_compare.comparison.compare import compare
from bench_compare.model import View
from bench_compare.policy import Policy
from tests.bench_compare.compose.sample import composition
from tests.bench_compare.history import make as archives
from tests.bench_compare.report import samples_of
from tests.bench_compare.report.chromium import (
    browser,
    drawn,
    find,
    look,
    problems,
    texts,
    until,
    wait_for_case,
)
from tests.bench_compare.report.shown import render
from tests.benchmarks import html_size
from tests.conftest import ROOT

__all__ = ["browser"]

pytestmark = pytest.mark.long

KINDS = ("suite", "hostile", "imported", "several", "three", "blind", "bad", "tuning")
REPORTS = (*KINDS, "history", "composition")
AXE = Path(
    os.environ.get("AXE_CORE")
    or Path(sys.prefix) / "lint" / "node_modules" / "axe-core" / "axe.min.js"
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory, suite, hostile_suite, make):
    folder = tmp_path_factory.mktemp("pages")
    made = {"suite": suite, "hostile": hostile_suite, "bad": samples_of.many_bad(make)}
    for name in ("imported", "several", "three", "blind", "powered"):
        made[name] = getattr(samples_of, name)()
    made["composition"] = composition()
    for name, found in made.items():
        (folder / f"{name}.html").write_text(render("html", found, View()), encoding="utf-8")
    archives.archive(folder / "a", cases=8, steps=((1, 14, 1.08), (3, 23, 1.1)))
    main(["history", str(folder / "a"), "-q", "--html", str(folder / "history.html")])
    main(["pages", str(folder / "a"), "-o", str(folder / "site")])
    tuned = ROOT / "tests" / "data" / "tuning" / "tuned_v3.json"
    main([str(tuned), "-q", "--html", str(folder / "tuning.html")])
    return folder


@pytest.fixture(scope="module")
def address(pages):
    """Puts a page where all are opened, and returns the address: Chromium keeps what it compiled
    of a page's scripts by address, and compiling plotly anew takes it a second."""
    link = pages / "page.html"

    def put(page):
        link.unlink(missing_ok=True)
        link.symlink_to(page)
        return link.as_uri()

    return put


@pytest.fixture
def opened(browser, pages, address):
    """Opens a page (at an anchor, at a width) and waits until it can be used."""

    def go(name="suite", anchor="", **how):
        return look(browser, address(pages / f"{name}.html") + anchor, **how)

    return go


def shown(browser):
    """Ids of the rows of the table of cases, in order."""
    script = "return [...document.querySelectorAll('#list tbody tr')].map(row => row.dataset.id)"
    return browser.execute_script(script)


def names(browser):
    return [text.split("\n")[0] for text in texts(browser, "#list .cell-name")]


def test_the_page_opens_without_a_word_on_the_console(opened):
    browser = opened(anchor="#c0002")
    wait_for_case(browser, "c0002")
    assert [] == problems(browser)


@pytest.mark.slow
def test_the_page_asks_no_server_for_anything(opened):
    script = "return performance.getEntriesByType('resource').map(one => one.name)"
    asked = [name for name in opened().execute_script(script) if not name.startswith("data:")]
    assert [] == asked


def test_searching_narrows_the_table(opened):
    browser = opened()
    find(browser, "#list input").send_keys("nhwc")
    until(lambda: shown(browser) == ["c0002", "c0003"])
    assert "2 of 10 rows" == find(browser, "#list .shown").text


def test_a_search_may_be_a_glob_of_a_whole_word(opened):
    browser = opened()
    find(browser, "#list input").send_keys("*_n4096")
    assert until(lambda: set(shown(browser)) == {"c0004", "c0008"})


def test_the_words_of_a_search_must_all_fit(opened):
    browser = opened()
    find(browser, "#list input").send_keys("nhwc slower")
    assert until(lambda: shown(browser) == ["c0002"])


def test_a_head_sorts_and_pressed_again_turns_round(opened):
    browser = opened()
    head = browser.find_element("xpath", "//*[@id='list']//th[.='change']")
    head.find_element("css selector", "button").click()
    first = shown(browser)
    assert ("c0008", "ascending") == (first[0], head.get_attribute("aria-sort"))
    head.find_element("css selector", "button").click()
    assert (first[::-1], "descending") == (shown(browser), head.get_attribute("aria-sort"))


def test_a_verdict_shows_its_cases_alone(opened):
    browser = opened()
    find(browser, ".chip[data-state=slower]").click()
    assert ["c0008", "c0002"] == shown(browser)
    assert "true" == find(browser, ".chip[data-state=slower]").get_attribute("aria-pressed")


@pytest.mark.slow
def test_the_address_keeps_search_state_and_order(opened):
    browser = opened()
    find(browser, "#list input").send_keys("conv")
    until(lambda: len(shown(browser)) < 10)
    browser.find_element("xpath", "//*[@id='list']//th[.='change']/button").click()
    find(browser, ".chip[data-state=slower]").click()
    place, rows = browser.current_url.partition("#")[2], shown(browser)
    assert {"find", "sort", "state"} == {word.split("=")[0] for word in place.split("&")}
    assert rows == shown(opened(anchor=f"#{place}"))
    assert "conv" == find(browser, "#list input").get_attribute("value")


def test_an_address_of_nothing_known_shows_everything(opened):
    browser = opened(anchor="#sort=magic&state=odd&case=c9999")
    assert (10, []) == (len(shown(browser)), problems(browser))


def test_the_first_figure_names_each_case_with_its_change_in_words(opened):
    made = drawn(opened())
    places = dict(enumerate(made["layout"]["yaxis"]["ticktext"]))
    words = {one["y"]: one["text"] for one in made["layout"]["annotations"]}
    assert ("pointwise_add_n4096", "2.75× slower") == (places[0], words[0])
    assert "2.44× faster" in words.values()
    assert 6 == len(places) == len(words)


def test_a_figure_has_an_interval_for_each_case_and_the_band_of_the_threshold(opened):
    shapes = drawn(opened())["layout"]["shapes"]
    assert 6 == sum(one["type"] == "line" and one["x0"] != one["x1"] for one in shapes)
    assert [pytest.approx(1.01)] == [one["x1"] for one in shapes if one["type"] == "rect"]


def test_units_and_metric_are_told_in_words(opened):
    title = drawn(opened())["layout"]["xaxis"]["title"]["text"]
    assert "device time, median, other against base" == title
    assert not re.search(r"\b(device|e2e)_ns\b", find(opened("several"), "main").text)


def test_on_a_phone_names_and_words_stand_above_the_dots(opened):
    made = drawn(opened(width=390))
    assert made["layout"]["yaxis"]["showticklabels"] is False
    assert 12 == len(made["layout"]["annotations"])


def test_every_number_of_a_row_is_there_on_a_phone(opened):
    browser = opened(width=390)
    row = find(browser, "#list tr[data-id=c0002]").text
    for text in ("20.00 µs", "22.74 µs", "1.14× slower", "1.13× to 1.14× slower"):
        assert text in row


def test_pressing_a_dot_opens_its_case(opened):
    from selenium.webdriver import ActionChains

    browser = opened()
    drawn(browser)
    point = until(lambda: browser.find_elements("css selector", "#overview .points path"))[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", point)
    script = """const box = arguments[0].getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2]"""
    pointer = ActionChains(browser)
    pointer.w3c_actions.pointer_action.move_to_location(
        *map(round, browser.execute_script(script, point))
    )
    pointer.perform()
    until(lambda: "840 ns" in " ".join(texts(browser, ".hoverlayer")))
    ActionChains(browser).click().perform()
    assert wait_for_case(browser, "c0008")


def test_there_is_one_headline(opened):
    browser = opened("blind")
    (answer,) = texts(browser, "h1")
    assert answer.startswith("UNDECIDED: ")
    assert "No answer" not in find(browser, "main").text


def test_the_keyboard_opens_walks_and_closes(opened):
    from selenium.webdriver import ActionChains, Keys

    browser = opened()
    find(browser, "#list tbody a").send_keys(Keys.ENTER)
    wait_for_case(browser, "c0005")
    ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
    wait_for_case(browser, "c0007")
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert until(lambda: not find(browser, "#panel").is_displayed())


def test_figures_of_a_case_are_drawn_when_it_is_opened(opened):
    browser = opened()
    assert 0 == len(browser.find_elements("css selector", "#panel .js-plotly-plot"))
    find(browser, "tr[data-id=c0002]").click()
    wait_for_case(browser, "c0002")
    there = "#panel .js-plotly-plot"
    assert until(lambda: len(browser.find_elements("css selector", there)) >= 2)
    assert "base: 100 samples" in find(browser, "#panel").text


def test_the_panel_of_a_summary_shows_what_it_knows(opened):
    browser = opened("imported", "#c0001")
    wait_for_case(browser, "c0001")
    text = find(browser, "#panel").text
    assert "median mean\nbase, device time 1.000 ms 1.010 ms\nother," in text
    assert "summaries without samples: no interval" in text
    assert "unknown" not in text


def test_a_broken_case_tells_the_last_words(opened):
    browser = opened(anchor="#c0005")
    wait_for_case(browser, "c0005")
    assert "last words" == find(browser, "#panel pre").text


@pytest.mark.slow
def test_hostile_names_are_text_everywhere(opened, make):
    from bench_schema.names import safe

    browser = opened("hostile")
    for index, name in enumerate(make.HOSTILE):
        browser.execute_script(f"location.hash = 'c{index:04}'")
        wait_for_case(browser, f"c{index:04}")
        title = browser.execute_script("return document.getElementById('panel-title').textContent")
        assert safe(name) == title
    assert [] == problems(browser)
    assert not browser.execute_script(
        "return window.hacked || document.querySelector('img, svg[onload]')"
    )


def test_what_moved_besides_comes_before_the_numbers_of_a_case(opened):
    browser = opened("three", "#c0002")
    wait_for_case(browser, "c0002")
    assert "What moved besides" == texts(browser, "#panel h3")[0]
    assert "plan, engine id 8 57" in find(browser, "#panel .facts").text


def test_several_sides_are_columns_of_one_row(opened):
    browser = opened("three")
    heads = texts(browser, "section.list:not(#list) th")
    row = texts(browser, "section.list:not(#list) tbody tr")[1]
    assert ["new", "newest"] == [head.rstrip(" ↕") for head in heads[2:]]
    assert re.search(r"graph_1 .*▲\s*1.3\d?× slower ▼\s*1.4\d?× faster", row)


def test_the_cell_of_a_side_opens_its_case(opened):
    browser = opened("three")
    browser.find_elements("css selector", "section.list:not(#list) td a .state")[1].click()
    assert wait_for_case(browser, "c0004")


@pytest.mark.slow
def test_what_devices_told_stands_at_their_own_case(opened):
    browser = opened("powered")
    script = """return [...document.querySelectorAll('#panel .facts tr')]
        .filter(row => row.cells[0].textContent === 'power').map(row => row.textContent)[0]"""
    told = []
    for number in range(1, 5):  # in the order of base, then what only other has
        browser.execute_script("location.hash = arguments[0]", f"c000{number}")
        wait_for_case(browser, f"c000{number}")
        told.append(re.findall(r"\d+", browser.execute_script(script)))
    assert [["110", "210"], ["130"], ["140", "240"], ["220"]] == told


def test_no_bad_news_is_said_once_together_with_what_could_have_been_seen(
    browser, address, tmp_path
):
    path = tmp_path / "same.html"
    sides = (samples_of.side("old", 1, 1.0, seed=1), samples_of.side("new", 1, 1.0, seed=2))
    same = compare(sides[0], [sides[1]], Policy())
    path.write_text(render("html", same, View()), encoding="utf-8")
    text = find(look(browser, address(path)), "body").text
    assert 1 == text.lower().count("would have been seen in 9 of 10 cases")


def test_the_first_chart_is_on_the_first_screen_of_a_phone(opened):
    script = "return document.querySelector('.chart').getBoundingClientRect().top"
    for name in ("several", "history", "composition"):
        assert opened(name, width=390).execute_script(script) < 700


def test_paper_has_light_colours_and_every_figure(opened):
    browser = opened("history", scheme="dark")
    browser.execute_cdp_cmd("Page.printToPDF", {})
    assert len(browser.find_elements("css selector", "figure .main-svg")) >= 8
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    color = "return getComputedStyle(document.body).color"
    assert "rgb(28, 31, 35)" == browser.execute_script(color)


@pytest.mark.parametrize("name", REPORTS)
def test_nothing_scrolls_sideways_on_a_phone(opened, name):
    anchor = "#c0001" if name in KINDS and name != "bad" else ""
    browser = opened(name, anchor=anchor, width=390)
    if anchor:
        wait_for_case(browser, "c0001")
    script = """return ['html', '#panel'].map(name => document.querySelector(name))
        .filter(Boolean).every(node => node.scrollWidth <= node.clientWidth
            && node.clientWidth <= 390)"""
    assert browser.execute_script(script)


def test_dark_follows_the_system_until_the_reader_chooses(opened):
    browser = opened(scheme="dark")
    script = "return getComputedStyle(document.body).backgroundColor"
    dark = browser.execute_script(script)
    find(browser, "#theme").click()
    light = browser.execute_script(script)
    assert ("rgb(20, 23, 26)", "rgb(251, 250, 248)") == (dark, light)


def test_figures_follow_the_colours_that_a_reader_chooses(opened):
    browser = opened()
    drawn(browser)
    colors = []
    for _ in range(2):  # light, then dark
        find(browser, "#theme").click()
        colors.append(drawn(browser)["data"][0]["marker"]["color"][0])
    assert ["#b34700", "#f59345"] == colors


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [*REPORTS, "site/index"])
def test_axe_finds_nothing(browser, pages, name, scheme):
    """Contrast, names of controls, heads of tables, order of headings: rules of WCAG 2.1 AA."""
    if not AXE.exists():
        pytest.skip(f"no {AXE}: make lint")
    from selenium.webdriver.support.ui import WebDriverWait

    path = (pages / f"{name}.html").as_uri()
    if name == "site/index":
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})
        browser.get(path)
        WebDriverWait(browser, 10).until(lambda it: it.find_elements("css selector", "h1"))
    else:
        look(browser, path, scheme=scheme)
    found = violations(browser)
    if name in ("suite", "several", "tuning"):
        browser.execute_script("location.hash = 'c0002'")
        wait_for_case(browser, "c0002")
        found += violations(browser)
    assert [] == found


def violations(browser):
    """What axe-core finds wrong: its rule and the element."""
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
    script = """const done = arguments[arguments.length - 1];
        axe.run(document, {runOnly: arguments[0]}).then(({violations}) => done(violations.flatMap(
            (one) => one.nodes.map((node) => `${one.id}: ${node.html.slice(0, 120)}`))))"""
    return browser.execute_async_script(script, tags)


def test_motion_is_left_out_for_readers_who_ask(opened):
    browser = opened()
    wanted = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})
    script = """const style = (node) => getComputedStyle(node);
        return [...document.querySelectorAll('*')].filter((node) =>
            style(node).animationName !== 'none'
            || style(node).transitionDuration !== '0s').length"""
    assert 0 == browser.execute_script(script)


def test_a_series_links_to_its_figure(opened):
    browser = opened("history")
    find(browser, "tr#s0003 a").click()
    assert browser.current_url.endswith("#chart-s0003")


def test_the_first_figure_of_a_history_is_that_of_the_newest_event(opened):
    assert texts(opened("history"), "main > figure figcaption")[0].startswith("graph_001 ")


def test_a_layer_opens_to_all_that_was_measured(opened):
    browser = opened("composition")
    find(browser, ".cell-name summary").click()
    lines = texts(browser, ".cell-name details[open] li")
    assert [True, True, True] == [
        word in line for word, line in zip(("chosen", "baseline", "wrong"), lines, strict=True)
    ]


def test_a_comparison_of_many_names_the_first_and_draws_all(opened):
    browser = opened("bad")
    assert 40 == len(drawn(browser)["layout"]["annotations"])
    browser.execute_script("document.getElementById('spread').scrollIntoView()")
    points = drawn(browser, "#spread .chart")["data"]
    assert 60 == sum(len(one["x"]) for one in points if one["mode"] == "markers")


@pytest.mark.slow
def test_five_thousand_cases_stay_small_and_open_quickly(browser, tmp_path):
    path = tmp_path / "large.html"
    path.write_text(render("html", html_size.suite(5_000, 1_000), View()), encoding="utf-8")
    assert path.stat().st_size < 12_000_000
    assert min(html_size.ready_ms(browser, path) for _ in range(3)) < 3_000
    assert html_size.drawn_ms(browser) < 3_000
