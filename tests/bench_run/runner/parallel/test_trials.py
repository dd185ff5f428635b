"""Which cases may be measured beside others: what others do to a case, against its own scatter."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from bench_schema.document import Case, GraphId, Round
from bench_schema.merge import merge_cases

from bench_run.runner.parallel.beside import (
    EVERY,
    LIMIT_RATIO,
    BesideTrials,
    Judged,
    with_companions,
)

NAME = "g on twin"


def measured(index, median_ns, beside=(), notes=(), timing=None):
    samples = np.full(20, round(median_ns), np.int64)
    one = Round(
        index, "2026-01-01T00:00:00Z", 1, 0, series={"e2e_ns": samples}, device_timing=timing
    )
    graph = GraphId("g", "g.json", "0" * 64, "f", "add", "float")
    case = Case(
        NAME, graph, "twin", rounds=(one,), notes=notes, init={"build_ns": np.array([index + 1])}
    )
    return with_companions(case, beside)


def tried(alone_ns, *beside_ns, timing=None):
    """The first round alone, later ones beside others."""
    trials = BesideTrials()
    trials.take(measured(0, alone_ns, timing=timing))
    for index, median_ns in enumerate(beside_ns, 1):
        trials.take(measured(index, median_ns, ["B"], timing=timing))
    return trials, list(trials.judge())


def test_every_fifth_round_is_alone():
    trials = BesideTrials()
    beside = [trials.measures_beside(NAME, index) for index in range(2 * EVERY)]
    assert [False, True, True, True, True] * 2 == beside


def test_the_ratio_stands_in_the_document_once():
    trials, (judged,) = tried(10_000, 10_050, 10_050)
    trials.take(measured(3, 10_020, ["B"]))
    note = "beside other devices 1.0050 of alone (2 and 1 rounds, by chance up to 1.8 %)"
    assert ((), Judged(NAME, note, frozenset())) == (tuple(trials.judge()), judged)


def test_a_case_that_others_move_is_measured_alone_from_then_on():
    trials, (judged,) = tried(10_000, 10_300, 10_310, 10_290, 10_300)
    assert (frozenset({1, 2, 3, 4}), False) == (judged.void, trials.measures_beside(NAME, 1))


def test_why_a_case_is_measured_alone_stands_in_the_document():
    trials, (judged,) = tried(10_000, 10_300, 10_300)
    again = trials.describe(measured(1, 10_000), ())
    reason = "beside other devices 1.0300 of alone: measured alone"
    assert ((reason,), reason) == (again.notes, judged.note)


def test_a_case_that_others_speed_up_is_measured_alone_too():
    assert tried(10_000, 9_700, 9_700)[1][0].void


def test_a_difference_that_rounds_have_among_themselves_moves_no_case():
    assert not tried(10_000, 10_300, 9_900, 10_250, 10_050)[1][0].void


def test_a_step_of_the_clock_moves_no_case():
    """Records of kernels come in steps of 32 ns, 1.4 % of these."""
    voids = [
        tried(2_304, *[2_336] * 4, timing=timing)[1][0].void for timing in ("kernel records", None)
    ]
    assert [False, True] == [bool(void) for void in voids]


def test_what_is_slightly_slower_but_within_the_limit_stays():
    assert not tried(10_000, *[10_095] * 4)[1][0].void


def test_without_a_round_alone_nothing_is_held_against_a_case():
    trials = BesideTrials()
    trials.take(measured(1, 10_000, ["B"]))
    assert [] == list(trials.judge())


def test_nothing_new_is_judged_once():
    trials, _ = tried(10_000, 10_300)
    assert [] == list(trials.judge())


def test_a_resumed_run_knows_which_cases_stay_alone():
    trials = BesideTrials()
    cases = [measured(0, 10_000), *(measured(i, 20_000, ["B"]) for i in (1, 2))]
    trials.take(merge_cases(cases))
    (judged,) = trials.judge()
    assert (frozenset({1, 2}), False) == (judged.void, trials.measures_beside(NAME, 3))


def test_a_round_that_was_measured_again_alone_replaces_the_one_beside_others():
    parts = [measured(0, 100), measured(1, 300, ["B"]), measured(1, 110)]
    case = merge_cases(parts)
    assert [(0, 100), (1, 110)] == [(r.index, r.series["e2e_ns"][0]) for r in case.rounds]
    assert [1, 2] == list(case.init["build_ns"])


def test_rounds_beside_others_that_were_not_measured_again_stay():
    case = merge_cases([measured(0, 100), measured(1, 101, ["B"])])
    assert [0, 1] == [each.index for each in case.rounds]


def moved(draw, effect, scatter):
    noisy = lambda ratio: 50_000 * ratio * math.exp(draw.gauss(0, scatter))  # noqa: E731
    _, found = tried(noisy(1), *[noisy(effect) for _ in range(4)])
    return bool(found and found[0].void)


def moved_share(effect, scatter, cases=400):
    draw = random.Random(5)
    return sum(moved(draw, effect, scatter) for _ in range(cases)) / cases


@pytest.mark.parametrize(("scatter", "most"), [(0.002, 0.01), (0.004, 0.02), (0.012, 0.12)])
def test_cases_that_nothing_moves_are_hardly_ever_measured_again(scatter, most):
    assert moved_share(1.0, scatter) <= most


@pytest.mark.parametrize(("effect", "scatter"), [(1.02, 0.002), (1.03, 0.004), (1.06, 0.012)])
def test_cases_that_others_move_are_found(effect, scatter):
    assert moved_share(effect, scatter) >= 0.95
    assert effect > LIMIT_RATIO


def test_rounds_that_an_earlier_run_had_no_time_to_measure_again_are_void():
    reason = "beside other devices 1.0300 of alone: measured alone"
    trials = BesideTrials()
    for index in range(4):
        trials.take(measured(index, 10_000, notes=[reason]))
    trials.take(measured(4, 10_000, ["B"]))
    assert [Judged(NAME, None, frozenset({4}))] == list(trials.judge())
    assert not trials.measures_beside(NAME, 4)


def test_a_run_of_forty_cases_that_nothing_moves_seldom_measures_one_again():
    """As cases of a GPU scatter, 0.2 to 0.7 %."""
    draw = random.Random(11)
    runs = 150
    again = 0
    for _ in range(runs):
        shares = [moved(draw, 1.0, draw.uniform(0.002, 0.007)) for _ in range(40)]
        again += any(shares)
    assert again / runs <= 0.35
