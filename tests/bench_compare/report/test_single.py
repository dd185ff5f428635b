"""A single document, shown by itself in every format."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from bench_schema.document import Outcome
from bench_schema.files import save

from bench_compare.cli import main
from bench_compare.model import Source, View
from bench_compare.report import FORMATS, json_text, rows
from bench_compare.report.single import ShownRun, conclude
from tests.bench_compare.build import case, document, round_, steady, validation
from tests.bench_compare.report.chromium import browser, find, look, problems, wait_for_case
from tests.bench_compare.report.read_page import panels
from tests.bench_compare.report.shown import render

__all__ = ["browser"]

FAILED = Outcome("failed", "no kernel for it", "first_run")


def run(*cases, **changes):
    return ShownRun(Source("run.json", document(cases, "nightly", **changes), "bench"))


def good(name="g", center_ns=1e6, **changes):
    times = steady(np.random.default_rng(1), center_ns)
    rounds = [round_(place, {"e2e_ns": row}) for place, row in enumerate(times)]
    return case(name, rounds, **{"validation": validation(), **changes})


def gone(name="gone"):
    return case(name, (), outcome=FAILED)


@pytest.fixture
def suite():
    return run(
        good(),
        good("h", 3e6, validation=validation("failed", 3)),
        gone(),
        good("i", implausible="1 PB/s"),
    )


def test_cases_that_failed_have_panels_first(suite, monkeypatch):
    monkeypatch.setattr(rows, "MOST_PANELS", 3)
    opened = panels(render("html", suite))
    assert {one.id for one in suite.cases if one.state != "completed"} == opened.keys()


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        ((good(),), 0),
        ((good(), good("h", validation=validation("failed", 3))), 2),
        ((good(), gone()), 2),
        ((good(), good("h", implausible="1 PB/s")), 2),
        ((good(), case("u", (), outcome=Outcome("unsupported", "no fp8"))), 0),
        ((gone(),), 2),
        ((), 1),
    ],
)
def test_the_exit_code_says_whether_it_ran_and_was_right(cases, expected):
    assert expected == conclude(run(*cases)).exit_code


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_names_each_case_and_the_machine(name, suite):
    text = render(name, suite, View(width=120))
    assert [] == [word for word in ("gone", "passed", "implausible") if word not in text]


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"html"}))
def test_every_text_says_why_a_case_failed(name, suite):
    assert "no kernel for it" in render(name, suite)


def test_bad_news_comes_first_in_the_terminal(suite):
    lines = render("text", suite).splitlines()
    assert "nightly" == lines[0]
    assert "4 cases: 1 implausible, 1 wrong, 1 failed, 1 completed" in lines
    states = ("implausible", "wrong", "failed", "completed")
    rows = [line.split()[0] for line in lines if line.startswith(states)]
    assert list(states) == list(dict.fromkeys(rows))


@pytest.mark.parametrize("width", [40, 64, 80])
def test_no_line_is_wider_than_the_terminal(width, suite):
    *lines, answer = render("text", suite, View(width=width)).splitlines()
    assert answer.startswith("FAIL: ")  # one line, for programs
    assert [] == [line for line in lines if len(line) > width]


def test_rounds_without_a_gate_and_beside_others_are_told():
    [first, *rest] = good().rounds
    rounds = (replace(first, device_timing="events"), *rest)
    shown = run(good("h"), replace(good(), rounds=rounds))
    assert "- ungated: g: 1 of 5 rounds were timed without a gate" in render("text", shown)


def test_the_record_satisfies_its_schema(suite):
    record = json.loads(render("json", suite))
    jsonschema.validate(record, json_text.schema("single"))
    assert ["g", "h", "gone", "i"] == [one["name"] for one in record["cases"]]


def test_csv_has_a_row_for_each_case_with_plain_numbers(suite):
    rows = list(csv.DictReader(io.StringIO(render("csv", suite, View(sort="document")))))
    assert ["g", "h", "gone", "i"] == [row["name"] for row in rows]
    assert 0.9e6 < float(rows[0]["time_ns"]) < 1.1e6
    assert "" == rows[2]["time_ns"]


def test_junit_fails_what_is_wrong_and_what_failed(suite):
    root = ET.fromstring(render("junit", suite))
    found = {test.get("name"): [one.tag for one in test] for test in root.iter("testcase")}
    assert "failure" in found["h"]
    assert "error" in found["gone"]


def test_the_command_shows_a_document_and_refuses_to_gate_it(tmp_path, capsys):
    path = tmp_path / "one.json"
    save(path, document([good()], run_id="one"))
    assert main([str(path)]) == 0
    assert "completed  g" in capsys.readouterr().out
    assert main([str(path), "--fail-on", "slower"]) == 1
    assert "one document" in capsys.readouterr().err


@pytest.mark.long
def test_the_page_opens_a_case_with_its_samples(browser, suite, tmp_path):
    path = tmp_path / "run.html"
    path.write_text(render("html", suite), encoding="utf-8")
    look(browser, path.as_uri() + "#c0001")
    wait_for_case(browser, "c0001")
    panel = find(browser, "#panel")
    assert "What became of it" not in panel.text
    assert "run: 100 samples" in panel.text
    assert 4 == len(browser.find_elements("css selector", "#list tbody tr"))
    assert [] == problems(browser)
