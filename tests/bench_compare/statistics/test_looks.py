"""Intervals and verdicts of runs that look at their results as they go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_compare.comparison.judging.moves import Move, judge
from bench_compare.statistics.columns import Columns
from bench_compare.statistics.intervals import estimate, rounds_needed
from tests.benchmarks import until_decided

LIMIT = np.log(1.01)


def paired(rounds):
    nothing = np.zeros(rounds, int)
    return (Columns(nothing, np.arange(rounds), nothing),) * 2


def sides(cases=4, rounds=6, shift=0.0, sd=0.01, seed=1):
    random = np.random.default_rng(seed)
    base = 10 + random.normal(0, 0.1, (cases, rounds))
    return base, base + shift + random.normal(0, sd, (cases, rounds))


@given(st.integers(2, 20), st.integers(0, 1000))
def test_more_looks_make_every_interval_wider_and_every_p_larger(looks, seed):
    base, other = sides(seed=seed)
    one, more = (estimate(base, other, paired(6), looks=count) for count in (1, looks))
    assert (more.low < one.low).all()
    assert (more.same_high > one.same_high).all()
    assert (more.p >= one.p).all()
    assert (more.shift == one.shift).all()


def test_looks_share_the_error_by_bonferronis_inequality():
    base, other = sides()
    one, seven = (estimate(base, other, paired(6), looks=count) for count in (1, 7))
    assert np.minimum(7 * one.p, 1) == pytest.approx(seven.p)


def test_a_shift_that_one_look_calls_is_not_sure_enough_over_seven():
    base, other = sides(cases=1, shift=0.02, sd=0.006, seed=3)
    found = [estimate(base, other, paired(6), looks=count) for count in (1, 7)]
    moves = [judge(one, one.p, np.array([LIMIT]), 0.05)[0] for one in found]
    assert [Move.UP, Move.UNCLEAR] == moves


def test_more_looks_ask_for_more_rounds():
    base, other = sides(cases=1, rounds=60, sd=0.05)
    other += (base - other).mean()
    few, many = (
        rounds_needed(estimate(base, other, paired(60), looks=count), np.array([LIMIT]))[0]
        for count in (1, 7)
    )
    assert few < many


def test_documents_were_not_added_by_looking_at_them():
    base, other = sides()
    columns = [
        Columns(np.repeat(np.arange(3), 2) + first, np.tile([0, 1], 3), np.zeros(6, int))
        for first in (0, 3)
    ]
    one, seven = (estimate(base, other, tuple(columns), looks=count) for count in (1, 7))
    assert one.low == pytest.approx(seven.low)


def test_restless_late_rounds_of_one_case_leave_the_others_as_they_were():
    base, other = sides(cases=20, rounds=30, shift=0.1, sd=0.002)
    other[0] += np.random.default_rng(5).normal(0, 0.5, 30)
    early = np.arange(30) < 5
    late = early | (np.arange(20) == 0)[:, None]
    first, last = (
        estimate(*(np.where(known, side, np.nan) for side in (base, other)), paired(30), looks=7)
        for known in (np.tile(early, (20, 1)), late)
    )
    assert first.common[1:] == pytest.approx(last.common[1:], rel=0.5)


def test_no_case_without_a_change_is_called_faster_or_slower():
    noise = until_decided.Noise("1 %", 0.01, shared=0.03, drift=0.2)
    random = np.random.default_rng(7)
    moves = [
        until_decided.until_decided(*until_decided.drawn(noise, (6, 13), 0.0, random))[0]
        for _ in range(10)
    ]
    assert not np.isin(moves, (Move.UP, Move.DOWN)).any()


def test_a_large_change_is_decided_at_the_first_look():
    noise = until_decided.Noise("1 %", 0.01, shared=0.03)
    moves, rounds = until_decided.until_decided(
        *until_decided.drawn(noise, (6, 30), 0.3, np.random.default_rng(2))
    )
    assert ([Move.UP] * 6, [5] * 6) == (moves.tolist(), rounds.tolist())
