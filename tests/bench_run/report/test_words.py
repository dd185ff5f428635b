"""Words of a run that were wrong or hid something: progress, threads, no change, shortened runs."""

from __future__ import annotations

import math

import pytest
from bench_schema.estimate import Change

from bench_run import run_performance_test
from bench_run.report.one_graph import speedup_text

RELU = ("--op", "relu: dims=8x8")


@pytest.mark.long
def test_a_card_says_the_threads_of_each_engine_and_where_the_time_went(bench_run_command):
    sides = ("--a", "numpy", "--b", "numpy+threads=2", "--iters", "6")
    done = bench_run_command(*RELU, *sides)
    heads = [line for line in done.stdout.splitlines() if line.startswith(("A: ", "B: "))]
    assert [", 1 thread", ", 2 threads"] == [line[line.rindex(",") :] for line in heads]
    took = next(line for line in done.stderr.splitlines() if line.startswith("took "))
    assert "rounds in turns" in took


@pytest.mark.long
def test_rounds_that_a_rule_adds_are_called_added(bench_run_command):
    words = ("-e", "numpy", "--iters", "3", "--precision", "0.0001%", "--max-rounds", "4")
    said = bench_run_command(*RELU, *words).stderr.splitlines()
    rounds = [line.partition(":")[0] for line in said if line.startswith("round ")]
    assert rounds == ["round 1 of 3", "round 2 of 3", "round 3 of 3", "round 4, added"]


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.9998, 1.0003, "no difference shown (95 % CI: within 0.05 % either way)"),
        (0.9998, 1.02, "no difference shown (95 % CI: from 0 % to 2.0 % slower)"),
        (0.97, 1.02, "no difference shown (95 % CI: from 3.0 % faster to 2.0 % slower)"),
    ],
)
def test_an_end_that_rounds_to_no_change_is_neither_faster_nor_slower(low, high, said):
    assert speedup_text(Change(0.0, 0.0, math.log(low), math.log(high))) == said


def test_a_performance_test_measures_as_many_runs_as_asked_for_or_names_the_limit():
    inputs = [{"lhs": (8, 8), "rhs": (8, 8)}]
    options = {"run_backward": False, "engine": ["numpy"], "warmup": 0}
    (found,) = run_performance_test("add", inputs, runs=50, **options)
    assert (found["iterations"], found["stopped_by"]) == (50, "iterations")
    (found,) = run_performance_test("add", inputs, runs=10**6, max_time_s=0.05, **options)
    assert (found["iterations"] < 10**6, found["stopped_by"]) == (True, "max time")
