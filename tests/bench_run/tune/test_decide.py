"""Who wins after the confirmation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench_run.tune.choosing import Finalist, decide, rank_candidates, ratio

MARGIN = 0.005


def finalist(index, time, noise=0.001, rank=None, rounds=5):
    draw = np.random.default_rng(index)
    logs = math.log(time) + noise * draw.standard_normal(rounds)
    return Finalist(index, index if rank is None else rank, logs)


def test_a_proven_gain_makes_a_switch():
    assert 1 == decide([finalist(0, 2.0), finalist(1, 1.0)], 0, MARGIN).winner


def test_a_gain_that_is_not_proven_keeps_the_default_and_names_the_other():
    found = decide([finalist(0, 1.02, 0.05), finalist(1, 1.0, 0.05)], 0, MARGIN)
    assert (0, (1,)) == (found.winner, found.tied_with)


def test_a_gain_below_the_margin_is_not_worth_it():
    found = decide([finalist(0, 1.003, 1e-5), finalist(1, 1.0, 1e-5)], 0, MARGIN)
    assert 0 == found.winner


def test_a_default_among_the_tied_wins():
    found = decide([finalist(0, 1.001), finalist(1, 1.0)], 0, MARGIN)
    assert (0, "the default is among the fastest") == (found.winner, found.reason)


@pytest.mark.parametrize("time", [1.0020, 1.0035, 1.0040, 1.0045])
def test_whether_the_default_stays_does_not_hang_on_who_is_preferred_among_equals(time):
    known = [finalist(0, 1.0105), finalist(1, time, rank=1), finalist(2, 1.0, rank=2)]
    assert 0 != decide(known, 0, MARGIN).winner


@pytest.mark.parametrize("seed", range(5))
def test_many_equals_of_the_default_are_not_taken_for_better(seed):
    draw = np.random.default_rng(seed)
    known = [Finalist(i, i, 0.004 * draw.standard_normal(20)) for i in range(5)]
    assert 0 == decide(known, 0, MARGIN, 7).winner


def test_of_the_tied_the_lowest_rank_wins():
    found = decide(
        [finalist(0, 2.0), finalist(1, 1.0, rank=2), finalist(2, 1.001, rank=1)], 0, MARGIN
    )
    assert (2, (1,)) == (found.winner, found.tied_with)


def test_one_that_is_slower_when_confirmed_is_not_tied_any_more():
    found = decide([finalist(0, 2.0), finalist(1, 1.0), finalist(2, 1.2, rank=0.5)], 0, MARGIN)
    assert (1, ()) == (found.winner, found.tied_with)


def test_without_the_default_the_best_wins_and_has_no_gain():
    found = decide([finalist(1, 1.0), finalist(2, 1.1)], 0, MARGIN)
    assert (1, None) == (found.winner, found.gain)


def test_one_round_gives_no_interval():
    assert ratio(finalist(0, 2.0, rounds=1), finalist(1, 1.0, rounds=1)).low is None


def test_swapping_the_sides_inverts_the_ratio():
    one, two = ratio(finalist(0, 2.0), finalist(1, 1.0)), ratio(finalist(1, 1.0), finalist(0, 2.0))
    assert (one.estimate, one.low) == pytest.approx((1 / two.estimate, 1 / two.high))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ((True, 1.0, 9), (False, 0.0, 0)),
        ((True, 0.1, 9), (True, 0.2, 0)),
        ((True, 0.1, 1), (True, 0.1, 2)),
        ((True, 0.1, 1), (None, None, None)),
    ],
)
def test_ties_are_told_apart_by_what_is_better_known_and_smaller(one, two):
    ranks = rank_candidates({0: (False, 9.0, 99), 1: two, 2: one}, 0)
    assert [0, 2, 1] == sorted(ranks, key=ranks.get)
