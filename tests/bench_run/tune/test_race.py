"""Laws of the race: who is dropped, who is preferred, what does not matter."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.tune.racing import (
    BlockSample,
    RaceSettings,
    block_samples,
    choose_finalists,
    is_clear,
    leaders,
    preferred,
    raced_time,
    run_race,
    screen,
    survivors,
)
from tests.support import examples

MARGIN = math.log(1.005)
SETTINGS = RaceSettings()


def blocks(true, noise, count, seed=0):
    draw = np.random.default_rng(seed)
    return np.array(true)[:, None] + noise * draw.standard_normal((len(true), count))


def raced(true, noise=0.002, sample=0.01, seed=0, settings=SETTINGS):
    draw = np.random.default_rng(seed)

    def measure(plans, samples):
        error = math.sqrt(noise**2 + 1.57 * sample**2 / samples)
        return {
            p: BlockSample(true[p] + error * draw.standard_normal(), sample, 50.0) for p in plans
        }

    return run_race(len(true), 0, measure, settings)


def test_a_candidate_three_times_as_slow_is_out_after_one_block():
    assert [True, False] == screen(np.log([[1.0], [3.1]])).tolist()


def test_a_disturbed_block_of_one_candidate_drops_nobody_else():
    logs = np.array([[0.0, 0.9], [0.01, 0.01], [0.02, 0.02], [0.03, 0.03]])
    assert screen(logs)[1:].all()


def test_before_the_first_blocks_are_over_nobody_is_dropped():
    assert survivors(blocks([0, 0.5], 0.001, 4), SETTINGS).all()


def test_what_is_far_behind_is_dropped_when_they_are():
    assert [True, False] == survivors(blocks([0, 0.1], 0.001, 5), SETTINGS).tolist()


def test_what_one_process_may_favour_by_as_much_drops_nobody():
    assert survivors(blocks([0, 0.018], 0.0005, 40), SETTINGS).all()


def test_what_is_behind_by_more_than_processes_differ_is_dropped():
    assert [True, False] == survivors(blocks([0, 0.025], 0.0005, 40), SETTINGS).tolist()


def test_a_lone_candidate_is_clear():
    assert is_clear(np.zeros((1, 1)), SETTINGS)


def test_of_the_tied_the_lowest_rank_is_preferred():
    behind = np.array([0.0, 0.001, 0.02])
    assert 1 == preferred(behind, np.array([5, 2, 0]), MARGIN)[0]


def test_the_border_lies_in_the_widest_gap():
    behind = np.array([0.0, 0.0026, 0.0048])
    _, border = preferred(behind, np.array([2, 1, 0]), MARGIN)
    assert 0.0026 < border < 0.0048


def test_samples_go_where_the_variance_is():
    assert block_samples(0.04, 0.005, 50) > block_samples(0.01, 0.005, 50)


def test_the_default_stays_however_slow():
    state = raced([0.5, 0.0, 0.001])
    finalists, _ = choose_finalists(state, np.array([0, 1, 2]), 0, MARGIN)
    assert 0 in finalists


def test_the_best_of_each_engine_is_confirmed_however_slow_its_process_was():
    state = raced([0.0, 0.002, 1.6, 1.8, 3.0])
    assert state.alive == [0, 1]
    assert sorted(leaders(state, ["a", "a", "b", "b", "c"])) == [0, 2, 4]


def test_each_candidate_of_a_race_has_a_time():
    times = [raced_time(raced([0.0, 0.7]), candidate) for candidate in (0, 1)]
    assert times[1] / times[0] == pytest.approx(2.0, rel=0.05)


def test_a_candidate_that_fails_is_out_and_the_race_goes_on():
    draw = np.random.default_rng(0)

    def measure(plans, samples):
        alive = [plan for plan in plans if plan != 1]
        return {
            p: BlockSample(0.01 * p + 0.001 * draw.standard_normal(), 0.01, 50.0) for p in alive
        }

    assert 1 not in run_race(3, 0, measure, SETTINGS).alive


def test_a_race_in_which_all_fail_ends():
    assert [] == run_race(2, 0, lambda *_: {}, SETTINGS).alive


def test_a_budget_that_is_gone_ends_the_race_and_is_said():
    state = run_race(
        2,
        0,
        lambda plans, _: {p: BlockSample(0.0, 0.01, 1.0) for p in plans},
        SETTINGS,
        is_over=lambda: True,
    )
    assert ("budget", 1) == (state.stopped_by, state.blocks)


@pytest.mark.long
def test_the_best_is_dropped_no_more_often_than_allowed():
    lost = sum(1 not in raced([0.08, 0.0, *([0.006] * 10)], seed=seed).alive for seed in range(100))
    assert lost <= 3


@settings(max_examples=examples(25))
@given(st.integers(0, 10_000))
def test_the_order_of_candidates_does_not_matter(seed):
    draw = np.random.default_rng(seed)
    logs = blocks(draw.uniform(0, 0.05, 8), 0.002, 6, seed)
    turned = draw.permutation(8)
    assert survivors(logs, SETTINGS)[turned].tolist() == survivors(logs[turned], SETTINGS).tolist()


@settings(max_examples=examples(25))
@given(st.integers(0, 10_000), st.floats(-20, 20))
def test_the_unit_of_time_does_not_matter(seed, shift):
    logs = blocks(np.random.default_rng(seed).uniform(0, 0.05, 8), 0.002, 6, seed)
    assert survivors(logs, SETTINGS).tolist() == survivors(logs + shift, SETTINGS).tolist()


@settings(max_examples=examples(25))
@given(st.integers(0, 10_000), st.lists(st.floats(-0.5, 0.5), min_size=6, max_size=6))
def test_what_moves_all_of_a_block_does_not_matter(seed, moved):
    logs = blocks(np.random.default_rng(seed).uniform(0, 0.05, 8), 0.002, 6, seed)
    other = survivors(logs + np.array(moved), SETTINGS)
    assert survivors(logs, SETTINGS).tolist() == other.tolist()


@settings(max_examples=examples(50))
@given(st.lists(st.floats(0, 0.02), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_preferred_is_never_behind_by_more_than_the_margin(behind, random):
    ranks = list(range(len(behind)))
    random.shuffle(ranks)
    found = np.array(behind) - min(behind)
    chosen, border = preferred(found, np.array(ranks), MARGIN)
    assert found[chosen] <= border <= MARGIN
