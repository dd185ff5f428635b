"""The page of a composition in a real browser: headless Chromium, without a network."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench_schema import files

from bench_compare.cli import main
from bench_compare.compose.model import Estimate
from bench_compare.report import compose
from tests.bench_compare.compose import worlds
from tests.bench_compare.compose.sample import composition
from tests.bench_compare.report.chromium import browser, look
from tests.bench_compare.report.conftest import HOSTILE
from tests.bench_compare.report.shown import render

__all__ = ["browser"]


def hostile():
    """Markup in every text that comes from a file."""
    made = composition()
    part = replace(made.chosen.parts[0], layer=HOSTILE[0], name=HOSTILE[1], note=HOSTILE[2])
    layer = replace(made.layers[0], layer=HOSTILE[0], chosen=HOSTILE[1], reason=HOSTILE[2])
    return replace(
        made,
        pipeline=HOSTILE[0],
        about=HOSTILE[1],
        remarks=HOSTILE,
        chosen=replace(made.chosen, parts=(part, *made.chosen.parts[1:])),
        layers=(layer, *made.layers[1:]),
    )


@pytest.fixture
def show(browser, tmp_path):
    def show(composition):
        path = tmp_path / "page.html"
        path.write_text(render("html", composition), encoding="utf-8")
        look(browser, path.as_uri())

    return show


@pytest.fixture
def texts(browser):
    return lambda selector: [n.text for n in browser.find_elements("css selector", selector)]


def bars(composition):
    """Label, length and words of each bar of the first figure, in its order."""
    figure = compose.page_of(composition).charts[0].figure
    [trace], layout = figure["data"], figure["layout"]
    words = [one["text"] for one in layout["annotations"]]
    return [*zip(layout["yaxis"]["ticktext"], trace["x"], words, strict=True)]


def test_the_slowest_layer_comes_first_and_the_seams_come_last():
    names, lengths, words = zip(*bars(composition()), strict=True)
    assert ("conv1", "relu") == names[:2]
    assert (20.0, 5.0, 3.0) == lengths[:3]
    assert lengths[3] == pytest.approx(-0.6)
    assert ("20.00 µs", "5.000 µs", "3.000 µs", "-600 ns") == words


def test_layers_that_are_alike_are_one_bar():
    made = composition()
    first, *others = made.chosen.parts
    parts = (first, replace(first, layer="again"), *others)
    made = replace(made, chosen=replace(made.chosen, parts=parts))
    assert ("conv1 and 1 alike", 40.0, "40.00 µs") == bars(made)[0]


@pytest.mark.long
def test_every_part_of_a_pass_is_drawn_and_listed(show, browser, texts):
    show(composition())
    said = " ".join(texts("table"))
    for share in ("66.7%", "10.0%", "16.7%", "-2.0%"):
        assert share in said


def test_the_baseline_has_a_chart_of_its_own():
    page = compose.page_of(composition())
    assert ["layers-chosen", "layers-cudnn"] == [one.id for one in (*page.charts, *page.more)]


@pytest.mark.long
def test_what_is_missing_is_a_command(show, texts):
    show(composition())
    assert ["bench-run net/net.toml --seams -e cudnn --cache rotate -o rotate.json"] == texts("pre")


@pytest.mark.long
def test_without_energy_the_page_says_what_to_measure(show, texts):
    made = composition()
    show(replace(made, chosen=replace(made.chosen, energy=None)))
    assert any("a measurement with --energy" in text for text in texts(".note"))


@pytest.mark.long
def test_without_an_answer_the_reason_is_told(show, texts):
    show(replace(composition(), chosen=None, ratios=None, problems=("conv1 was not measured",)))
    assert ["UNDECIDED: conv1 was not measured"] == texts("h1")
    assert "Error: conv1 was not measured" in texts("p.alarm")


@pytest.mark.long
def test_no_text_of_a_document_is_markup_and_nothing_fails(show, browser):
    show(hostile())
    assert browser.execute_script("return window.hacked") is None
    assert [] == [one["message"] for one in browser.get_log("browser")]


def test_the_command_writes_the_page(tmp_path):
    path, out = worlds.write_pipeline(worlds.CHAIN, tmp_path), tmp_path / "page.html"
    files.save(tmp_path / "parts.json", worlds.parts(worlds.CHAIN))
    words = ["compose", str(path), str(tmp_path / "parts.json"), "--html", str(out), "-q"]
    assert (0, True) == (main(words), "<title>PASS: net: " in out.read_text("utf-8"))


def test_the_headline_is_the_time_and_what_it_is_against_the_baseline():
    assert "net: 27.40 µs, 1.25× faster than cudnn" == compose.page_title(composition())


def test_the_baseline_itself_is_against_nothing():
    made = composition()
    plain = replace(made, chosen=replace(made.chosen, name="cudnn"))
    assert "net: 27.40 µs" == compose.page_title(plain)


def test_what_takes_the_same_time_is_not_called_faster():
    made = composition()
    equal = replace(made, ratios=replace(made.ratios, time=Estimate(1.0, 0.9, 1.1)))
    assert "net: 27.40 µs, as fast as cudnn" == compose.page_title(equal)
