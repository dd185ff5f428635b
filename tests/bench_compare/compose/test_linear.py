"""Sums of rows and their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_compare.compose.prediction import alone, ratio, total
from tests.support import examples

EVERY = np.ones(12, dtype=bool)


@given(documents=st.integers(1, 4), seed=st.integers(0, 10_000))
@settings(max_examples=examples(60), deadline=None)
def test_rows_alone_have_the_interval_of_a_sum_of_one_row(documents, seed):
    generator = np.random.default_rng(seed)
    values = generator.uniform(1, 9, (4, 12))
    values[generator.random(values.shape) < 0.3] = np.nan
    values[:, 0] = 5.0
    sources = np.arange(12) % documents
    bounds = generator.uniform(0, 0.1, 4)
    for row, found in enumerate(alone(values, sources, bounds)):
        one = total({row: 1.0}, values, sources, EVERY, bounds).estimate
        assert found.value == pytest.approx(one.value)
        assert (found.low is None) == (one.low is None)
        assert found.high is None or found.high == pytest.approx(one.high)


def test_nineteen_of_twenty_intervals_hold_the_truth():
    """Rounds share a state of the machine; rows have noise of their own."""
    generator = np.random.default_rng(3)
    sources = np.zeros(6, np.int64)
    held = 0
    for _ in range(400):
        state = generator.normal(1, 0.02, 6)
        values = 100 * state * generator.normal(1, 0.01, (8, 6))
        found = total(dict.fromkeys(range(8), 1.0), values, sources, EVERY[:6]).estimate
        held += found.low <= 800 <= found.high
    assert 0.92 <= held / 400 <= 0.98


def test_what_both_sides_of_a_ratio_share_cancels():
    generator = np.random.default_rng(4)
    state = generator.normal(1, 0.1, 6)
    values = np.array([200 * state, 100 * state])
    found = ratio({0: 1.0}, {1: 1.0}, values, np.zeros(6, np.int64), EVERY[:6])
    assert (found.low, found.value, found.high) == pytest.approx((2.0, 2.0, 2.0))


def test_a_row_that_a_single_round_has_makes_no_interval():
    values = np.array([[1.0, 1.1, 0.9], [5.0, np.nan, np.nan]])
    found = total({0: 1.0, 1: 1.0}, values, np.zeros(3, np.int64), EVERY[:3]).estimate
    assert (found.value, found.low) == (pytest.approx((1.1 * 0.9) ** (1 / 3) + 5), None)


def test_rounds_too_few_for_how_far_apart_they_are_make_no_interval():
    """Student's t of one degree of freedom: from a fortieth of it to forty times as much."""
    values = np.array([[1.0, 1.8]])
    sources = np.zeros(2, np.int64)
    every = EVERY[:2]
    summed = total({0: 1.0}, values, sources, every)
    assert [None] * 3 == [
        summed.estimate.low,
        summed.elsewhere.low,
        alone(values, sources, np.zeros(1))[0].low,
    ]


def test_a_ratio_of_sums_that_nearly_cancel_has_no_interval():
    values = np.array([[1000.0, 3000.0, 2000.0], [1001.0, 2990.0, 2011.0]])
    found = ratio({1: 1.0, 0: -1.0}, {0: 1.0}, values, np.zeros(3, np.int64), EVERY[:3])
    first, second = np.exp(np.log(values).mean(axis=1))
    expected = pytest.approx(second / first - 1)
    assert (expected, None, None) == (found.value, found.low, found.high)


def test_what_the_clock_may_be_off_by_adds_up_over_all_rows():
    values = np.array([[1000.0, 1000.0], [50.0, 50.0]])
    bounds = np.array([1.0, 4.0])
    found = total({0: 2.0, 1: -1.0}, values, np.zeros(2, np.int64), EVERY[:2], bounds)
    assert (found.value, found.half) == pytest.approx((1950.0, 2 * 1.0 + 4.0))
