"""``--until decided``: which cases get more rounds, and that bench-compare says the same later."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from bench_schema import files
from bench_schema.estimate import looks

import bench_run
from bench_run.errors import UsageError
from bench_run.runner.referee import read_decisions

QUICK = {"iterations": 30, "warmup": 1, "rounds": 3}


def compared(verdict, needed_unit="pair", gate="e2e_ns", path="g.json"):
    metric = {"verdict": verdict, "needed_unit": needed_unit}
    return {
        "gate": gate,
        "metrics": {"e2e_ns": metric},
        "base": {"case": f"{path} on a"},
        "other": {"case": f"{path} on b"},
    }


def test_an_unclear_pair_keeps_both_of_its_cases_open():
    found = read_decisions({"cases": [compared("unclear"), compared("same", path="h.json")]}, True)
    assert {"g.json on a", "g.json on b"} == found.open


def test_against_a_stored_base_only_the_cases_of_this_run_are_open():
    found = read_decisions({"cases": [compared("unclear", "round")]}, False)
    assert {"g.json on b"} == found.open


def test_what_only_more_documents_decide_gets_no_more_rounds():
    found = read_decisions({"cases": [compared("unclear", "document")]}, False)
    assert (frozenset(), 0) == (found.open, found.unclear)


def test_what_is_not_comparable_gets_no_more_rounds():
    assert frozenset() == read_decisions({"cases": [compared("unclear", gate=None)]}, True).open


def test_the_sentence_counts_what_is_decided_and_what_is_left():
    record = {
        "cases": [
            compared("same"),
            compared("faster"),
            compared("same"),
            compared("unclear"),
            compared("unclear", "document"),
        ]
    }
    expected = (
        "3 of 5 pairs decided (2 same, 1 faster), 1 open, 1 open that only more documents decide"
    )
    assert expected == read_decisions(record, True).sentence("pairs")


def verdicts(path, *words):
    command = [sys.executable, "-m", "bench_compare", str(path), *words, "--json", "-"]
    done = subprocess.run(command, capture_output=True, check=False)
    cases = json.loads(done.stdout)["cases"]
    return {case["other"]["path"]: case["metrics"][case["gate"]]["verdict"] for case in cases}


@pytest.mark.slow
def test_bench_compare_says_of_the_document_what_ended_its_rounds(graph_folder, tmp_path):
    path = tmp_path / "ab.json"
    bench_run.run(
        [str(graph_folder)],
        a="numpy",
        b="numpy",
        until="decided",
        threshold_ratio=0.5,
        max_rounds=5,
        output=str(path),
        **QUICK,
    )
    document = files.read(path)
    assert ("decided", 0.5, 5) == (
        document.run.settings.until,
        document.run.settings.threshold_ratio,
        document.run.settings.max_rounds,
    )
    said = verdicts(path, "--group-by", "engine", "--threshold", "50%")
    for case in document.cases:
        decided = said[case.graph.path] != "unclear"
        assert (case.stopped_by == "decided") == decided
        assert len(case.rounds) in (looks(3, 5) if decided else (5,))


@pytest.mark.slow
def test_without_an_output_cases_are_judged_all_the_same(small_graph):
    document = bench_run.run(
        [str(small_graph)], engine=["numpy", "numpy"], until="decided", max_rounds=3, **QUICK
    )
    assert {"decided", "max rounds"} >= {case.stopped_by for case in document.cases}


@pytest.mark.slow
def test_against_a_stored_base_only_open_cases_get_more_rounds(graph_folder, tmp_path):
    base, path = tmp_path / "base.json", tmp_path / "new.json"
    bench_run.run([str(graph_folder)], engine=["numpy"], output=str(base), **QUICK)
    document = bench_run.run(
        [str(graph_folder)],
        engine=["numpy"],
        until="decided",
        against=str(base),
        threshold_ratio=0.5,
        max_rounds=4,
        output=str(path),
        **QUICK,
    )
    said = verdicts(base, str(path), "--threshold", "50%")
    for case in document.cases:
        assert len(case.rounds) in looks(3, 4)
        assert (case.stopped_by == "max rounds") <= (said[case.graph.path] == "unclear")


REFUSED = {
    "one engine": ({"until": "decided"}, "^--until decided compares engines"),
    "no file": ({"until": "decided", "against": "no.json"}, "^--against: no.json: no such file"),
    "against alone": ({"against": "x.json"}, "^--against goes with --until decided"),
    "threshold alone": ({"threshold_ratio": 0.1}, "^--threshold goes with --until decided"),
    "two rules": (
        {"until": "decided", "precision_ratio": 0.1},
        "^--until and --precision: give one or the other",
    ),
    "few rounds": (
        {"until": "decided", "max_rounds": 2},
        "^--max-rounds 2: an interval takes at least 3 rounds",
    ),
}


@pytest.mark.parametrize(("options", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_decided_is_refused_before_measuring(small_graph, options, sentence):
    with pytest.raises(UsageError, match=sentence):
        bench_run.run([str(small_graph)], engine=["numpy"], **options, **QUICK)


@pytest.mark.slow
def test_a_base_without_a_common_case_is_said_and_the_results_are_kept(small_graph, tmp_path):
    base, path = tmp_path / "base.json", tmp_path / "new.json"
    few = {**QUICK, "rounds": 1}
    bench_run.run([], op=["relu: dims=3x5"], engine=["numpy"], output=str(base), **few)
    with pytest.raises(UsageError, match=r"^--until decided: nothing compared"):
        bench_run.run(
            [str(small_graph)],
            engine=["numpy"],
            until="decided",
            against=str(base),
            max_rounds=3,
            output=str(path),
            **few,
        )
    assert 3 == len(files.read(path).cases[0].rounds)
