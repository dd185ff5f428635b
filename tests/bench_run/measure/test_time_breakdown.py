"""What a run says about its own time."""

from __future__ import annotations

import re

import pytest

from bench_run.measure.time_breakdown import TimeBreakdown


def scripted(*instants):
    return TimeBreakdown(iter(instants).__next__)


def test_an_activity_inside_of_another_is_counted_once():
    breakdown = scripted(0, 1, 3, 7, 15, 15)
    with breakdown.on("reference"), breakdown.on("starting workers"):
        pass
    assert {"other": 1, "reference": 2 + 8, "starting workers": 4} == breakdown.seconds()


def test_phases_of_a_worker_are_activities_until_its_answer():
    breakdown = scripted(0, 0, 1, 3, 7, 8)
    with breakdown.on("building"):
        breakdown.phase("inputs")
        breakdown.phase("measure")
    assert {"building": 1, "inputs": 2, "measuring": 4, "other": 1} == breakdown.seconds()


def test_checks_among_the_samples_are_checking():
    breakdown = scripted(0, 0, 1, 7, 8, 8)
    with breakdown.on("building"):
        breakdown.phase("measure")
        breakdown.phase("validate", checked_ns=2_000_000_000)
    assert {"building": 1, "measuring": 4, "checking": 3, "other": 0} == breakdown.seconds()


def test_a_phase_that_nobody_knows_belongs_to_what_was_asked():
    breakdown = scripted(0, 0, 1, 3, 3)
    with breakdown.on("reference"):
        breakdown.phase("thinking")
    assert 3 == breakdown.seconds()["reference"]


def test_an_activity_ends_with_an_error_too():
    breakdown = scripted(0, 1, 2, 4)
    with pytest.raises(ValueError, match="no"), breakdown.on("building"):
        raise ValueError("no")
    assert {"other": 1 + 2, "building": 1} == breakdown.seconds()


def test_the_line_has_the_longest_first_and_leaves_out_what_is_nothing():
    breakdown = scripted(0, 0.01, 2.51, 6.5)
    with breakdown.on("checking"):
        pass
    assert "took 6.5 s: other 4.0 s, checking 2.5 s" == breakdown.line()


@pytest.mark.long
def test_a_run_says_at_its_end_where_the_time_went(bench_run_command, small_graph):
    words = ["--rounds", "1", "--iters", "2", "--engine", "numpy"]
    done = bench_run_command(small_graph, *words, check=False)  # not forked: workers start
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(r"took [\d.]+ s: .*starting workers [\d.]+ s.*", last), last
