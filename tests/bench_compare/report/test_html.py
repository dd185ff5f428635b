import base64
import hashlib
import json
import math
import re
import subprocess
import sys
from importlib.resources import files

import numpy as np
import plotly.graph_objects as go
import plotly.io
import pytest
from bench_schema.names import safe
from plotly.offline import get_plotlyjs

from bench_compare.cli import main
from bench_compare.comparison.compare import compare
from bench_compare.errors import UsageError
from bench_compare.metrics import METRICS
from bench_compare.model import Verdict, View
from bench_compare.policy import Policy
from bench_compare.report import rows as report_rows
from bench_compare.report.figures import samples
from bench_compare.report.figures.base import TEMPLATE
from bench_compare.report.html import CHUNK, PLOTLY_FILE, embedded
from tests.bench_compare.build import case, document, side, steady
from tests.bench_compare.compose.sample import composition
from tests.bench_compare.report import samples_of
from tests.bench_compare.report.read_page import data_of, packed, panels, table, text_of
from tests.bench_compare.report.shown import render
from tests.benchmarks import html_size
from tests.conftest import ROOT

CDN = View(plotlyjs="cdn")


@pytest.fixture(scope="module")
def hostile_page(hostile_suite):
    return render("html", hostile_suite, CDN)


def scripts(page):
    """What may run: code, and plotly.js, which waits as text for the first chart."""
    return re.findall(r'<script(?: type="text/plain" id="plotly")?>(.*?)</script>', page, re.S)


def test_names_from_documents_open_no_element(hostile_page):
    packs = [row[0] for rows in packed(hostile_page, "rows") for row in rows]
    packs += [markup for markup, _ in panels(hostile_page).values()]
    for text in (hostile_page, *packs):
        assert not re.search(r"<script>window|<img|<svg on", text)


def test_names_arrive_as_the_terminal_spells_them(hostile_page, make):
    titles = [
        text_of(re.search(r'id="panel-title">(.*?)</h2>', markup)[1])
        for markup, _ in panels(hostile_page).values()
    ]
    assert [" ".join(safe(name).split()) for name in make.HOSTILE] == titles


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
    library = next(one for one in scripts(page) if len(one) > 200_000)
    text = page.replace(library, "")  # plotly.js names its own home page
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
    library = next(one for one in scripts(page) if len(one) > 200_000)
    assert get_plotlyjs() == library
    digest = base64.b64encode(hashlib.sha256(library.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in page


def test_an_unknown_way_to_plotlyjs_names_the_choices(suite):
    with pytest.raises(UsageError, match="choose from inline, full, cdn"):
        render("html", suite, View(plotlyjs="magic"))


def test_panels_travel_in_blocks(make):
    cases = [make.row(i, f"g{i}", Verdict.SAME, 1.0) for i in range(CHUNK + 3)]
    page = render("html", make.comparison(cases), CDN)
    assert [CHUNK, 3] == [len(packed(page, f"block-{n}")) for n in (0, 1)]


def test_a_page_of_120_cases_is_small():
    assert len(render("html", html_size.suite(120, 1_000)).encode()) <= 1_600_000


@pytest.mark.parametrize("name", ["suite", "several", "imported", "three", "composition"])
def test_plotly_accepts_every_figure(name, suite):
    if name == "composition":
        made = composition()
    else:
        made = suite if name == "suite" else getattr(samples_of, name)()
    page = render("html", made, CDN)
    figures = packed(page, "charts")
    for _, more in panels(page).values() if data_of(page)["panels"] else ():
        figures += more
    assert figures
    for one in figures:
        go.Figure({**one, "layout": {**one["layout"], "template": TEMPLATE}})


def test_colours_of_figures_have_others_on_dark_ground(suite):
    page = render("html", suite, CDN)
    told = json.dumps([packed(page, "charts"), [one[1] for one in panels(page).values()]])
    dark = data_of(page)["dark"]
    colors = {*re.findall(r'"(#[0-9a-f]{6}|rgba\([^)]*\))"', told)} - {"rgba(0,0,0,0)"}
    assert set() == colors - set(dark)


def test_a_panel_has_the_samples_of_both_sides_and_their_facts(suite):
    markup, figures = panels(render("html", suite, CDN))["c0002"]
    assert [100, 100] == [len(one["y"]) for one in figures[1]["data"]]
    assert "up to 420 W" in table(markup, "Facts")["power"]
    assert "base: 100 samples; other: 100 samples" in text_of(markup)


def test_rounds_are_dots_under_the_distribution(suite):
    _, figures = panels(render("html", suite, CDN))["c0002"]
    below = [one for one in figures[0]["data"] if one.get("yaxis") == "y2"]
    assert [5, 5] == [len(one["x"]) for one in below]


def test_documents_are_dots_of_their_own_and_decide():
    markup, figures = panels(render("html", samples_of.several(), CDN))["c0002"]
    told = [one["text"] for one in figures[0]["data"] if one.get("yaxis") == "y2"]
    assert ["document 1", "document 2"] == told[1] == told[3]
    assert "with several documents a diamond each" in text_of(markup)
    notes = [one["text"] for one in figures[1]["layout"]["annotations"]]
    assert ["document 1", "document 2"] * 2 == notes


def test_the_dot_of_a_round_is_its_time():
    made = samples_of.several()
    _, figures = panels(render("html", made, CDN))["c0001"]
    first = figures[0]["data"][1]["x"][0]
    samples = made.cases[0].base.cases[0].rounds[0].series["e2e_ns"]
    assert math.isclose(first * 1e6, np.median(samples), rel_tol=1e-3)


def test_a_phase_of_the_initialisation_is_what_the_metric_says():
    random = np.random.default_rng(1)
    init = {"plan_ns": np.array([90, 91, 92, 93, 94]) * 1_000_000}
    sides = [
        side(label, document([case("g", steady(random, 1e6), init=init)], label, run_id=label))
        for label in ("a", "b")
    ]
    markup, _ = panels(render("html", compare(sides[0], sides[1:], Policy()), CDN))["c0001"]
    _, base, other, *_ = table(markup, "Metrics")[METRICS["plan_ns"].title]
    assert ["91.99 ms", "91.99 ms"] == [base, other]


def test_samples_that_are_too_many_become_least_median_and_largest(suite, monkeypatch):
    monkeypatch.setattr(samples, "MOST", 20)
    _, figures = panels(render("html", suite, CDN))["c0002"]
    least, largest, middle = figures[1]["data"][:3]
    known = [
        row for row in zip(least["y"], middle["y"], largest["y"], strict=True) if row[0] is not None
    ]
    assert len(known) == 20
    assert all(low <= median <= high for low, median, high in known)


def test_series_that_a_large_page_leaves_out_are_named(suite, monkeypatch):
    assert "Left out" not in text_of(panels(render("html", suite, CDN))["c0002"][0])
    monkeypatch.setattr(samples, "FEW_CASES", 1)
    text = text_of(panels(render("html", suite, CDN))["c0002"][0])
    assert "Samples: device time" in text
    assert "cases small: samples of end-to-end time." in text


def test_a_large_page_has_the_samples_of_a_case_that_only_one_side_holds(monkeypatch):
    monkeypatch.setattr(samples, "FEW_CASES", 1)
    random = np.random.default_rng(1)
    both, alone = (case(name, steady(random, 1e6)) for name in ("both", "alone"))
    base = side("a", document([both, alone], "a", run_id="a"))
    other = side("b", document([both], "b", run_id="b"))
    for markup, _ in panels(render("html", compare(base, [other], Policy()), CDN)).values():
        assert "Samples: end-to-end time" in text_of(markup)


def test_the_first_cases_by_news_have_panels_and_a_filter_puts_others_first(suite, monkeypatch):
    monkeypatch.setattr(report_rows, "MOST_PANELS", 2)
    page = render("html", suite, CDN)
    first = panels(page).keys()
    links = re.findall(r'data-id="([^"]*)"', "".join(row[0] for row in packed(page, "rows")[0]))
    assert ({*links}, len(links), "of the first 2 cases" in text_of(page)) == (first, 2, True)
    wanted = next(case for case in suite.cases if case.id not in first)
    assert wanted.id in panels(render("html", suite, View(plotlyjs="cdn", filter=wanted.name)))


def test_worst_mismatches_reach_the_panel(suite):
    markup, _ = panels(render("html", suite, CDN))["c0007"]
    assert "[0, 3, 1] 1.25 NaN" in text_of(markup)


def test_a_side_that_lacks_the_case_says_so(suite):
    markup, _ = panels(render("html", suite, CDN))["c0006"]
    assert "other: does not hold this case" in text_of(markup)


def test_a_row_that_is_not_measured_says_why(suite):
    rows = {row[0]: row for row in packed(render("html", suite, CDN), "rows")[0]}
    removed = next(text for text in map(text_of, rows) if "layernorm" in text)
    assert "in before, not in after" in removed


def test_what_was_asked_for_is_searched_for(suite):
    assert "nhwc" == data_of(render("html", suite, View(plotlyjs="cdn", filter="nhwc")))["filter"]


def test_an_empty_comparison_has_a_page(make):
    page = render("html", make.comparison([], problems=("nothing compared",)), CDN)
    assert [[]] == packed(page, "rows")
    assert "nothing compared" in page


def test_every_figure_is_written_as_json_that_plotly_opens(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        random = np.random.default_rng(seed)
        one = document([case("g", steady(random, 1e6))], name, run_id=name)
        from bench_schema.files import save

        save(tmp_path / f"{name}.json", one)
    words = [str(tmp_path / "a.json"), str(tmp_path / "b.json"), "-q", "--allow-no-answer"]
    assert main([*words, "--figures", str(tmp_path / "figures")]) in (0, 2)
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert ["c0001-1.json", "c0001-2.json", "overview.json"] == names
    for name in names:
        assert len(plotly.io.read_json(tmp_path / "figures" / name).data) >= 1


def test_figures_need_a_folder(tmp_path, capsys):
    assert 1 == main([str(tmp_path), "--figures", "-"])
    assert "--figures: a folder is expected" in capsys.readouterr().err


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
