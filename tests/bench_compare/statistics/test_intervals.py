"""The recipe's steps on numbers worked out by hand, and its laws."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bench_compare.comparison.judging.moves import Move, judge
from bench_compare.statistics import intervals
from bench_compare.statistics.arrays import column_median
from bench_compare.statistics.columns import Columns, single_documents
from bench_compare.statistics.discovery import false_discovery
from bench_compare.statistics.fits import fit
from bench_compare.statistics.intervals import (
    DOCUMENT,
    PAIR,
    ROUND,
    Elsewhere,
    estimate,
    rounds_needed,
)
from bench_compare.statistics.layers import BetweenDocuments
from bench_compare.statistics.suite import common_movement, suite
from bench_compare.statistics.variances import (
    DEFAULT_RUN_SD,
    FLOOR_SD,
    UNSETTLED_SD,
    WithinRoundVariance,
    decade_strata,
    pooled_variance,
    resistant_line,
    run_variance,
    shrink,
)
from tests.support import examples

NAN = math.nan
LOGS = hnp.arrays(float, (7, 4), elements=st.floats(5, 20))


def rows(*values):
    return np.array(values, float)


def in_turns(count):
    """Rounds of one document, none of which holds both sides."""
    first, second = single_documents(count, count)
    return first, Columns(first.document, second.round + count, second.block)


def test_the_shift_is_the_difference_of_the_means_of_the_rounds():
    found = estimate(rows([1, 2, 3]), rows([2, 4, 6]))
    assert found.shift[0] == pytest.approx(2.0)


def test_variance_is_pooled_within_the_sides():
    variance, dof = pooled_variance(rows([1, 2, 3]), rows([10, 12, NAN]))
    assert (variance[0], dof[0]) == (pytest.approx((2 + 2) / 3), 3)


def test_the_interval_is_students_with_the_pooled_degrees_of_freedom():
    found = estimate(rows([1, 2, 3]), rows([1, 2, 3]), in_turns(3))
    half = 2.7764451 * math.sqrt(1.0 * (1 / 3 + 1 / 3))
    assert (found.low[0], found.high[0]) == (pytest.approx(-half), pytest.approx(half))


def test_rounds_that_repeat_themselves_exactly_are_not_certain():
    found = estimate(rows([1, 1, 1]), rows([1, 1, 1]))
    assert found.variance[0] == pytest.approx(FLOOR_SD**2 * 2 / 3)


def test_one_side_with_a_single_round_still_has_an_interval():
    found = estimate(rows([1, 1.1, 0.9]), rows([2, NAN, NAN]))
    assert found.p[0] < 0.05


def test_single_rounds_without_an_inner_spread_have_no_interval():
    found = estimate(rows([1.0]), rows([2.0]))
    assert math.isnan(found.p[0])
    assert found.shift[0] == 1.0


def test_single_rounds_use_their_inner_spread_and_that_between_runs():
    inner = WithinRoundVariance(np.array([1e-6]), np.array([7.0]))
    found = estimate(rows([1.0]), rows([2.0]), None, Elsewhere(inner))
    assert found.variance[0] == pytest.approx(1e-6 + 2 * DEFAULT_RUN_SD**2)
    assert (found.dof[0], found.single[0]) == (7.0, True)


def test_run_variance_is_found_in_the_bulk_of_the_cases():
    random = np.random.default_rng(0)
    shift = random.normal(0, math.sqrt(2) * 0.01, 4000)
    assert math.sqrt(run_variance(shift, np.full(4000, 1e-8))) == pytest.approx(0.01, rel=0.05)


def test_few_cases_leave_the_default_between_runs():
    assert run_variance(np.zeros(3), np.zeros(3)) == DEFAULT_RUN_SD**2


def test_variances_of_like_cases_move_towards_each_other():
    random = np.random.default_rng(1)
    noisy = 1e-4 * random.chisquare(4, 500) / 4
    moved, dof = shrink(noisy, np.full(500, 4.0), np.zeros(500))
    assert moved.std() < noisy.std() / 4
    assert dof.min() > 50


def test_few_cases_keep_their_own_variance():
    variance, dof = shrink(np.full(5, 2.0), np.full(5, 4.0), np.zeros(5))
    assert (variance.tolist(), dof.tolist()) == ([2.0] * 5, [4.0] * 5)


def test_strata_are_decades_of_time_that_hold_enough_cases():
    level = np.log(np.repeat([1e3, 1e4, 1e5, 1e6], [40, 10, 25, 5]))
    strata = decade_strata(level)
    assert [set(strata[level == value].tolist()) for value in np.unique(level)] == [
        {0},
        {1},
        {1},
        {1},
    ]


def test_false_discovery_is_benjamini_hochbergs():
    q = false_discovery(np.array([0.01, NAN, 0.04, 0.03, 0.5]))
    assert q[[0, 2, 3, 4]] == pytest.approx([0.04, 0.04 * 4 / 3, 0.04 * 4 / 3, 0.5])
    assert math.isnan(q[1])


@given(hnp.arrays(float, st.integers(1, 40), elements=st.floats(0, 1)))
def test_q_is_never_below_p_and_keeps_its_order(p):
    q = false_discovery(p)
    order = np.argsort(p, kind="stable")
    assert (q >= p - 1e-15).all()
    assert (np.diff(q[order]) >= 0).all()


@given(LOGS, LOGS)
@settings(max_examples=examples(50))
def test_swapping_the_sides_mirrors_every_number(base, other):
    there, back = estimate(base, other), estimate(other, base)
    assert np.allclose(there.shift, -back.shift)
    assert np.allclose(there.low, -back.high)
    assert np.allclose(there.same_high, -back.same_low)
    assert np.allclose(there.p, back.p)


@given(LOGS, LOGS, st.floats(-3, 3))
@settings(max_examples=examples(50))
def test_another_unit_of_time_changes_no_ratio(base, other, factor):
    there, scaled = estimate(base, other), estimate(base + factor, other + factor)
    assert np.allclose(there.low, scaled.low, atol=1e-9)


def suite_of(base, other, weights=None):
    columns = single_documents(base.shape[1], other.shape[1])
    return suite(base, other, columns, estimate(base, other), weights)[0]


def test_one_unit_a_side_has_no_interval():
    found = suite_of(rows([1.0]), rows([2.0]))
    assert (found.shift, found.low, found.p) == (1.0, None, None)


def test_the_suite_number_is_the_geometric_mean_over_cases():
    found = suite_of(np.zeros((2, 3)), np.array([[0.2] * 3, [0.4] * 3]))
    assert found.shift == pytest.approx(0.3)


def test_the_suite_number_can_weigh_long_cases_more():
    other = np.array([[0.2] * 2, [0.4] * 2])
    assert suite_of(np.zeros((2, 2)), other, np.array([3.0, 1.0])).shift == pytest.approx(0.25)


def test_a_case_that_one_round_lacks_does_not_move_the_suite():
    base = np.array([[1.0, 1.0, 1.0], [9.0, NAN, 9.0]])
    found = suite_of(base, base)
    assert (found.shift, found.low) == (0.0, 0.0)


def documents(*rounds):
    """Columns of one side: as many documents as numbers of rounds."""
    count = sum(rounds)
    number = np.repeat(np.arange(len(rounds)), rounds)
    return Columns(number, np.arange(count), np.zeros(count, int))


def apart(columns, by=100):
    """The same in other runs."""
    return Columns(columns.document + by, columns.round, columns.block)


def test_what_documents_do_to_all_cases_is_in_the_variance_of_each():
    random = np.random.default_rng(0)
    effects = random.normal(0, 0.02, (2, 3))
    sides = [np.repeat(effect, 5) + random.normal(0, 1e-4, (40, 15)) for effect in effects]
    columns = documents(5, 5, 5)
    found = estimate(sides[0], sides[1], (columns, apart(columns)))
    squares = ((effects - effects.mean(axis=1, keepdims=True)) ** 2).sum()
    assert (found.unit == DOCUMENT).all()
    assert found.variance == pytest.approx(squares / 4 * (2 / 3), rel=0.05)
    assert found.dof == pytest.approx(4, rel=0.05)


@pytest.mark.slow
def test_what_all_cases_of_documents_share_seldom_makes_verdicts():
    """Documents that differ by 1 % as a whole raise their false alarms together: fewer than 1 %."""
    random = np.random.default_rng(0)
    columns, alarms = documents(5, 5, 5), []
    for _ in range(800):  # all cases of a comparison alarm together: it takes many
        effects = np.repeat(random.normal(0, 0.01, (2, 1, 3)), 5, axis=2)
        base, other = random.normal(0, 0.002, (2, 40, 15)) + effects
        found = estimate(base, other, (columns, apart(columns)))
        moves = judge(found, false_discovery(found.p), np.full(40, math.log1p(0.01)), 0.05)
        alarms.append(np.isin(moves, (Move.UP, Move.DOWN)).mean())
    assert np.mean(alarms) <= 0.01


def test_what_moved_both_sides_of_a_visit_cancels():
    random = np.random.default_rng(0)
    visits = random.normal(0, 0.3, 15)
    base, other = (visits + random.normal(0, 0.001, (1, 15)) for _ in range(2))
    columns = documents(5, 5, 5)
    found = estimate(base, other + 0.05, (columns, columns))
    assert (found.unit[0], found.base_units[0]) == (PAIR, 15)
    assert found.shift[0] == pytest.approx(0.05, abs=0.002)
    assert found.high[0] - found.low[0] < 0.01


def test_a_suite_in_pieces_keeps_its_rounds():
    base = np.full((3, 15), NAN)
    for piece in range(3):
        base[piece, 5 * piece : 5 * piece + 5] = [1, 1.001, 0.999, 1, 1]
    columns = documents(5, 5, 5)
    found = estimate(base, base + math.log(2), (columns, apart(columns)))
    assert (found.unit == ROUND).all()
    assert found.base_units.tolist() == [5, 5, 5]
    assert (found.low > math.log(1.9)).all()


def test_sides_are_compared_within_the_units_of_hardware_that_both_have():
    unit = np.array([0, 0, 0, 1, 1, 1])
    columns = Columns(np.arange(6), np.zeros(6, int), unit)
    base = np.array([[1.0, 1.01, 0.99, 2.0, 2.01, 1.99]])
    one = Columns(np.arange(4) + 100, np.zeros(4, int), np.array([0, 1, 1, 1]))
    other = np.array([[1.0, 2.0, 2.01, 1.99]])
    found = estimate(base, other, (columns, one))
    assert found.shift[0] == pytest.approx(0.0, abs=1e-12)
    assert found.low[0] > -0.03


def test_rounds_that_no_document_repeats_take_their_spread_from_what_is_known():
    base = rows([1, 1.001, 0.999])
    known = [np.array([x]) for x in (0.01**2, 5.0, 0.01**2, 50.0)]
    plain, wide = (
        estimate(base, base),
        estimate(base, base, known=Elsewhere(between=BetweenDocuments(*known))),
    )
    assert wide.variance[0] - plain.variance[0] == pytest.approx(4e-4, rel=0.05)
    assert wide.dof[0] < 20


def test_the_common_movement_is_the_middle_shift_with_the_shared_spread():
    random = np.random.default_rng(3)
    base = random.normal(0, 1e-4, (20, 5)) + random.normal(0, 0.01, 5)
    other = random.normal(0, 1e-4, (20, 5)) + random.normal(0, 0.01, 5) + 0.1
    found = estimate(base, other)
    moved = common_movement(found)
    assert moved.shift == pytest.approx(float(np.median(found.shift)))
    assert 0.005 < moved.high - moved.shift < 0.05


def test_a_column_that_nobody_has_is_unknown_and_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        middle = column_median(np.array([[NAN, 1.0], [NAN, 3.0]]))
    assert math.isnan(middle[0])
    assert middle[1] == 2.0


def test_more_rounds_are_asked_for_where_the_spread_is_larger():
    base = np.array([[0, 0.01, -0.01], [0, 0.02, -0.02]])
    found = estimate(base, base + 0.005)
    needed = rounds_needed(found, np.log1p(np.full(2, 0.01)))
    assert 1 <= needed[0] < needed[1]


def test_a_shift_on_the_very_threshold_asks_for_no_rounds():
    base = np.array([[0, 0.01, -0.01]])
    limit = math.log1p(0.01)
    assert math.isnan(rounds_needed(estimate(base, base + limit * 0.999), np.array([limit]))[0])


RESTLESS = (rows([1.0, 1.1, 1.2]), rows([1.5, 1.6, 1.7]))


def test_quiet_rounds_add_nothing_between_single_documents():
    base, other = rows([1, 1.001, 0.999]), rows([1.02, 1.021, 1.019])
    apart_, together = estimate(base, other), estimate(base, other, in_turns(3))
    assert apart_.variance[0] == together.variance[0]
    assert apart_.documents[0] == 0


def test_rounds_that_scatter_add_their_variance_between_single_documents():
    found = estimate(*RESTLESS)
    within = 0.01 * (1 / 3 + 1 / 3)
    between = (0.01 - UNSETTLED_SD**2) * (1 / 1 + 1 / 1)
    assert found.variance[0] == pytest.approx(within + between)
    assert found.documents[0] == 1


def test_a_quiet_case_among_restless_ones_takes_the_variance_of_the_middle_one():
    quiet = [1.0, 1.0, 1.0]
    base, other = np.array([quiet, [1, 1.1, 1.2], [1, 1.1, 1.2]]), np.ones((3, 3))
    found = estimate(base, other)
    middle = 0.02 / 4  # squares of 0.1, 0 and 0.1 over four degrees of freedom
    within = FLOOR_SD**2 * (1 / 3 + 1 / 3)
    between = 2 * (middle - UNSETTLED_SD**2)
    assert found.variance[0] == pytest.approx(between, rel=0.01)
    assert found.variance[0] > within


def test_where_documents_are_missing_it_is_documents_that_are_asked_for():
    found = estimate(*RESTLESS)
    needed = rounds_needed(found, np.array([0.01]))[0]
    one_each = found.variance[0]
    z = intervals.DISCOVERY_Z + intervals.POWER_Z
    assert needed == math.ceil(one_each * (z / 0.5) ** 2) - 1


def test_the_suites_interval_widens_too_where_single_documents_are_restless():
    base, other = rows([1.0, 1.1, 1.2]), rows([1.5, 1.6, 1.7])
    found = estimate(base, other)
    apart_ = suite(base, other, single_documents(3, 3), found)[0]
    alone = estimate(base, other, in_turns(3))
    factor = math.sqrt(1 + 2 * (0.01 - UNSETTLED_SD**2) / (0.02 / 3))
    assert apart_.high - apart_.shift == pytest.approx(factor * (alone.high[0] - alone.shift[0]))


def grouped(random, documents, effect, rounds=5, cases=40):
    """A side of which each document moves the even cases together, and the odd ones not."""
    own = effect * random.normal(size=(1, documents, 1)) * (np.arange(cases) % 2)[:, None, None]
    noise = random.normal(0, 0.002, (cases, documents, rounds))
    return (own + noise).reshape(cases, -1)


def documents_of(first, count, rounds=5):
    number = np.repeat(np.arange(count), rounds)
    return Columns(number + first, np.tile(np.arange(rounds), count), np.zeros_like(number))


@pytest.mark.long
def test_intervals_hold_where_documents_move_one_half_of_the_cases_together():
    random = np.random.default_rng(5)
    places = documents_of(0, 5), documents_of(5, 5)
    alarms, missed = [], []
    for _ in range(150):
        found = estimate(grouped(random, 5, 0.02), grouped(random, 5, 0.02), places)
        missed.append((found.low > 0) | (found.high < 0))
        alarms.append((found.p <= 0.05) & (abs(found.shift) > np.maximum(0.01, found.common)))
    assert np.mean(missed) < 0.07
    assert np.mean(alarms) < 0.01


@pytest.mark.parametrize("documents", [2, 3, 5])
def test_independent_cases_are_hardly_alike(documents):
    random = np.random.default_rng(6)
    values = random.normal(0, 0.002, (40, 2 * documents)) + random.normal(0, 0.01, 2 * documents)
    found = fit(values, np.repeat([0, 1], documents), np.zeros(2 * documents, int))
    assert found.alike < 0.05


def test_cases_that_move_in_two_groups_are_alike():
    random = np.random.default_rng(7)
    moved = np.outer(np.arange(40) % 2, random.normal(0, 0.02, 10))
    values = moved + random.normal(0, 0.001, (40, 10))
    found = fit(values, np.repeat([0, 1], 5), np.zeros(10, int))
    assert found.alike > 0.9


def test_samples_of_two_modes_inside_of_rounds_widen_the_interval_of_single_documents():
    quiet = rows([1, 1.001, 0.999])
    plain, wide = (
        estimate(quiet, quiet, known=Elsewhere(inside=np.array([x]))) for x in (0.01, 4.0)
    )
    assert plain.documents[0] == 0
    assert wide.variance[0] - plain.variance[0] == pytest.approx(2 * 4.0)


def test_samples_of_two_modes_change_nothing_where_documents_are_repeated():
    values = np.random.default_rng(8).normal(0, 0.002, (1, 15))
    places = documents_of(0, 3), documents_of(3, 3)
    plain, wide = (
        estimate(values, values, places, known=Elsewhere(inside=np.array([x]))) for x in (0.0, 4.0)
    )
    assert plain.variance[0] == wide.variance[0]


def test_the_suites_interval_widens_with_the_modes_of_one_case():
    random = np.random.default_rng(9)
    base, other = random.normal(0, 0.001, (2, 4, 5))
    found = estimate(base, other, known=Elsewhere(inside=np.array([0.0, 0.0, 0.0, 4.0])))
    moved = suite(base, other, single_documents(5, 5), found)[0]
    assert moved.high - moved.shift > math.sqrt(2 * 4.0) / 4


def test_one_case_far_away_neither_turns_nor_bends_the_trend_of_the_others():
    x = np.log(np.geomspace(1e3, 1e5, 30))
    y = 1.0 - 0.5 * x
    assert resistant_line(x, y) == pytest.approx(y, abs=0.5)
    y[-1] += 20.0
    bent = resistant_line(x, y) - 20.0 / 30
    assert bent == pytest.approx(1.0 - 0.5 * x, abs=0.5)


def test_levels_that_are_alike_have_no_trend():
    x, y = np.log([100.0, 101.0, 99.0, 100.5, 130.0]), np.array([0.0, 0.0, 0.0, 0.0, 5.0])
    assert resistant_line(x, y).tolist() == [1.0] * 5
