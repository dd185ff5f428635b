"""Plain questions with plain answers: what anybody would say of these numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_compare.comparison.compare import compare
from bench_compare.comparison.reasons import conclude
from bench_compare.input.foreign import read_foreign
from bench_compare.model import Side, Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, side
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


def of_files(label, trees):
    sources = [read_foreign(tree, Path(f"{label}{n}.json")) for n, tree in enumerate(trees)]
    engines = dict.fromkeys(e.key for one in sources for e in one.document.engines)
    return Side(label, tuple(sources), tuple(engines))


def answered(base, other, policy=None):
    found = compare(base, [other], policy or Policy())
    return found, conclude(found)


def scattered(random, level, shape, scatter=0.004):
    return level * np.exp(random.normal(0, scatter, shape))


MEDIANS_US = [103, 104, 102, 102, 103], [5819, 1598, 1591, 1692, 1633]


@pytest.mark.parametrize("scatter", [0.01, 0.4])
def test_a_kernel_that_takes_sixteen_times_as_long_is_slower(scatter):
    """Its first round took four times as long as the others."""
    random = np.random.default_rng(0)
    sides = [
        side(name, document([case("g", [scattered(random, 1e3 * us, 21, scatter) for us in row])],
                            run_id=name))
        for name, row in zip("ab", MEDIANS_US, strict=True)
    ]  # fmt: skip
    found, answer = answered(*sides)
    assert (found.cases[0].verdict, answer.word, answer.exit_code) == ("slower", "FAIL", 2)


@pytest.mark.parametrize("samples", [10, 20, 40])
def test_a_single_round_of_a_kernel_that_takes_forty_times_as_long_is_slower(samples):
    random = np.random.default_rng(samples)
    sides = [
        side(name, document([case("g", [scattered(random, level, samples, 0.3)])], run_id=name))
        for name, level in (("a", 1e5), ("b", 4e6))
    ]
    assert answered(*sides)[1].word == "FAIL"


@pytest.mark.parametrize("repetitions", [1, 2, 3, 10, 15, 16, 30])
@pytest.mark.parametrize("factor", [7, 10])
def test_ten_times_as_long_is_slower_however_often_it_was_repeated(factor, repetitions):
    random = np.random.default_rng(repetitions)
    base, other = (
        of_files(name, [google({"f": scattered(random, level, repetitions, 0.01)})])
        for name, level in (("a", 1e4), ("b", factor * 1e4))
    )
    assert answered(base, other)[1].exit_code == 2


def test_the_time_of_repetitions_is_their_median_and_none_is_left_out():
    """They begin cold: each is a measurement with a warm-up of its own all the same."""
    times = [9900, 9700, 9600, 9500, 9400, 8986, 8600, 8500, 8450, 8400, 8350]
    found, _ = answered(
        of_files("a", [google({"f": times})]), of_files("b", [google({"f": times})])
    )
    assert found.cases[0].gate_metric.base == pytest.approx(8986, rel=1e-9)


def test_times_that_are_all_gone_fail_as_one_that_is_gone_does():
    whole = {"a": (100, 1e-3, 0.01), "b": (100, 2e-3, 0.01), "c": (100, 3e-3, 0.01)}
    for gone in (("b",), ("a", "b", "c")):
        other = {name: (0, 0, 0) if name in gone else row for name, row in whole.items()}
        found, answer = answered(of_files("a", [nvbench(whole)]), of_files("b", [nvbench(other)]))
        assert (found.counts[Verdict.LOST], answer.exit_code) == (len(gone), 2)


@pytest.mark.parametrize("repetitions", [1, 10])
@pytest.mark.parametrize("gone", [("x",), ("x", "y")])
def test_a_time_that_falls_to_zero_is_lost(gone, repetitions):
    whole = {name: [1500.0] * repetitions for name in ("x", "y")}
    other = {**whole, **{name: [0.0] * repetitions for name in gone}}
    found, answer = answered(of_files("a", [google(whole)]), of_files("b", [google(other)]))
    assert (found.counts[Verdict.LOST], answer.exit_code) == (len(gone), 2)


@pytest.mark.parametrize(
    ("count", "noise", "factor"), [(5, 0.4, 1.05), (20, 0.05, 1.03), (20, 0.05, 0.97)]
)
def test_a_change_within_the_noise_that_the_files_state_is_none(count, noise, factor):
    base = of_files("a", [nvbench({"n": (count, 1e-3, noise)})])
    other = of_files("b", [nvbench({"n": (count, factor * 1e-3, noise)})])
    found, answer = answered(base, other)
    assert (found.cases[0].verdict, answer.word) == ("unclear", "UNDECIDED")
    assert "within the noise that the files state" in found.cases[0].reason


FILES, REPETITIONS = (1, 2, 3, 5), (1, 2, 3, 8, 15, 16, 30)


@pytest.mark.long
@settings(max_examples=examples(12), deadline=None)
@given(st.floats(1.02, 10), st.integers(0, 2**32 - 1))
def test_more_evidence_never_turns_a_failure_into_anything_else(factor, seed):
    random = np.random.default_rng(seed)
    base, other = (scattered(random, level, (5, 30)) for level in (1e4, factor * 1e4))
    failed = set()
    for files in FILES:
        for repetitions in REPETITIONS:
            sides = (
                of_files(name, [google({"f": row[:repetitions]}) for row in rows[:files]])
                for name, rows in (("a", base), ("b", other))
            )
            if answered(*sides)[1].word == "FAIL":
                failed.add((files, repetitions))
            less = {(f, r) for f, r in failed if f <= files and r <= repetitions}
            assert not less or (files, repetitions) in failed, (less, files, repetitions)
