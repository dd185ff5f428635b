"""Cases that take one of several times for a whole document: two that agree prove nothing."""

from __future__ import annotations

import numpy as np
import pytest

from bench_compare.comparison.judging.moves import Move, judge
from bench_compare.statistics.columns import Columns
from bench_compare.statistics.discovery import false_discovery
from bench_compare.statistics.intervals import estimate
from bench_compare.statistics.variances import fleeting_variance

CASES, ROUNDS = 40, 5


def side_of(random, documents):
    """Two speeds, 5 % apart."""
    state = 0.05 * random.integers(0, 2, (CASES, documents, 1))
    rounds = random.normal(0, 0.002, (CASES, documents, ROUNDS))
    return (state + rounds).reshape(CASES, documents * ROUNDS)


def moved(random, documents):
    number = np.repeat(np.arange(documents), ROUNDS)
    turn, unit = np.tile(np.arange(ROUNDS), documents), np.zeros_like(number)
    columns = Columns(number, turn, unit), Columns(number + documents, turn, unit)
    found = estimate(side_of(random, documents), side_of(random, documents), columns)
    moves = judge(found, false_discovery(found.p), np.full(CASES, np.log(1.01)), 0.05)
    return np.isin(moves, (Move.UP, Move.DOWN)).mean()


@pytest.mark.parametrize("documents", [2, 3])
def test_states_of_documents_are_no_change_of_the_build(documents):
    random = np.random.default_rng(1)
    assert np.mean([moved(random, documents) for _ in range(25)]) <= 0.01  # was 0.12 with two


def variances(sides):
    """Of two observations a side, and each side's squares."""
    return (sides[0] + sides[1]) / 2, np.full(CASES, 2.0), sides


def test_cases_that_are_restless_on_both_sides_keep_their_own_variance():
    random = np.random.default_rng(2)
    spread = np.exp(np.linspace(-3, 3, CASES))
    sides = tuple((spread * random.normal(0, 0.01, CASES)) ** 2 for _ in range(2))
    assert not fleeting_variance(*variances(sides)).any()


def test_luck_of_one_side_is_that_of_all():
    random = np.random.default_rng(2)
    sides = tuple((0.035 * random.integers(0, 2, CASES)) ** 2 + 1e-6 for _ in range(2))
    own, _, _ = variances(sides)
    assert fleeting_variance(*variances(sides)) == pytest.approx(own.mean(), rel=0.2)
