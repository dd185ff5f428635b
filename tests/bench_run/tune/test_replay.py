"""Pairs of tunings over the exhaustive measurement of all plans of 24 graphs on an H200."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks.tune_replay import STORED, replay, worlds

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def replayed():
    return replay(pairs=3)


def test_the_data_hold_at_least_19_graphs_with_many_plans():
    assert 19 <= sum(len(world.plans) > 5 for world in worlds(STORED))


def test_95_percent_of_regrets_are_at_most_half_a_percent(replayed):
    assert np.percentile(replayed.regrets, 95) <= 0.005


def test_95_percent_of_pairs_name_the_same_winner(replayed):
    assert np.mean(replayed.same) >= 0.95


def test_what_two_tunings_tell_of_a_plan_is_the_same_within_a_fifth_of_a_percent(replayed):
    assert np.median(np.abs(replayed.differences)) <= 0.002


def test_no_told_time_is_too_good_or_too_bad_on_average(replayed):
    assert abs(np.mean(replayed.differences)) <= 0.001
