"""Laws of the race: who stays, who needs more rounds, who wins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.tune.race import Contender, decide, kept, ranked, ratio, undecided
from tests.support import examples

MARGIN, LOOKS = 0.005, 6


def contender(index, time, noise=0.001, rank=None, rounds=5, seed=0):
    draw = np.random.default_rng((seed, index))
    logs = math.log(time) + noise * draw.standard_normal(rounds)
    return Contender(index, index if rank is None else rank, logs)


def short(*times):
    """Two short rounds of contenders with these times, without noise."""
    return np.repeat(np.log(np.array(times))[:, None], 2, axis=1)


def test_one_that_is_far_behind_in_both_short_rounds_is_out():
    assert [0, 2] == kept(short(1.0, 1.2, 1.04))


def test_one_bad_process_drops_no_contender():
    logs = short(1.0, 1.0, 1.2)
    logs[1, 0] += 0.7
    assert [0, 1] == kept(logs)


def test_where_rounds_scatter_more_stay():
    draw = np.random.default_rng(1)
    logs = short(*np.linspace(1.0, 1.3, 20))
    assert len(kept(logs + 0.1 * draw.standard_normal(logs.shape), 20)) > len(kept(logs, 20))


def test_of_many_near_the_fastest_the_nearest_stay():
    assert list(range(8)) == kept(short(*np.linspace(1.0, 1.03, 40)))


@settings(max_examples=examples(25))
@given(st.integers(0, 10_000), st.floats(-20, 20))
def test_neither_order_nor_unit_nor_a_slow_round_decides_who_stays(seed, shift):
    draw = np.random.default_rng(seed)
    logs = short(*draw.uniform(1, 1.2, 8)) + 0.01 * draw.standard_normal((8, 2))
    turned = draw.permutation(8)
    moved = (logs + shift + np.array([0.0, 0.3]))[turned]
    assert {int(turned[row]) for row in kept(moved)} == set(kept(logs))


def test_a_shown_gain_makes_a_switch():
    assert 1 == decide([contender(0, 2.0), contender(1, 1.0)], MARGIN).winner


def test_a_gain_that_is_not_shown_keeps_the_default_and_names_the_other():
    noisy = 0.05 * np.array([1.0, -1.0, 0.5, -0.5, 0.0])
    found = decide([Contender(0, 0, noisy + 0.01), Contender(1, 1, noisy[::-1])], MARGIN)
    assert (0, (1,)) == (found.winner, found.tied_with)


def test_a_gain_below_the_margin_is_not_worth_it():
    found = decide([contender(0, 1.004, 1e-5), contender(1, 1.0, 1e-5)], MARGIN)
    assert (0, "the gain of candidate 1 is not shown to exceed 0.5 %") == (
        found.winner,
        found.reason.replace("%", " %").replace("  ", " "),
    )


def test_a_default_among_the_tied_wins():
    found = decide([contender(0, 1.001), contender(1, 1.0)], MARGIN)
    assert (0, "the default is among the fastest") == (found.winner, found.reason)


def test_of_the_tied_the_lowest_rank_wins():
    known = [contender(0, 2.0), contender(1, 1.0, rank=2), contender(2, 1.001, rank=1)]
    assert (2, (1,)) == (decide(known, MARGIN).winner, decide(known, MARGIN).tied_with)


def test_one_that_is_slower_in_ordinary_rounds_is_not_tied():
    known = [contender(0, 2.0), contender(1, 1.0), contender(2, 1.2, rank=0)]
    assert (1, ()) == (decide(known, MARGIN).winner, decide(known, MARGIN).tied_with)


def test_without_the_default_the_best_wins_and_has_no_gain():
    found = decide([contender(1, 1.0), contender(2, 1.1)], MARGIN)
    assert (1, None) == (found.winner, found.gain)


def test_one_round_gives_no_interval_and_keeps_the_default():
    known = [contender(0, 2.0, rounds=1), contender(1, 1.0, rounds=1)]
    assert (None, 0) == (ratio(*known).low, decide(known, MARGIN).winner)


def test_swapping_the_sides_inverts_the_ratio():
    one, two = (ratio(*sides) for sides in _both(contender(0, 2.0), contender(1, 1.0)))
    assert (one.estimate, one.low) == pytest.approx((1 / two.estimate, 1 / two.high))


def _both(one, two):
    return (one, two), (two, one)


@pytest.mark.parametrize("seed", range(5))
def test_many_equals_of_the_default_are_not_taken_for_better(seed):
    draw = np.random.default_rng(seed)
    known = [Contender(i, i, 0.004 * draw.standard_normal(20)) for i in range(5)]
    assert 0 == decide(known, MARGIN, LOOKS).winner


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
    known = [contender(index, 1.0) for index in (0, 1, 2)]
    found = ranked(known, [(False, 9.0, 99), two, one])
    assert [0, 2, 1] == [each.index for each in found]
    assert [0, 1, 2] == [each.rank for each in found]


def test_a_large_gain_that_is_well_known_needs_no_more_rounds():
    assert not undecided([contender(0, 1.1), contender(1, 1.0)], MARGIN, LOOKS)


def test_equals_that_are_well_known_need_no_more_rounds():
    known = [contender(i, 1.0, 1e-5) for i in range(4)]
    assert not undecided(known, MARGIN, LOOKS)


def test_two_rounds_decide_nothing_that_is_near():
    assert {0, 1} == undecided([contender(i, 1.0, 0.01, rounds=2) for i in (0, 1)], MARGIN, LOOKS)


def test_one_that_is_shown_to_be_slower_gets_no_more_rounds():
    known = [contender(0, 1.0, 0.004), contender(1, 1.0, 0.004), contender(2, 1.2, 0.004)]
    assert {0, 1} == undecided(known, MARGIN, LOOKS)


def test_one_that_was_dropped_at_a_look_cannot_win_and_is_no_tie():
    known = [contender(0, 1.0, rounds=10), contender(1, 1.0, rounds=10), contender(2, 0.9)]
    assert 0 == decide(known, MARGIN, LOOKS).winner


def test_a_default_that_was_dropped_has_its_gain_from_the_rounds_of_both():
    found = decide([contender(0, 1.2), contender(1, 1.0, rounds=10)], MARGIN, LOOKS)
    assert (1, pytest.approx(1.2, rel=0.01)) == (found.winner, found.gain.estimate)


@pytest.mark.parametrize("noise", [0.002, 0.004])
def test_two_sets_of_rounds_name_the_same_winner(noise):
    same = 0
    for seed in range(40):
        middle = 1 + 0.01 * np.random.default_rng(seed).random()
        found = [_winner([1.02, 1.0, middle], noise, 1000 * turn + seed) for turn in (1, 2)]
        same += found[0] == found[1]
    assert same >= 36


def _winner(times, noise, seed):
    every = [contender(i, time, noise, rounds=20, seed=seed) for i, time in enumerate(times)]
    rounds, due = {}, frozenset(range(len(times)))
    for count in (5, 10, 20):
        rounds |= dict.fromkeys(due, count)
        known = [Contender(c.index, c.rank, c.logs[: rounds[c.index]]) for c in every]
        due = undecided([c for c in known if c.index in due], MARGIN, LOOKS)
        if not due:
            break
    return decide(known, MARGIN, LOOKS).winner
