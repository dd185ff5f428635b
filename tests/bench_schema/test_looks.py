"""When a run that stops as soon as its pairs are decided looks at its results."""

from __future__ import annotations

from itertools import pairwise

import pytest
from bench_schema.estimate import look_count, looks
from hypothesis import given
from hypothesis import strategies as st

from tests.bench_compare.build import settings


def test_looks_are_few_and_further_apart_each_time():
    assert (5, 7, 10, 13, 17, 23, 30) == looks(5, 30)


@given(st.integers(1, 50), st.integers(3, 400))
def test_looks_rise_from_the_first_rounds_to_the_last(rounds, more):
    found = looks(rounds, rounds + more)
    assert (max(rounds, 3), rounds + more) == (found[0], found[-1])
    assert all(first < second for first, second in pairwise(found))


def test_where_no_round_may_be_added_there_is_one_look():
    assert (5,) == looks(5, 5)


@pytest.mark.parametrize(
    ("changes", "count"),
    [({}, 1), ({"max_rounds": 30}, 1), ({"max_rounds": 30, "until": "decided"}, 7)],
)
def test_only_a_run_that_stops_when_decided_has_several(changes, count):
    assert count == look_count(settings(**changes))
