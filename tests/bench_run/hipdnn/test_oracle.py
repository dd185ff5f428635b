"""What the default leaves on the table, knobs of one side, and caches that do not leak."""

from __future__ import annotations

import csv
import re

import pytest
from bench_schema.files import read

import bench_run
from bench_run.cli import main
from bench_run.errors import UsageError
from bench_run.plan.cases import oracle_pairs
from bench_run.report.console import details
from bench_run.report.formats import cases_csv
from bench_run.text import time_text

EFFORT = ("--rounds", "3", "--iters", "30", "--warmup", "2", "--max-time", "none")
SEARCHED = "+knob:global.benchmarking=1"
PLANTED = {"milliseconds": 2.0, "tuned_milliseconds": 1.76, "search_milliseconds": 40}


@pytest.mark.slow
def test_a_planted_12_percent_is_found_with_its_interval(
    release, plugin, small_graph, tmp_path, capsys
):
    release()
    spec, output = f"hipdnn:MIOPEN_ENGINE@{plugin('build', **PLANTED)}", tmp_path / "run.json"
    assert 0 == main([str(small_graph), "--engine", spec, "--oracle", *EFFORT, "-o", str(output)])
    shown = re.search(r"(\S+) % \((\S+) to (\S+)\)", capsys.readouterr().out)
    left, low, high = map(float, shown.groups())
    assert 11 < low <= left <= high < 13
    document = read(output)
    assert {"passed"} == {case.validation.status for case in document.cases}
    assert "fresh" == document.run.settings.vendor_caches


@pytest.mark.long
def test_the_first_call_with_benchmarking_is_a_phase_of_its_own(release, plugin, small_graph):
    release()
    spec = f"hipdnn:MIOPEN_ENGINE{SEARCHED}@{plugin('build', **PLANTED)}"
    document = bench_run.run([str(small_graph)], engine=[spec], rounds=3, iterations=3)
    case = document.cases[0]
    first, *later = case.init["search_ns"] / 1e6
    assert 40 <= first < 80
    assert 2 == len(later)
    assert max(later) < 20  # they find the winner in the cache
    assert (case.init["first_run_ns"] < 20e6).all()
    shown = " ".join(details(document).split())
    assert f"search {time_text(case.init['search_ns'][0])}" in shown
    row = next(csv.DictReader(cases_csv(document).splitlines()))
    assert 40e6 <= int(row["init_ns"])


@pytest.mark.parametrize(
    ("forced", "searches"),
    [("1", True), pytest.param("off", False, marks=pytest.mark.slow), ("0", False)],
)
def test_a_search_that_a_variable_forces_is_one_too(
    release, plugin, small_graph, monkeypatch, forced, searches
):
    release()
    monkeypatch.setenv("HIPDNN_FORCE_BENCHMARKING", forced)
    spec = f"hipdnn:MIOPEN_ENGINE@{plugin('build', **PLANTED)}"
    case = bench_run.run([str(small_graph)], engine=[spec], rounds=1, iterations=1).cases[0]
    assert searches == ("search_ns" in case.init)


def test_a_plain_plan_has_no_such_phase(release, plugin, small_graph):
    release()
    spec = f"hipdnn:MIOPEN_ENGINE@{plugin('build', **PLANTED)}"
    case = bench_run.run([str(small_graph)], engine=[spec], rounds=1, iterations=1).cases[0]
    assert "search_ns" not in case.init


@pytest.mark.slow
@pytest.mark.parametrize(("caches", "median_ms"), [({}, 2.0), ({"cache_dir": "same"}, 1.76)])
def test_a_search_reaches_later_plain_runs_through_a_shared_cache_only(
    release, plugin, small_graph, tmp_path, monkeypatch, caches, median_ms
):
    release()
    monkeypatch.chdir(tmp_path)
    folder = plugin("build", **PLANTED)
    for knob in (SEARCHED, ""):
        document = bench_run.run(
            [str(small_graph)],
            engine=[f"hipdnn:MIOPEN_ENGINE{knob}@{folder}"],
            rounds=1,
            iterations=10,
            **caches,
        )
    assert median_ms * 1e6 == pytest.approx(document.cases[0].summary["device_ns"].median, rel=0.02)


@pytest.mark.long
def test_knobs_of_one_side_differ_from_the_other(release, plugin, small_graph):
    release()
    folder = plugin("build", **PLANTED)
    a, b = (f"hipdnn:MIOPEN_ENGINE{knob}@{folder}" for knob in (SEARCHED, ""))
    document = bench_run.run([str(small_graph)], a=a, b=b, rounds=1, iterations=10)
    medians = [case.summary["device_ns"].median for case in document.cases]
    assert [1.76e6, 2.0e6] == pytest.approx(medians, rel=0.02)
    knob = "global.benchmarking"
    assert ["1", None] == [engine.knobs.get(knob) for engine in document.engines]


@pytest.mark.slow
def test_every_engine_of_all_has_its_search(release, small_graph, capsys):
    release()
    words = ["--engine", "hipdnn:all", "--oracle", "--rounds", "1", "--iters", "2"]
    assert 0 == main([str(small_graph), *words])
    rows = [line for line in capsys.readouterr().out.splitlines() if re.search(r"-?\d %$", line)]
    assert 2 == len(rows)  # MIOPEN_ENGINE and TEST_ENGINE


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"engine": ["numpy"]}, "--oracle: engine numpy has no search"),
        ({"engine": ["hipdnn"]}, "--oracle: name the engine that searches: hipdnn:ID"),
        ({"engine": ["hipdnn:autotune"]}, "--oracle: hipdnn:autotune searches in any case"),
        ({"engine": ["hipdnn:1"], "cache_dir": "x"}, "--oracle needs caches of its own"),
        ({"a": "hipdnn:1", "b": "hipdnn:2"}, "--oracle and --a/--b"),
    ],
)
def test_an_oracle_that_would_say_nothing_is_refused(small_graph, options, words):
    with pytest.raises(UsageError, match=words):
        bench_run.run([str(small_graph)], oracle=True, **options)


def test_a_knob_of_an_engine_that_has_none_is_refused(small_graph):
    with pytest.raises(UsageError, match=r"engine numpy\+knob:x=1: numpy has no knobs"):
        bench_run.run([str(small_graph)], engine=["numpy+knob:x=1"])


def test_pairs_are_found_by_their_keys_whatever_comes_after():
    keys = ["hipdnn:1+device=0", f"hipdnn:1{SEARCHED}+device=0", "numpy"]
    assert ((keys[0], keys[1]),) == oracle_pairs(keys)
