"""The page in a real browser: headless Chromium, driven by selenium, without a network."""

import math
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench_schema.document import Summary

from bench_compare.comparison.compare import compare
from bench_compare.model import Side, Source, Verdict, View
from bench_compare.policy import Policy
from bench_compare.report.html import samples
from tests.bench_compare.build import (
    case,
    document,
    gpu_case,
    gpu_document,
    gpu_round,
    round_,
    steady,
)
from tests.bench_compare.report.shown import render
from tests.benchmarks import html_size

pytestmark = pytest.mark.long

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1400,900",
)
PATIENCE_S = 30
MIDDLE = """const box = arguments[0].getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2]"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if not (CHROMIUM.exists() and DRIVER.exists()):
        pytest.skip(f"no {CHROMIUM} or {DRIVER} here")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    driver.set_script_timeout(PATIENCE_S)
    yield driver
    driver.quit()


def imported():
    """Two documents of another tool, which stores a median, a mean and no samples."""
    unknown = math.nan
    sides = []
    for label, median in (("a", 1e6), ("b", 1.5e6)):
        numbers = (unknown,) * 2 + (median,) + (unknown,) * 5
        told = Summary(0, 1.01 * median, None, *numbers, None, None)
        cases = [case(name, summary={"device_ns": told}, family="unknown") for name in "gh"]
        one = document(cases, run_id=label, settings={"iterations": 0, "duty": "unknown"})
        sides.append(Side(label, (Source(f"{label}.json", one, "another tool"),), ("numpy",)))
    return compare(sides[0], sides[1:], Policy())


def side(label, documents, factor, *, seed, plan="8"):
    """Documents of three cases in three rounds each, the second of them moved by a factor."""
    random = np.random.default_rng(seed)
    held = []
    for number in range(documents):
        cases = [
            case(
                f"graph_{index}",
                [
                    replace(round_(at, {"e2e_ns": row}), cut={"e2e_ns": 3})
                    for at, row in enumerate(
                        steady(random, 1e6 * (factor if index == 1 else 1), rounds=3)
                    )
                ],
                plan={"engine id": plan if index == 1 else "8"},
            )
            for index in range(3)
        ]
        one = document(cases, label, run_id=f"{label} {number}")
        held.append(Source(f"{label}_{number}.json", one, "bench"))
    return Side(label, tuple(held), ("numpy",))


def powered():
    """Cases of five rounds each, one only in base, one only in other, each side at a power of its
    own: of case n 110, 120, … W in base, 210, 220, … W in other."""
    told = gpu_round(0, {}, ()).telemetry_after
    found = []
    for label, first, missing in (("base", 100.0, 2), ("other", 200.0, 3)):
        cases = []
        for number in set(range(1, 5)) - {missing}:
            random = np.random.default_rng(number)
            after = replace(told, power_w=first + 10 * number)
            rounds = [
                gpu_round(at, {"device_ns": row}, row[:5], telemetry_after=after)
                for at, row in enumerate(steady(random, 1e6))
            ]
            cases.append(gpu_case(f"g{number}", rounds, 1e6))
        one = gpu_document(label, cases, ["cudnn"], hour=8, driver="570")
        found.append(Side(label, (Source(f"{label}.json", one, "bench"),), ("cudnn",)))
    return compare(found[0], found[1:], Policy())


def several():
    """Two documents a side."""
    return compare(side("old", 2, 1.0, seed=1), [side("new", 2, 1.3, seed=2)], Policy())


def three():
    others = [side("new", 1, 1.3, seed=2, plan="57"), side("newest", 1, 0.7, seed=3)]
    return compare(side("old", 1, 1.0, seed=1), others, Policy())


def blind():
    """Rounds that scatter by a half: nothing can be seen."""
    random = np.random.default_rng(3)
    sides = []
    for label in ("before", "after"):
        cases = [
            case(
                f"g{n}",
                (1e6 * np.exp(random.normal(0, 0.5, (5, 1)) + np.zeros((5, 20)))).astype(int),
            )
            for n in range(6)
        ]
        one = document(cases, run_id=label)
        sides.append(Side(label, (Source(f"{label}.json", one, "bench"),), ("numpy",)))
    return compare(sides[0], sides[1:], Policy())


def many_bad(make):
    """More bad news than the page shows at once."""
    notes = tuple(make.Note("drift", side, "drifts by 2 %") for side in ("base", "other"))
    cases = [
        make.row(i, f"slow_{i:02}", Verdict.SLOWER, 1.2 + i / 100, notes=notes) for i in range(30)
    ]
    bad = tuple(make.bad(item, make.SLOWER) for item in cases)
    return make.comparison(cases, bad_news=bad)


@pytest.fixture(scope="module")
def pages(tmp_path_factory, suite, hostile_suite, make):
    folder = tmp_path_factory.mktemp("pages")
    made = {"suite": suite, "hostile": hostile_suite, "imported": imported()}
    made |= {"several": several(), "three": three(), "blind": blind(), "bad": many_bad(make)}
    made["powered"] = powered()
    for name, comparison in made.items():
        (folder / f"{name}.html").write_text(render("html", comparison, View()), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samples, "MANY_CASES", 1)
        (folder / "one.html").write_text(render("html", suite, View()), encoding="utf-8")
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

    put.link = link
    return put


@pytest.fixture
def opened(browser, pages, address):
    """Opens a page (at an anchor, at a width) and waits until its charts stand."""

    def go(name="suite", anchor="", width=1400, scheme="light"):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get(address(pages / f"{name}.html") + anchor)
        until(lambda: browser.execute_script("return document.documentElement.dataset.ready"))
        return browser

    return go


@pytest.fixture
def panel(browser, address, opened):
    """Opens the panel of a case of the suite, in the page that is open if it is that one."""

    def go(case):
        suite = address.link.exists() and address.link.resolve().name == "suite.html"
        if not (suite and address.link.as_uri() == browser.current_url.partition("#")[0]):
            opened()
        browser.execute_script("location.hash = arguments[0]", case)
        wait_for_case(browser, case)
        return browser

    return go


def until(holds):
    """Waits for something true and returns it; fails when it does not come."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.03)
    return pytest.fail("waited in vain")


def find(browser, selector):
    return browser.find_element("css selector", selector)


def shown(browser):
    """Ids of the rows of the table, in order."""
    script = "return [...document.querySelectorAll('#rows tbody tr')].map(row => row.dataset.id)"
    return browser.execute_script(script)


def wait_for_case(browser, case):
    script = "const it = document.getElementById('panel'); return it.open && it.dataset.case"
    return until(lambda: browser.execute_script(script) == case)


def problems(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"]


def test_the_page_opens_without_a_word_on_the_console(opened):
    browser = opened(anchor="#c0002")
    wait_for_case(browser, "c0002")
    assert [] == problems(browser)


@pytest.mark.slow
def test_the_page_asks_no_server_for_anything(opened):
    script = "return performance.getEntriesByType('resource').map(one => one.name)"
    asked = [name for name in opened().execute_script(script) if not name.startswith("data:")]
    assert [] == asked


def test_searching_narrows_the_table_and_the_chart(opened):
    browser = opened()
    find(browser, "#search").send_keys("nhwc")
    until(lambda: shown(browser) == ["c0002", "c0003"])
    assert "2 of 10 cases" == find(browser, "#shown").text
    assert find(browser, "#overview-note").text.startswith("2 measured cases")


def test_a_search_may_be_a_glob_of_a_whole_word(opened):
    browser = opened()
    find(browser, "#search").send_keys("*_n4096")
    assert until(lambda: set(shown(browser)) == {"c0004", "c0008"})


def test_what_matches_nothing_offers_the_way_back(opened):
    browser = opened()
    find(browser, "#search").send_keys("nothing like this")
    until(lambda: find(browser, "#none").is_displayed())
    find(browser, "#reset").click()
    assert 10 == len(shown(browser))


def test_a_head_sorts_and_pressed_again_turns_round(opened):
    browser = opened()
    head = find(browser, "th[data-sort=ratio]")
    head.find_element("css selector", "button").click()
    first = shown(browser)
    assert ("c0008", "ascending") == (first[0], head.get_attribute("aria-sort"))
    head.find_element("css selector", "button").click()
    assert (first[::-1], "descending") == (shown(browser), head.get_attribute("aria-sort"))


def test_a_verdict_shows_its_cases_alone(opened):
    browser = opened()
    find(browser, ".count[data-verdict=slower]").click()
    assert ["c0008", "c0002"] == shown(browser)
    assert "true" == find(browser, ".count[data-verdict=slower]").get_attribute("aria-pressed")


def test_pressing_a_point_of_the_overview_opens_its_case(opened):
    from selenium.webdriver import ActionChains

    browser = opened()
    find(browser, "#search").send_keys("pointwise")
    until(lambda: len(shown(browser)) == 1)
    point = until(lambda: browser.find_elements("css selector", "#overview .points path"))[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", point)
    box = browser.execute_script(MIDDLE, point)
    pointer = ActionChains(browser)
    pointer.w3c_actions.pointer_action.move_to_location(*map(round, box))
    pointer.perform()
    until(lambda: find(browser, ".tip").is_displayed())
    assert "pointwise_add_n4096" in find(browser, ".tip").text
    ActionChains(browser).click().perform()
    assert wait_for_case(browser, "c0008")


def test_the_keyboard_opens_walks_and_closes(opened):
    from selenium.webdriver import ActionChains, Keys

    browser = opened()
    find(browser, "#rows tbody a").send_keys(Keys.ENTER)
    wait_for_case(browser, "c0005")
    ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
    wait_for_case(browser, "c0007")
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert until(lambda: not find(browser, "#panel").is_displayed())


def test_charts_of_a_case_are_drawn_when_it_is_opened(opened):
    browser = opened()
    assert 0 == len(browser.find_elements("css selector", "#panel .js-plotly-plot"))
    find(browser, "tr[data-id=c0002]").click()
    wait_for_case(browser, "c0002")
    drawn = "#panel .js-plotly-plot"
    assert until(lambda: len(browser.find_elements("css selector", drawn)) >= 2)


def test_the_panel_says_how_the_samples_are_drawn(panel):
    browser = panel("c0002")
    assert "base: 100 samples" in find(browser, "#samples-note").text


def test_the_panel_says_which_samples_are_not_in_the_page(opened):
    browser = opened("one", "#c0002")
    wait_for_case(browser, "c0002")
    said = "cases small: samples of end-to-end time."
    assert find(browser, "#left-out").text.endswith(said)


def test_the_panel_of_a_summary_shows_what_it_knows(opened):
    browser = opened("imported", "#c0001")
    wait_for_case(browser, "c0001")
    text = find(browser, "#panel").text
    assert "median mean\nbase, device time 1.000 ms 1.010 ms\nother," in text
    assert "summaries without samples: no interval" in text
    assert "unknown" not in text


def test_the_head_of_summaries_tells_their_mean_without_an_interval(opened):
    text = find(opened("imported"), "main").text
    assert "1.5× slower\ndevice time, geometric mean of 2 cases\nno interval: summaries" in text
    assert "iterations in all" not in text


def test_a_broken_case_tells_the_last_words(panel):
    browser = panel("c0005")
    assert "last words" == find(browser, "#panel pre").text


def test_worst_mismatches_are_listed(panel):
    browser = panel("c0007")
    assert "[0, 3, 1] 1.25 NaN" in find(browser, "#panel").text


@pytest.mark.slow
def test_hostile_names_are_text_everywhere(opened, make):
    browser = opened("hostile")
    for index, name in enumerate(make.HOSTILE):
        browser.execute_script(f"location.hash = 'c{index:04}'")
        wait_for_case(browser, f"c{index:04}")
        title = browser.execute_script("return document.getElementById('panel-title').textContent")
        assert name == title
    assert [] == problems(browser)
    assert not browser.execute_script(
        "return window.hacked || document.querySelector('img, svg[onload]')"
    )


def traces(browser, chart, wanted):
    """What plotly draws: a property of each trace of a chart."""
    script = "return document.getElementById(arguments[0]).data?.map(one => one[arguments[1]])"
    return until(lambda: browser.execute_script(script, chart, wanted))


def test_rounds_are_dots_under_the_distribution(panel):
    browser = panel("c0002")
    axes = enumerate(traces(browser, "distribution", "yaxis"))
    below = [at for at, axis in axes if axis == "y2"]
    xs = [traces(browser, "distribution", "x")[at] for at in below]
    assert [5, 5] == [len(x) for x in xs]


def test_documents_are_dots_of_their_own_and_decide(opened):
    browser = opened("several", "#c0002")
    wait_for_case(browser, "c0002")
    texts = [text for text in traces(browser, "distribution", "text") if text]
    assert ["document 1", "document 2"] == texts[1] == texts[3]
    assert "Diamonds: each document" in find(browser, "#panel").text


def test_the_dot_of_a_round_is_its_median_without_the_warm_up(opened):
    browser = opened("several", "#c0001")
    wait_for_case(browser, "c0001")
    first = traces(browser, "distribution", "x")[1][0]
    samples = several().cases[0].base.cases[0].rounds[0].series["e2e_ns"]
    assert math.isclose(first * 1e6, np.median(samples[3:]), rel_tol=1e-4)


def test_lines_divide_documents_and_a_legend_tells_the_marks(opened):
    browser = opened("several", "#c0001")
    wait_for_case(browser, "c0001")
    marks = find(browser, "#course-marks").text
    assert ["grey band", "dotted line", "solid line"] == re.findall(r"(\w+ (?:band|line)):", marks)
    script = "return document.getElementById('course').layout?.annotations.map(one => one.text)"
    assert ["document 1", "document 2"] * 2 == until(lambda: browser.execute_script(script))


def test_a_legend_tells_the_band_of_the_overview(opened):
    note = find(opened(), "#overview-note").text
    assert "Grey band: changes within the threshold of 1" in note


def test_bad_news_links_to_its_case(opened):
    browser = opened()
    links = [one.text for one in browser.find_elements("css selector", "#bad-news li a")]
    assert ["sdpa_b4_h32_s2048_d128", "pool_fwd_n32_c256"] == links[:2]


def test_improvements_stand_beside_the_bad_news(opened):
    browser = opened()
    left, right = (
        browser.execute_script("return arguments[0].getBoundingClientRect()", find(browser, name))
        for name in ("#bad-news", "#improvements")
    )
    assert (left["top"], True) == (right["top"], left["right"] <= right["left"])
    assert "faster" in find(browser, "#improvements li").text


def test_what_differs_comes_before_the_numbers_of_a_case(opened):
    browser = opened("three", "#c0002")
    wait_for_case(browser, "c0002")
    titles = [one.text for one in browser.find_elements("css selector", "#panel h3")]
    assert "What differs" == titles[0]
    assert "plan, engine id 8 57" in find(browser, "#panel .part").text


def test_the_head_counts_what_differs(opened):
    text = find(opened("three"), "#differences").text
    assert text.startswith("Of 2 changed cases, the other side has another plan in 1.")


def test_the_difference_in_time_sorts(opened):
    browser = opened()
    find(browser, "th[data-sort=difference] button").click()
    cells = [one.text for one in browser.find_elements("css selector", ".cell-difference")]
    assert ["+9.06 µs", "+7.32 µs", "+2.74 µs"] == cells[:3]


def test_base_and_change_make_a_scatter(opened):
    browser = opened(anchor="#arrange=base")
    layout = "return document.getElementById('overview').layout.xaxis.type"
    assert "log" == browser.execute_script(layout)
    points = [x for xs in traces(browser, "overview", "x") for x in xs]
    assert 6 == len(points)
    assert math.isclose(840 / 1e3, min(points), rel_tol=1e-5)


def test_several_sides_are_columns_of_one_row(opened):
    browser = opened("three")
    assert "6 cases in 3 rows" == find(browser, "#shown").text
    heads = [one.text for one in browser.find_elements("css selector", "#rows .side-name")]
    row = next(
        one
        for one in browser.find_elements("css selector", "#rows tbody tr")
        if "graph_1" in one.text
    )
    cells = [one.text for one in row.find_elements("css selector", ".cell-side")]
    assert ["new", "newest"] == heads
    assert ["▲", "▼"] == [cell[0] for cell in cells]


def test_the_cell_of_a_side_opens_its_case(opened):
    browser = opened("three")
    browser.find_elements("css selector", "#rows tbody tr:first-child .cell-side a")[1].click()
    wait_for_case(browser, "c0005")
    assert "newest" == find(browser, "#panel [aria-current]").text


@pytest.mark.slow
def test_what_both_sides_and_all_cases_note_is_said_once(opened):
    browser = opened("bad", "#c0000")
    wait_for_case(browser, "c0000")
    assert "drift base and other: drifts by 2 %" == find(browser, "#panel .notes").text
    assert "Notes on the samples: drift in all cases." == find(browser, "#common-notes").text
    assert "drift" not in find(browser, "#rows").text


def test_numbers_of_a_panel_agree(panel):
    """The lines in the distribution are the values of the table below it."""
    browser = panel("c0002")
    script = "return document.getElementById('distribution').layout?.shapes.map(one => one.x0)"
    row = find(browser, "#panel .metrics tbody tr").text
    values = [float(text) for text in re.findall(r"([\d.]+)\s*µs", row)[:2]]
    assert values == pytest.approx(until(lambda: browser.execute_script(script)), rel=1e-3)


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


@pytest.mark.slow
def test_the_address_keeps_search_verdict_and_sort(opened):
    browser = opened()
    find(browser, "#search").send_keys("conv")
    until(lambda: len(shown(browser)) < 10)
    find(browser, "th[data-sort=ratio] button").click()
    find(browser, ".count[data-verdict=slower]").click()
    address, rows = browser.current_url.partition("#")[2], shown(browser)
    assert {"find=conv", "sort=ratio", "verdict=slower"} == set(address.split("&"))
    assert rows == shown(opened(anchor=f"#{address}"))
    assert "conv" == find(browser, "#search").get_attribute("value")


@pytest.mark.slow
def test_the_address_of_a_case_keeps_the_selection(opened):
    browser = opened(anchor="#sort=name&case=c0003")
    wait_for_case(browser, "c0003")
    assert "name" == find(browser, "#sort").get_attribute("value")


def test_an_address_of_nothing_known_shows_everything(opened):
    browser = opened(anchor="#sort=magic&verdict=odd&arrange=7&case=c9999")
    assert (10, []) == (len(shown(browser)), problems(browser))


def test_the_words_of_a_search_must_all_fit(opened):
    browser = opened()
    find(browser, "#search").send_keys("nhwc slower")
    assert until(lambda: shown(browser) == ["c0002"])


def test_a_blind_comparison_gives_no_answer(opened):
    browser = opened("blind")
    assert "No answer on this machine" == find(browser, ".big").text
    assert "are unclear at 1 % (none can be slower by more than 2." in find(browser, "h1").text


def test_no_bad_news_is_said_once_together_with_what_could_have_been_seen(
    browser, address, tmp_path
):
    path = tmp_path / "same.html"
    same = compare(side("old", 1, 1.0, seed=1), [side("new", 1, 1.0, seed=2)], Policy())
    path.write_text(render("html", same, View()), encoding="utf-8")
    browser.get(address(path))
    text = until(lambda: find(browser, "body").text)
    assert 1 == text.count("would have been seen in 9 of 10 cases")
    hidden = ("#bad-news", "#improvements", "#differs")
    assert not any(find(browser, one).is_displayed() for one in hidden)


def test_a_mean_within_the_threshold_is_called_neither_slower_nor_faster(
    browser, address, tmp_path
):
    path = tmp_path / "still.html"
    still = compare(side("old", 1, 1.0, seed=1), [side("new", 1, 1.0, seed=2)], Policy())
    near = replace(still.suite[0], ratio=1.003, ci_low=1.001, ci_high=1.005)
    path.write_text(render("html", replace(still, suite=(near,)), View()), encoding="utf-8")
    browser.get(address(path))
    assert "+0.3 %within the threshold" == until(lambda: find(browser, ".big").text)


def test_the_first_chart_is_on_the_first_screen_of_a_phone(opened):
    browser = opened("several", width=390)
    top = browser.execute_script(
        "return document.getElementById('overview').getBoundingClientRect().top"
    )
    assert top < 700


def test_paper_shows_all_bad_news_and_light_colours(opened):
    browser = opened("bad", scheme="dark")
    items = "return document.querySelectorAll('#bad-news li').length"
    before = browser.execute_script(items)
    browser.execute_cdp_cmd("Page.printToPDF", {})
    assert (8, 30) == (before, browser.execute_script(items))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    color = "return getComputedStyle(document.body).color"
    assert "rgb(28, 31, 35)" == browser.execute_script(color)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("name", ["suite", "hostile", "imported", "several", "three"])
def test_nothing_scrolls_sideways_on_a_phone(opened, name):
    browser = opened(name, anchor="#c0001", width=390)
    wait_for_case(browser, "c0001")
    script = """return ['html', '#panel'].map(name => document.querySelector(name))
        .every(node => node.scrollWidth <= node.clientWidth && node.clientWidth <= 390)"""
    assert browser.execute_script(script)


def test_dark_follows_the_system_until_the_reader_chooses(opened):
    browser = opened(scheme="dark")
    script = "return getComputedStyle(document.body).backgroundColor"
    dark = browser.execute_script(script)
    find(browser, "#theme").click()
    light = browser.execute_script(script)
    assert ("rgb(20, 23, 26)", "rgb(251, 250, 248)") == (dark, light)


def test_every_control_has_a_name(panel):
    browser = panel("c0002")
    script = """return [...document.querySelectorAll('button, select, input, a')].filter(node =>
        ![node.textContent.trim(), node.getAttribute('aria-label'), node.labels?.length]
            .some(Boolean)).length"""
    assert 0 == browser.execute_script(script)


@pytest.mark.slow
def test_the_overview_of_thousands_is_drawn_when_a_reader_comes_near(browser, tmp_path):
    path = tmp_path / "thousands.html"
    path.write_text(render("html", html_size.suite(1_100, 10), View()), encoding="utf-8")
    assert html_size.ready_ms(browser, path) is not None
    assert html_size.drawn_ms(browser) is not None
    script = "return document.querySelectorAll('#overview .points path').length"
    assert 0 < browser.execute_script(script) < 550  # the news; the others are lines
    assert [] == [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.mark.slow
def test_five_thousand_cases_stay_small_and_open_quickly(browser, tmp_path):
    path = tmp_path / "large.html"
    path.write_text(render("html", html_size.suite(5_000, 1_000), View()), encoding="utf-8")
    assert path.stat().st_size < 12_000_000
    assert min(html_size.ready_ms(browser, path) for _ in range(3)) < 3_000
    assert html_size.drawn_ms(browser) < 3_000
