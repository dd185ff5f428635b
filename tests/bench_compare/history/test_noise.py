"""How alike neighbouring documents are, which decides what counts as a step."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench_compare.history.steps.detect import detect, rethought
from bench_compare.history.steps.noise import Grid, noise_of
from bench_compare.history.steps.track import track_of

LEAST = math.log1p(0.01)


def values(rho, cases=20, builds=60, seed=1):
    """Logarithms of identical builds whose neighbours correlate."""
    random = np.random.default_rng(seed)
    found = 0.01 * random.normal(size=(cases, builds))
    for at in range(1, builds):
        found[:, at] = rho * found[:, at - 1] + math.sqrt(1 - rho**2) * found[:, at]
    return found


def grid(logs):
    count = logs.shape[1]
    return Grid(logs, np.zeros_like(logs), np.arange(count), np.zeros(count, np.int64))


def pooled(rho, **more):
    return [noise_of(grid(values(rho, seed=seed, **more))).guess.mean for seed in range(12)]


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.5, 0.8])
def test_the_correlation_of_an_archive_is_found_without_bias(rho):
    assert rho == pytest.approx(np.mean(pooled(rho)), abs=0.04)


def test_steps_hardly_change_it():
    logs = values(0.0)
    logs[::2, 30:] += 0.03
    assert abs(noise_of(grid(logs)).guess.mean) < 0.15


@pytest.mark.parametrize("cases", [1, 4])
def test_too_few_series_do_not_tell_it(cases):
    assert noise_of(grid(values(0.8, cases))).guess.correlation == 0


@pytest.mark.long
def test_white_noise_counts_as_white_in_nearly_all_archives():
    counted = [noise_of(grid(values(0.0, seed=seed))).guess.correlation for seed in range(60)]
    assert np.mean(np.array(counted) > 0) <= 0.15
    assert np.mean(counted) < 0.03


def test_the_spread_of_correlated_documents_is_not_taken_for_that_of_their_differences():
    spreads = [noise_of(grid(values(0.5, seed=seed))).variance.mean() for seed in range(12)]
    assert 1e-4 == pytest.approx(np.mean(spreads), rel=0.12)


def test_what_the_levels_leave_shows_the_one_series_that_correlates():
    logs = values(0.0)
    logs[3] = values(0.7, cases=1, seed=5)[0]
    noise = noise_of(grid(logs))
    track = track_of(grid(logs), noise, 3)
    assert track.correlation < 0.4 < rethought(track, [30]).correlation


def test_levels_that_leave_white_noise_change_nothing():
    logs = values(0.0)
    logs[3, 30:] += 0.05
    track = track_of(grid(logs), noise_of(grid(logs)), 3)
    assert rethought(track, [30]) is track


def test_two_documents_tell_nothing():
    assert noise_of(grid(values(0.0, builds=2))).guess.correlation == 0


def test_steps_of_one_correlated_series_do_not_stand():
    false = [values(0.7, 1, seed=seed) for seed in range(30)]
    assert sum(bool(detect(grid(logs), LEAST).events) for logs in false) <= 3


def test_a_ramp_is_no_correlation():
    logs = values(0.0)
    logs[5] += 0.2 * np.clip((np.arange(60) - 15) / 30, 0, 1)
    assert {5} == {member.row for member in detect(grid(logs), LEAST).events[0].members}


@pytest.mark.slow
@pytest.mark.parametrize("cases", [5, 20])
def test_archives_whose_neighbours_correlate_have_hardly_an_event(cases):
    wrong = sum(
        bool(detect(grid(values(0.5, cases, seed=seed)), LEAST).events) for seed in range(300)
    )
    assert wrong <= 6
