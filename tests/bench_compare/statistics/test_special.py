"""Student's t, F and the polygammas against numbers of printed tables and against their laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_compare.statistics.special import (
    f_above,
    inverse_trigamma,
    t_quantile,
    t_two_sided,
    trigamma,
)

TABLE = [(0.95, 1, 6.314), (0.975, 1, 12.706), (0.975, 4, 2.776), (0.995, 9, 3.250)]
"""Probability, degrees of freedom, and t to three decimals."""


@pytest.mark.parametrize(("probability", "dof", "t"), TABLE)
def test_quantiles_of_t_are_those_of_a_table(probability, dof, t):
    found = t_quantile(probability, np.array([float(dof)]))
    assert found[0] == pytest.approx(t, abs=5e-4)
    assert t_two_sided(found, np.array([float(dof)]))[0] == pytest.approx(2 * (1 - probability))


@pytest.mark.parametrize(("ratio", "above", "below"), [(161.4, 1, 1), (6.39, 4, 4), (3.33, 5, 10)])
def test_one_in_twenty_ratios_of_variances_is_above_that_of_a_table(ratio, above, below):
    found = f_above(*(np.array([float(x)]) for x in (ratio, above, below)))
    assert found[0] == pytest.approx(0.05, abs=2e-4)


@given(st.floats(0.02, 50))
def test_inverse_trigamma_inverts(value):
    assert trigamma(np.array([inverse_trigamma(value)]))[0] == pytest.approx(value, rel=1e-9)


def test_trigamma_of_one_is_a_sixth_of_pi_squared():
    assert trigamma(np.array([1.0]))[0] == pytest.approx(math.pi**2 / 6)


@pytest.mark.parametrize(
    ("t", "tail"), [(0, 1), (1e-200, 1), (1e200, 0), (-np.inf, 0), (np.inf, 0)]
)
def test_the_ends_of_the_tail_are_numbers(t, tail):
    assert [tail] == t_two_sided(np.array([float(t)]), np.array([4.0])).tolist()


def test_what_is_unknown_stays_unknown():
    nan = np.array([np.nan, 1.0])
    assert np.isnan(t_two_sided(nan, nan[::-1].copy())).all()
    assert np.isnan(t_quantile(0.975, nan)).tolist() == [True, False]
