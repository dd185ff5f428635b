"""When rounds are enough, and laws of the intervals that several looks share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench_schema.estimate import two_sided
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench_run.tune.choosing import CLAIM, Finalist, decide, open_finalists, standard_error

pytestmark = pytest.mark.slow

MARGIN = 0.005
LOOKS, MOST = 7, 20


def finalists(times, noise, rounds, seed=0):
    draw = np.random.default_rng(seed)
    return [
        Finalist(i, i, math.log(time) + noise * draw.standard_normal(rounds))
        for i, time in enumerate(times)
    ]


def settled(times, noise, rounds, seed=0):
    return not open_finalists(finalists(times, noise, rounds, seed), 0, MARGIN, LOOKS, MOST)


def test_a_large_gain_that_is_well_known_is_settled():
    assert settled([1.1, 1.0], 0.001, 5)


def test_two_rounds_settle_nothing():
    assert not settled([1.1, 1.0], 0.0, 2)


def test_a_gain_near_the_margin_is_rarely_settled_by_five_noisy_rounds():
    assert sum(settled([1.012, 1.0], 0.005, 5, seed) for seed in range(40)) <= 12


def test_a_time_that_is_not_known_as_well_as_promised_is_not_settled():
    one = [Finalist(0, 0, 0.004 * np.array([-1.3, 0.4, -0.6, 0.8, 0.7]))]
    assert (True, {0}) == (
        standard_error(one[0]) > CLAIM,
        open_finalists(one, 0, MARGIN, LOOKS, MOST),
    )


def test_what_no_number_of_rounds_would_reach_asks_for_none():
    assert settled([1.0], 0.1, 5)


def test_nobody_is_settled():
    assert not open_finalists([], 0, MARGIN, LOOKS, MOST)


def cut(known, rounds):
    return [Finalist(f.index, f.rank, f.logs[: rounds[f.index]]) for f in known]


def looked_at(known):
    """Rounds of each finalist when all are settled, as the rounds of a tuning go on."""
    rounds = {f.index: 0 for f in known}
    due = set(rounds)
    for until in (5, 7, 10, 13, 17, 20):
        rounds |= dict.fromkeys(due, until)
        due = open_finalists(cut(known, rounds), 0, MARGIN, LOOKS, MOST)
        if not due:
            break
    return rounds


def winner_of(known):
    return decide(cut(known, looked_at(known)), 0, MARGIN, LOOKS).winner


def test_who_is_shown_to_be_slower_gets_no_more_rounds():
    known = finalists([1.01, 1.0, 1.05], 0.004, MOST)
    rounds = looked_at(known)
    assert rounds[2] == 5 < rounds[1]


def test_only_told_times_ask_for_more_rounds_once_it_is_known_who_wins():
    found = [looked_at(finalists([1.0, 1.0, 1.001], 0.003, MOST, seed)) for seed in range(9)]
    assert any(rounds[0] > max(rounds[1], rounds[2]) for rounds in found)


@given(st.integers(0, 500))
def test_rounds_of_told_times_change_neither_winner_nor_ties(seed):
    known = finalists([1.0, 1.0, 1.001], 0.003, MOST, seed)
    rounds = looked_at(known)
    before = {index: min(rounds.values()) for index in rounds}
    assert decide(cut(known, before), 0, MARGIN, LOOKS) == decide(
        cut(known, rounds), 0, MARGIN, LOOKS
    )


@given(st.integers(0, 500))
def test_who_was_dropped_at_a_look_never_comes_back(seed):
    times = [1.01, 1.0, 1.015, 1.03]
    known = finalists(times, 0.004, MOST, seed)
    first = open_finalists(cut(known, dict.fromkeys(range(4), 5)), 0, MARGIN, LOOKS, MOST)
    later = cut(known, {index: 7 if index in first else 5 for index in range(4)})
    assert not first or open_finalists(later, 0, MARGIN, LOOKS, MOST) <= first


@pytest.mark.parametrize("noise", [0.002, 0.004])
def test_two_sets_of_rounds_that_are_settled_name_the_same_winner(noise):
    same = pairs = 0
    for seed in range(40):
        times = [1.02, 1.0, 1 + 0.01 * np.random.default_rng(seed).random()]
        found = []
        for turn in (1, 2):
            known = finalists(times, noise, MOST, 1000 * turn + seed)
            found.append(winner_of(known))
        pairs += 1
        same += found[0] == found[1]
    assert same >= 0.9 * pairs


@given(st.integers(1, 60), st.integers(1, 9))
def test_the_interval_of_several_looks_leaves_out_the_share_of_one(degrees, looks):
    wanted = 1 - 0.05 / looks
    assert 1 - 2 * stats.t.sf(two_sided(degrees, looks), degrees) == pytest.approx(wanted, abs=1e-6)
