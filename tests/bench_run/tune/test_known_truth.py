"""A whole tuning of an engine whose times are known, with plans that misbehave in every way."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from bench_schema.files import read
from bench_schema.usage import guide

pytestmark = pytest.mark.slow


@pytest.fixture
def entry(tuned):
    return tuned[0].tuned.entries[0]


def candidate(entry, plan):
    return next(c for c in entry.candidates if c.variant.get("plan") == plan)


def test_the_preferred_of_the_fastest_wins(entry):
    assert "near" == entry.chosen.variant["plan"]


def test_those_tied_with_the_winner_are_kept(entry):
    names = {entry.candidates[index].variant.get("plan") for index in entry.tied_with}
    assert "best" in names


def test_the_claim_is_the_true_time(entry):
    assert candidate(entry, "near").time_ns == pytest.approx(500_500, rel=0.005)


def test_every_candidate_that_ran_has_a_time_and_how_often_it_was_measured(entry):
    ran = [c for c in entry.candidates if c.status == "ok"]
    assert len(ran) > 3
    assert all(c.time_ns is not None and c.rounds >= 2 for c in ran)


def test_the_default_has_a_case_of_the_document(entry):
    assert entry.default.case is not None


def test_the_gain_is_the_true_ratio(entry):
    assert entry.gain.estimate == pytest.approx(1_000_000 / 500_500, rel=0.01)


def test_a_wrong_plan_is_out_however_fast(entry):
    assert "wrong" == candidate(entry, "wrong").status


def test_a_plan_that_crashes_costs_only_itself(entry):
    assert "crashed" == candidate(entry, "crash").status


def test_a_plan_that_hangs_while_it_is_built_costs_only_itself(entry):
    assert "timed out" == candidate(entry, "hang").status


def test_a_plan_that_is_the_default_by_another_name_is_a_duplicate(entry):
    assert "duplicate" == candidate(entry, "usual").status


def test_the_default_and_all_plans_run_on_one_engine_so_in_one_process(entry):
    assert {"known"} == {found.engine for found in entry.candidates}


@pytest.mark.slow
def test_an_engine_that_runs_plans_only_by_a_name_of_its_own_is_tuned_too(known_run):
    done = known_run(
        "tune",
        "small_add.json",
        "--engine",
        "known+apart",
        "--rounds",
        "3",
        "--space",
        "plan=best,slow",
        "-o",
        "apart.json",
        "-q",
    )
    entry = read(known_run.desk / "apart.json").tuned.entries[0]
    assert (0, "known:all+apart") == (done.returncode, entry.chosen.engine)


def test_a_nondeterministic_plan_is_known_as_one(entry):
    assert candidate(entry, "moody").deterministic is False


def test_what_is_far_behind_in_both_short_rounds_gets_no_others(entry):
    found = candidate(entry, "hopeless")
    assert (None, 2, "ok") == (found.case, found.rounds, found.status)


def test_a_candidate_that_is_out_has_the_time_of_its_short_rounds(entry):
    found = candidate(entry, "hopeless").time_ns / entry.chosen.time_ns
    assert found == pytest.approx(9.0, rel=0.03)


def test_the_record_is_a_result_document_of_finalists_in_five_rounds_or_more(tuned):
    assert tuned[0].run.complete
    assert {len(case.rounds) >= 3 for case in tuned[0].cases} == {True}


def test_the_winner_and_the_default_are_cases_of_the_document(entry, tuned):
    ids = {case.id for case in tuned[0].cases}
    assert {entry.candidates[i].case for i in (entry.winner, 0)} <= ids


def test_the_table_names_the_winner(tuned):
    assert "plan=near" in tuned[1].stdout


def test_show_prints_the_same_table(tuned, known_run):
    assert tuned[1].stdout == known_run("tune", "--show", "tuned.json").stdout


def test_nothing_else_is_left(tuned, known_run):
    assert {"tuned.json"} == {path.name for path in known_run.desk.glob("tuned*")}


def test_a_run_takes_the_winner_and_says_so(tuned, known_run):
    done = known_run(
        "small_add.json",
        "--tuned",
        "tuned.json",
        "--rounds",
        "1",
        "--iters",
        "3",
        "-o",
        "taken.json",
        "-q",
    )
    case = read(known_run.desk / "taken.json").cases[0]
    assert "near" == case.plan["plan"], done.stderr
    assert any(note.startswith("tuned: plan=near") for note in case.notes)


def test_a_record_of_another_library_is_not_applied_and_the_case_says_why(tuned, known_run):
    done = known_run(
        "small_add.json",
        "--tuned",
        "tuned.json",
        "--rounds",
        "1",
        "--iters",
        "3",
        "-o",
        "other.json",
        KNOWN_VERSION="2.0",
    )
    case = read(known_run.desk / "other.json").cases[0]
    assert ("usual", True) == (
        case.plan["plan"],
        any("known 1.0, here is 2.0" in note for note in case.notes),
    )
    assert "1 of them by default: the record is of known 1.0" in done.stderr


def test_a_mismatch_can_be_an_error(tuned, known_run):
    done = known_run(
        "small_add.json", "--tuned", "tuned.json", "--tuned-mismatch", "error", KNOWN_VERSION="2.0"
    )
    assert (1, 1) == (done.returncode, done.stderr.count("bench-run:"))


@pytest.mark.slow
def test_a_graph_without_an_entry_runs_by_default(tuned, known_run):
    from tests.support import graph_json

    (known_run.desk / "other_add.json").write_text(json.dumps(graph_json("other", (3, 5))))
    known_run(
        "other_add.json",
        "--tuned",
        "tuned.json",
        "--rounds",
        "1",
        "--iters",
        "3",
        "-o",
        "without.json",
        "-q",
    )
    case = read(known_run.desk / "without.json").cases[0]
    assert "usual" == case.plan["plan"]
    assert "not tuned: the record has no entry for this graph" in case.notes


@pytest.mark.slow
def test_a_winner_that_is_verified_holds(tuned, known_run):
    done = known_run("tune", "--verify", "tuned.json", "--rounds", "3", "--iters", "30", "-q")
    assert (0, True) == (done.returncode, "holds" in done.stdout)


def test_a_winner_that_is_not_faster_is_exit_code_2(tuned, known_run):
    tree = json.loads((known_run.desk / "tuned.json").read_text())
    entry = tree["tuned"]["entries"][0]
    plans = [candidate["variant"].get("plan") for candidate in entry["candidates"]]
    entry["winner"] = plans.index("hopeless")
    (known_run.desk / "slow.json").write_text(json.dumps(tree))
    done = known_run("tune", "--verify", "slow.json", "--rounds", "3", "--iters", "30", "-q")
    assert (2, True) == (done.returncode, "not shown to be faster" in done.stdout)


def test_where_every_winner_is_the_default_there_is_nothing_to_verify(tuned, known_run):
    tree = json.loads((known_run.desk / "tuned.json").read_text())
    tree["tuned"]["entries"][0]["winner"] = 0
    (known_run.desk / "plain.json").write_text(json.dumps(tree))
    done = known_run("tune", "--verify", "plain.json")
    assert (0, True) == (done.returncode, "nothing to verify" in done.stdout)


def test_nothing_of_another_engine_goes_into_hipdnns_file(tuned, known_run):
    done = known_run("tune", "--export", "hipdnn:out.json", "tuned.json")
    assert (1, True) == (done.returncode, "not on hipdnn" in done.stderr)


@pytest.mark.slow
def test_knobs_are_an_axis_with_the_engines_own_values(known_run, known_words):
    done = known_run("tune", *known_words, "--space", "knob:SPEED=all", "-o", "knobs.json", "-q")
    entry = read(known_run.desk / "knobs.json").tuned.entries[0]
    assert (0, {"knob:SPEED": "4"}) == (
        done.returncode,
        dict(entry.chosen.variant),
    )


@pytest.mark.slow
def test_drift_moves_no_winner(known_run):
    known_run(
        "tune",
        "small_add.json",
        "--engine",
        "known+drift",
        "--rounds",
        "3",
        "--iters",
        "60",
        "--space",
        "plan=best,slow,near",
        "-o",
        "drift.json",
        "-q",
    )
    entry = read(known_run.desk / "drift.json").tuned.entries[0]
    assert "near" == entry.chosen.variant.get("plan")


def stopped(known_run, *words):
    """Run the command in a process of its own, which the engine asks to end."""
    paths = (known_run.root, known_run.root / "schema", known_run.site)
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "KNOWN_STOP": "3"}
    command = [sys.executable, "-m", "bench_run", *words]
    done = subprocess.run(
        command, cwd=known_run.desk, env=given, capture_output=True, text=True, timeout=120
    )
    assert (1, True) == (done.returncode, "interrupted: " in done.stderr), done.stderr


@pytest.mark.slow
def test_an_interrupted_tuning_goes_on_and_measures_nothing_again(known_run, known_words):
    words = ("tune", *known_words, "--space", "plan=best,near,slow", "-o", "cut.json")
    stopped(known_run, *words)
    assert {"cut.short.json"} == {path.name for path in known_run.desk.glob("cut.*")}
    before = sum(len(case.rounds) for case in read(known_run.desk / "cut.short.json").cases)
    done = known_run(*words, "--resume")
    again = re.findall(r"round [12] of 2: (\d+) case", done.stderr)
    assert 0 < before == 8 - sum(map(int, again))
    assert 0 == done.returncode, done.stderr
    assert {"cut.json"} == {path.name for path in known_run.desk.glob("cut.*")}
    assert "near" == read(known_run.desk / "cut.json").tuned.entries[0].chosen.variant["plan"]


@pytest.mark.slow
def test_another_tuning_cannot_go_on_with_it(known_run, known_words):
    words = ("tune", *known_words, "-o", "cut2.json", "-q")
    known_run(*words, "--space", "plan=best,slow")
    done = known_run(*words, "--space", "plan=near,slow", "--resume")
    assert (1, True) == (done.returncode, "has another space" in done.stderr)


@pytest.mark.slow
def test_one_combination_for_all_graphs_is_the_best_in_total(known_run):
    from tests.support import graph_json

    for name, width in (("one", 4), ("two", 6)):
        (known_run.desk / f"{name}.json").write_text(json.dumps(graph_json(name, (4, width))))
    known_run(
        "tune",
        "one.json",
        "two.json",
        "--engine",
        "known",
        "--space",
        "knob:SPEED=1,2,4",
        "--scope",
        "global",
        "--rounds",
        "3",
        "--iters",
        "30",
        "-o",
        "whole.json",
        "-q",
    )
    record = read(known_run.desk / "whole.json")
    chosen = [total for total in record.tuned.whole.totals if total.chosen]
    assert [{"knob:SPEED": "4"}] == [dict(total.variant) for total in chosen]
    assert 3 <= len(record.tuned.whole.totals)


@pytest.mark.slow
def test_the_example_of_the_guide_tunes_the_smoke_suite_on_the_processor(known_run):
    pytest.importorskip("torch")
    words = "suite:smoke --space engine=numpy,torch --space layout=nchw,nhwc"
    assert f"bench-run tune {words}\n" in guide("bench_run", "tuning")
    done = known_run(
        "tune",
        *words.split(),
        "--rounds",
        "3",
        "--iters",
        "9",
        "--max-time",
        "1",
        "--check-budget",
        "0",
        "--budget",
        "60s",
        "-o",
        "smoke.json",
    )
    record = read(known_run.desk / "smoke.json")
    assert (0, 7) == (done.returncode, len(record.tuned.entries))
    assert all(entry.chosen.time_ns for entry in record.tuned.entries)


def test_a_fused_graph_races_against_the_chain_of_its_nodes(known_run):
    done = known_run(
        "tune",
        "--op",
        "conv_fwd+bias+relu: n=16 c=16 h=16 w=16 k=16 r=3 s=3 pad=1",
        "--engine",
        "numpy",
        "--space",
        "fusion=on,off",
        "--rounds",
        "3",
        "--iters",
        "9",
        "-o",
        "fusion.json",
        "-q",
    )
    entry = read(known_run.desk / "fusion.json").tuned.entries[0]
    chain = next(c for c in entry.candidates if c.variant.get("fusion") == "off")
    assert (0, "ok", True) == (done.returncode, chain.status, chain.rounds > 0)
