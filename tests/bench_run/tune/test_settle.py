"""When rounds are enough, and laws of the intervals that several looks share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench_schema.numbers.student import tail, two_sided
from hypothesis import given
from hypothesis import strategies as st

from bench_run.tune.choosing.decide import Finalist, decide
from bench_run.tune.choosing.settle import CLAIM, is_settled, standard_error

MARGIN = 0.005
LOOKS, MOST = 7, 20


def finalists(times, noise, rounds, seed=0):
    draw = np.random.default_rng(seed)
    return [
        Finalist(i, i, math.log(time) + noise * draw.standard_normal(rounds))
        for i, time in enumerate(times)
    ]


def settled(times, noise, rounds, seed=0):
    return is_settled(finalists(times, noise, rounds, seed), 0, MARGIN, LOOKS, MOST)


def test_a_large_gain_that_is_well_known_is_settled():
    assert settled([1.1, 1.0], 0.001, 5)


def test_two_rounds_settle_nothing():
    assert not settled([1.1, 1.0], 0.0, 2)


def test_a_gain_near_the_margin_is_rarely_settled_by_five_noisy_rounds():
    assert sum(settled([1.012, 1.0], 0.005, 5, seed) for seed in range(40)) <= 12


def test_a_time_that_is_not_known_as_well_as_promised_is_not_settled():
    one = [Finalist(0, 0, 0.004 * np.array([-1.3, 0.4, -0.6, 0.8, 0.7]))]
    assert (True, False) == (
        standard_error(one[0]) > CLAIM, is_settled(one, 0, MARGIN, LOOKS, MOST)
    )  # fmt: skip


def test_what_no_number_of_rounds_would_reach_asks_for_none():
    assert settled([1.0], 0.1, 5)


def test_nobody_is_settled():
    assert is_settled([], 0, MARGIN, LOOKS, MOST)


@pytest.mark.parametrize("noise", [0.002, 0.004])
def test_two_sets_of_rounds_that_are_settled_name_the_same_winner(noise):
    same = pairs = 0
    for seed in range(40):
        times = [1.02, 1.0, 1 + 0.01 * np.random.default_rng(seed).random()]
        found = []
        for turn in (1, 2):
            known = finalists(times, noise, MOST, 1000 * turn + seed)
            ends = (n for n in (5, 7, 10, 13, 17, 20)
                    if is_settled([Finalist(f.index, f.rank, f.logs[:n]) for f in known], 0,
                                  MARGIN, LOOKS, MOST))  # fmt: skip
            until = next(ends, MOST)
            cut = [Finalist(f.index, f.rank, f.logs[:until]) for f in known]
            found.append(decide(cut, 0, MARGIN, LOOKS).winner)
        pairs += 1
        same += found[0] == found[1]
    assert same >= 0.9 * pairs


@given(st.integers(1, 60), st.integers(1, 9))
def test_the_interval_of_several_looks_leaves_out_the_share_of_one(degrees, looks):
    wanted = 1 - 0.05 / looks
    assert 1 - tail(two_sided(degrees, looks), degrees) == pytest.approx(wanted, abs=1e-6)


def test_students_t_of_one_degree_is_cauchys():
    assert 1 - tail(1.0, 1) == pytest.approx(0.5)
