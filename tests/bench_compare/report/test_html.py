import base64
import hashlib
import json
import re
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pytest
from plotly.offline import get_plotlyjs

from bench_compare.comparison.compare import compare
from bench_compare.errors import UsageError
from bench_compare.metrics import METRICS
from bench_compare.model import Verdict, View
from bench_compare.policy import Policy
from bench_compare.report.html import PLOTLY_FILE, embedded, samples
from bench_compare.report.html.panel import CHUNK, blocks
from tests.bench_compare.build import case, document, side, steady
from tests.bench_compare.report.shown import render
from tests.bench_compare.report.unblock import charts, items, section, table, unblocked
from tests.conftest import ROOT

CDN = View(plotlyjs="cdn")


@pytest.fixture(scope="module")
def hostile_page(hostile_suite):
    return render("html", hostile_suite, CDN)


def scripts(page):
    """What may run: code, and plotly.js, which waits as text for the first chart."""
    return re.findall(r'<script(?: type="text/plain" id="plotly")?>(.*?)</script>', page, re.S)


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


def unpacked(comparison):
    return [unblocked(block.text) for block in blocks(comparison)]


def test_names_from_documents_open_no_element(hostile_page):
    assert not re.search(r"<script>window|<img|<svg on", hostile_page)


def test_names_arrive_unchanged_inside_the_data(hostile_page, make):
    assert list(make.HOSTILE) == data_of(hostile_page)["cases"]["name"]


def test_embedded_json_closes_no_script_and_comes_back_the_same():
    value = "</script><!--\u2028\u2029&amp;\\u003c"
    text = embedded([value])
    assert not set("<>&\u2028\u2029") & set(text)
    assert [value] == json.loads(text)


def test_the_policy_allows_exactly_the_scripts_of_the_file(suite):
    page = render("html", suite)
    policy = re.search(r'Security-Policy" content="([^"]*)"', page)[1]
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts(page)
    ]
    assert 2 == len(hashes)
    assert set(hashes) == set(re.findall(r"'sha256-([^']*)'", policy))
    assert policy.startswith("default-src 'none'")


def test_the_page_is_whole_without_a_network(suite):
    page = render("html", suite)
    text = page.replace(scripts(page)[1], "")  # plotly.js names its own home page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_plotly_is_no_script_until_a_chart_is_drawn(suite):
    executed = re.findall(r"<script>(.*?)</script>", render("html", suite), re.S)
    assert [True] == [len(code) < 200_000 for code in executed]


def test_cdn_makes_a_small_page_with_a_checked_script(suite):
    page = render("html", suite, CDN)
    assert len(page) < 200_000
    assert re.search(r'src="https://cdn.plot.ly/[^"]*" integrity="sha256-[^"]*"', page)


def test_full_holds_every_chart_type_of_the_installed_plotly_and_the_policy_lets_it_run(suite):
    page = render("html", suite, View(plotlyjs="full"))
    library = scripts(page)[1]
    assert get_plotlyjs() == library
    digest = base64.b64encode(hashlib.sha256(library.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in page


def test_an_unknown_way_to_plotlyjs_names_the_choices(suite):
    with pytest.raises(UsageError, match="choose from inline, full, cdn"):
        render("html", suite, View(plotlyjs="magic"))


def test_each_case_is_in_its_block(make):
    cases = [make.row(i, f"g{i}", Verdict.SAME, 1.0) for i in range(CHUNK + 3)]
    sizes = [len(block) for block in unpacked(make.comparison(cases))]
    assert [CHUNK, 3] == sizes


def test_a_panel_has_samples_of_both_sides_and_their_clocks(suite):
    [cases] = unpacked(suite)
    course = charts(cases[1])["course"]["traces"]
    assert [100, 100] == [len(one["y"]) for one in course[:2]]
    assert [1975, 1970] == course[2]["y"][:2]
    assert "up to 420 W" in table(cases[1], "Facts")["power"]


def test_a_phase_of_the_initialisation_is_what_the_metric_says():
    random = np.random.default_rng(1)
    init = {"plan_ns": np.array([90, 91, 92, 93, 94]) * 1_000_000}
    sides = [
        side(label, document([case("g", steady(random, 1e6), init=init)], label, run_id=label))
        for label in ("a", "b")
    ]
    [cases] = unpacked(compare(sides[0], sides[1:], Policy()))
    [chart] = [one["chart"] for one in section(cases[0], "Initialisation") if "chart" in one]
    base, other, *_ = table(cases[0], "Metrics")[METRICS["plan_ns"].title]
    assert ["91.99 ms", "91.99 ms"] == [base.replace("\xa0", " "), other.replace("\xa0", " ")]
    assert chart["traces"][0]["x"] == pytest.approx([91.99, 91.99], abs=0.005)


def test_samples_that_are_too_many_become_least_median_and_largest(suite, monkeypatch):
    monkeypatch.setattr(samples, "MOST", 60)
    [cases] = unpacked(suite)
    least, largest, middle = charts(cases[1])["course"]["traces"][:3]
    known = [
        row for row in zip(least["y"], middle["y"], largest["y"], strict=True) if row[0] is not None
    ]
    assert len(known) == 20
    assert all(low <= median <= high for low, median, high in known)


def test_series_that_a_large_page_leaves_out_are_named(suite, monkeypatch):
    assert not any("Left out" in note for note in items(unpacked(suite)[0][1], "note"))
    monkeypatch.setattr(samples, "MANY_CASES", 1)
    [cases] = unpacked(suite)
    titles = [part["title"] for part in cases[1]["sections"] if "Samples" in part["title"]]
    assert ["Samples: device time"] == titles
    assert any("samples of end-to-end time" in note for note in items(cases[1], "note"))


def test_a_large_page_has_the_samples_of_a_case_that_only_one_side_holds(monkeypatch):
    monkeypatch.setattr(samples, "MANY_CASES", 1)
    random = np.random.default_rng(1)
    both, alone = (case(name, steady(random, 1e6)) for name in ("both", "alone"))
    base = side("a", document([both, alone], "a", run_id="a"))
    other = side("b", document([both], "b", run_id="b"))
    [cases] = unpacked(compare(base, [other], Policy()))
    for panel in cases:  # end-to-end time is all that these cases have
        assert "Samples: end-to-end time" in [part["title"] for part in panel["sections"]]


def test_worst_mismatches_reach_the_panel(suite):
    [cases] = unpacked(suite)
    worst = next(one for one in items(cases[6], "table") if one["caption"])
    assert ["[0, 3, 1]", "1.25", "NaN"] == worst["rows"][0]


def test_a_side_that_lacks_the_case_says_so(suite):
    [cases] = unpacked(suite)
    removed = suite.cases.index(next(c for c in suite.cases if c.verdict is Verdict.REMOVED))
    assert "other: does not hold this case" in items(cases[removed], "p")


def test_an_empty_comparison_has_a_page(make):
    page = render("html", make.comparison([], problems=("nothing compared",)), CDN)
    assert [] == data_of(page)["cases"]["id"]


def test_only_the_page_loads_plotly():
    code = (
        "import sys; from importlib import import_module\n"
        "from bench_compare.report import FORMATS\n"
        "for name, row in FORMATS.items(): import_module(row.split(':')[0])\n"
        "print('plotly' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "False" == done.stdout.strip()


def test_the_page_carries_the_plotly_that_is_pinned():
    pinned = json.loads((ROOT / ".ci" / "package.json").read_text("utf-8"))["devDependencies"]
    header = (files("bench_compare.report.html") / PLOTLY_FILE).read_text("utf-8")[:100]
    assert f"(basic - minified) v{pinned['plotly.js-basic-dist-min']}\n" in header
