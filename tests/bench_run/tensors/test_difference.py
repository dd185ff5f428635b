import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bench_run.tensors.difference import CHUNK, Bound, difference

NAN, INF = math.nan, math.inf
VALUES = st.floats(-1e3, 1e3) | st.sampled_from([NAN, INF, -INF, 0.0])


def outside(actual, expected, validator="matching", rtol=0.0, atol=0.5):
    found = difference(np.array([actual]), np.array([expected]), Bound(rtol, atol, validator), 1)
    return found.outside == 1


@pytest.mark.parametrize(
    ("actual", "expected", "ours", "plain", "infinities"),
    [
        (NAN, NAN, False, True, True),
        (INF, INF, False, True, False),
        (-INF, -INF, False, True, False),
        (INF, -INF, True, True, True),
        (NAN, 1.0, True, True, True),
        (1.0, NAN, True, True, True),
        (INF, 1.0, True, True, True),
        (1.0, INF, True, True, True),
        (NAN, INF, True, True, True),
        (1.4, 1.0, False, False, False),
        (-0.0, 0.0, False, False, False),
    ],
)
def test_special_values_have_defined_answers(actual, expected, ours, plain, infinities):
    validators = ("matching", "allclose", "allclose_matching_infinities")
    answers = tuple(outside(actual, expected, validator) for validator in validators)
    assert answers == (ours, plain, infinities)


def test_a_relative_tolerance_does_not_let_infinity_pass():
    assert outside(1.0, INF, rtol=0.1)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=40), st.floats(0, 1))
def test_chunks_agree_with_one_element_at_a_time(pairs, atol):
    actual, expected = (np.array(column) for column in zip(*pairs, strict=True))
    one_by_one = sum(outside(a, e, atol=atol) for a, e in pairs)
    assert difference(actual, expected, Bound(0.0, atol), 3).outside == one_by_one


@given(arrays(np.float64, st.integers(1, 50), elements=st.floats(-10, 10)), st.floats(0, 1))
def test_bounds_are_those_of_the_formula(expected, rtol):
    actual = expected * 1.05 + 0.01
    bad = np.abs(actual - expected) > 0.02 + rtol * np.abs(expected)
    assert difference(actual, expected, Bound(rtol, 0.02), 3).outside == bad.sum()


def test_figures_are_those_of_the_whole_array():
    rng = np.random.default_rng(0)
    expected = rng.normal(size=3 * CHUNK + 5)
    actual = expected + rng.normal(size=expected.size) * 1e-3
    found = difference(actual, expected, Bound(0, 1), 0)
    error = np.abs(actual - expected)
    wanted = (error.max(), (error / np.abs(expected)).max())
    assert (found.max_abs, found.max_rel) == pytest.approx(wanted)
    ratio = np.linalg.norm(error) / np.linalg.norm(expected)
    assert found.relative_l2 == pytest.approx(ratio)


def test_the_worst_are_the_most_severe_of_all_chunks():
    expected = np.ones(2 * CHUNK)
    actual = expected.copy()
    places = {5: 3.0, CHUNK: 9.0, CHUNK + 1: 2.0, 2 * CHUNK - 1: 5.0}
    for place, value in places.items():
        actual[place] = value
    found = difference(actual, expected, Bound(0, 0.1), 3)
    assert [place for _, place in found.worst] == [CHUNK, 2 * CHUNK - 1, 5]


def test_a_nan_is_the_most_severe():
    found = difference(np.array([1e30, NAN]), np.array([1.0, 1.0]), Bound(0, 0.1), 1)
    assert found.worst[0][1] == 1
    assert math.isnan(found.max_abs)


def test_zero_expected_does_not_count_for_the_relative_error():
    found = difference(np.array([0.5, 1.1]), np.array([0.0, 1.0]), Bound(1, 1), 1)
    assert found.max_rel == pytest.approx(0.1)


def test_integers_are_compared_as_integers():
    expected = np.array([2**53, 2**53], np.int64)
    found = difference(expected + np.array([0, 1]), expected, Bound(0, 0), 1)
    assert found.outside == 1


def test_an_empty_array_has_no_difference():
    found = difference(np.zeros(0), np.zeros(0), Bound(0, 0), 3)
    assert (found.elements, found.outside, found.relative_l2) == (0, 0, 0.0)
