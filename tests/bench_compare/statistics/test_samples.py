"""From raw samples to round statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_compare.statistics.samples import (
    WITHIN_NORMAL,
    middle_log,
    rectangles,
    round_statistics,
    section_variance,
)

SERIES = st.lists(
    st.lists(st.integers(1, 10**9), min_size=0, max_size=40).map(lambda x: np.array(x, np.int64)),
    max_size=12,
)


@given(SERIES)
def test_round_medians_are_those_of_each_series_alone(series):
    found = round_statistics(series).log_median
    for value, samples in zip(found, series, strict=True):
        if samples.size:
            ordered = np.sort(samples)
            middle = ordered[[(samples.size - 1) // 2, samples.size // 2]]
            assert value == pytest.approx(np.log(middle).mean())
        else:
            assert math.isnan(value)


@given(SERIES)
def test_rectangles_hold_every_sample_that_is_not_in_an_empty_series(series):
    parts = list(rectangles(series))
    assert sum(rows.size for _, rows in parts) == sum(one.size for one in series)
    for index, rows in parts:
        assert all((series[i] == row).all() for i, row in zip(index, rows, strict=True))


def test_an_even_count_has_the_geometric_mean_of_the_middle_two():
    assert middle_log(np.array([[1, 4, 16, 99]]))[0] == pytest.approx(math.log(8))


def test_a_sample_of_no_time_counts_as_one_nanosecond():
    assert round_statistics([np.zeros(4, np.int64)]).log_median[0] == 0.0


def test_drift_inside_a_round_is_the_second_half_over_the_first():
    samples = np.array([100] * 10 + [110] * 10)
    assert round_statistics([samples]).trend[0] == pytest.approx(math.log(1.1))


def test_spikes_are_counted_and_the_clocks_tick_is_not():
    quiet = np.tile([1000, 1001], 50)
    spiky = quiet.copy()
    spiky[[3, 50]] = 3000
    assert round_statistics([quiet, spiky]).outliers.tolist() == [0, 2]


def test_sectioning_takes_the_larger_of_two_batch_lengths():
    slow_half = np.array([1000] * 80 + [1030] * 80)
    variance, dof = section_variance([slow_half])
    eight = np.log([1000] * 4 + [1030] * 4).var(ddof=1) / 8
    assert (variance[0], dof[0]) == (pytest.approx(eight), 7)


def test_sectioning_needs_sixteen_samples():
    variance, _ = section_variance([np.arange(1, 16)])
    assert math.isnan(variance[0])


def test_scatter_inside_of_a_round_is_that_of_modes_and_not_of_a_few_spikes():
    modes, spikes = np.array([100] * 12 + [800] * 8), np.array([100] * 18 + [800_000] * 2)
    found = round_statistics([modes, spikes]).scatter
    assert found[0] == pytest.approx(np.log(8) / WITHIN_NORMAL)
    assert found[1] == 0
