"""Plain questions with plain answers: what anybody would say of these numbers."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bench_compare
from bench_compare.model import Verdict
from tests.bench_compare.build import case, document
from tests.support import examples


def google(times_by_name):
    """A file of Google Benchmark: the repetitions of each benchmark, in nanoseconds."""
    rows = [
        {
            "name": name,
            "run_name": name,
            "run_type": "iteration",
            "repetitions": len(times),
            "repetition_index": number,
            "iterations": 1000,
            "real_time": float(time),
            "cpu_time": float(time),
            "time_unit": "ns",
        }
        for name, times in times_by_name.items()
        for number, time in enumerate(times)
    ]
    return {"context": {"date": "2026-10-01T10:00:00+00:00", "host_name": "h"}, "benchmarks": rows}


def nvbench(states):
    """A file of nvbench: for each state samples, mean in seconds, noise as a share."""

    def told(tag, value):
        return {"tag": tag, "data": [{"name": "value", "type": "float64", "value": str(value)}]}

    rows = [
        {
            "name": name,
            "device": 0,
            "axis_values": [{"name": "N", "value": name}],
            "summaries": [
                told("nv/cold/sample_size", count),
                *([told("nv/cold/time/gpu/mean", mean)] if count else []),
                *([told("nv/cold/time/gpu/stdev/relative", noise)] if count else []),
            ],
        }
        for name, (count, mean, noise) in states.items()
    ]
    version = {"json": {"string": "1.0.0"}, "nvbench": {"string": "0.1"}}
    return {
        "meta": {"version": version},
        "devices": [{"id": 0, "name": "GPU"}],
        "benchmarks": [{"name": "copy", "states": rows}],
    }


def answered(folder, base, other):
    """The comparison of these files, and its answer; trees are written, documents are given."""
    given = []
    for label, trees in (("a", base), ("b", other)):
        sides = []
        for number, tree in enumerate(trees):
            if isinstance(tree, dict):
                path = Path(folder) / f"{label}{number}.json"
                path.write_text(json.dumps(tree))
                tree = path
            sides.append(tree)
        given.append(sides)
    found = bench_compare.compare(*given)
    return found.comparison, found.conclusion


def scattered(random, level, shape, scatter=0.004):
    return level * np.exp(random.normal(0, scatter, shape))


def ours(*levels_ns, samples, scatter, seed=0):
    """A document of ours, with a round for each level."""
    random = np.random.default_rng(seed)
    rounds = [scattered(random, level, samples, scatter) for level in levels_ns]
    return document([case("g", rounds)], run_id=str(levels_ns))


BASE_US, OTHER_US = (103, 104, 102, 102, 103), (5819, 1598, 1591, 1692, 1633)


@pytest.mark.parametrize("scatter", [0.01, 0.4])
def test_a_kernel_that_takes_sixteen_times_as_long_is_slower(tmp_path, scatter):
    """Its first round took four times as long as the others."""
    sides = (
        [ours(*(1e3 * us for us in row), samples=21, scatter=scatter)]
        for row in (BASE_US, OTHER_US)
    )
    found, answer = answered(tmp_path, *sides)
    assert (found.cases[0].verdict, answer.word, answer.exit_code) == ("slower", "FAIL", 2)


@pytest.mark.parametrize("samples", [10, 20, 40])
def test_a_single_round_that_takes_forty_times_as_long_is_slower(tmp_path, samples):
    sides = ([ours(ns, samples=samples, scatter=0.3, seed=samples)] for ns in (1e5, 4e6))
    assert answered(tmp_path, *sides)[1].word == "FAIL"


@pytest.mark.parametrize("repetitions", [1, 2, 3, 10, 15, 16, 30])
@pytest.mark.parametrize("factor", [7, 10])
def test_ten_times_as_long_is_slower_however_often_it_was_repeated(tmp_path, factor, repetitions):
    random = np.random.default_rng(repetitions)
    sides = (
        [google({"f": scattered(random, level, repetitions, 0.01)})]
        for level in (1e4, factor * 1e4)
    )
    assert answered(tmp_path, *sides)[1].exit_code == 2


def test_the_time_of_repetitions_is_their_median_and_none_is_left_out(tmp_path):
    """They begin cold: each is a measurement with a warm-up of its own all the same."""
    times = [9900, 9700, 9600, 9500, 9400, 8986, 8600, 8500, 8450, 8400, 8350]
    other = [google({"f": [*times[:-1], 8349]})]
    found, _ = answered(tmp_path, [google({"f": times})], other)
    assert found.cases[0].gate_metric.base == pytest.approx(8986, rel=1e-9)


@pytest.mark.parametrize("gone", [("b",), ("a", "b", "c")])
def test_times_that_are_all_gone_fail_as_one_that_is_gone_does(tmp_path, gone):
    whole = {"a": (100, 1e-3, 0.01), "b": (100, 2e-3, 0.01), "c": (100, 3e-3, 0.01)}
    other = {name: (0, 0, 0) if name in gone else row for name, row in whole.items()}
    found, answer = answered(tmp_path, [nvbench(whole)], [nvbench(other)])
    assert (found.counts[Verdict.LOST], answer.exit_code) == (len(gone), 2)


@pytest.mark.parametrize("repetitions", [1, 10])
@pytest.mark.parametrize("gone", [("x",), ("x", "y")])
def test_a_time_that_falls_to_zero_is_lost(tmp_path, gone, repetitions):
    whole = {name: [1500.0] * repetitions for name in ("x", "y")}
    other = {**whole, **{name: [0.0] * repetitions for name in gone}}
    found, answer = answered(tmp_path, [google(whole)], [google(other)])
    assert (found.counts[Verdict.LOST], answer.exit_code) == (len(gone), 2)


@pytest.mark.parametrize(
    ("count", "noise", "factor"), [(5, 0.4, 1.05), (20, 0.05, 1.03), (20, 0.05, 0.97)]
)
def test_a_change_within_the_noise_that_the_files_state_is_none(tmp_path, count, noise, factor):
    sides = ([nvbench({"n": (count, mean, noise)})] for mean in (1e-3, factor * 1e-3))
    found, answer = answered(tmp_path, *sides)
    assert (found.cases[0].verdict, answer.word) == ("unclear", "UNDECIDED")
    assert "within the noise that the files state" in found.cases[0].reason


FILES, REPETITIONS = (1, 2, 3, 5), (1, 2, 3, 8, 15, 16, 30)


@pytest.mark.long
@settings(max_examples=examples(12), deadline=None)
@given(st.floats(1.02, 10), st.integers(0, 2**32 - 1))
def test_more_evidence_never_turns_a_failure_into_anything_else(factor, seed):
    random = np.random.default_rng(seed)
    sides = [scattered(random, level, (5, 30)) for level in (1e4, factor * 1e4)]
    failed = set()
    for files in FILES:
        for repetitions in REPETITIONS:
            trees = ([google({"f": row[:repetitions]}) for row in rows[:files]] for rows in sides)
            with tempfile.TemporaryDirectory() as folder:
                word = answered(folder, *trees)[1].word
            if word == "FAIL":
                failed.add((files, repetitions))
            less = {(f, r) for f, r in failed if f <= files and r <= repetitions}
            assert not less or (files, repetitions) in failed, (less, files, repetitions)
