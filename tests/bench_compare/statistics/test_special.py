"""Student's t and the polygammas against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_compare.statistics.special import (
    FEW,
    digamma,
    f_above,
    inverse_trigamma,
    t_quantile,
    t_two_sided,
    trigamma,
)

special = pytest.importorskip("scipy.special", reason="SciPy is the other opinion")
DEGREES = np.array([0.7, 1, 1.5, 2, 4, 7, 8, 15, 40, 108.3])


def test_digamma_and_trigamma_agree_with_scipy():
    x = np.array([0.5, 1, 1.5, 2, 3.5, 10, 54.2, 100])
    assert np.allclose(special.digamma(x), digamma(x), rtol=1e-11)
    assert np.allclose(special.polygamma(1, x), trigamma(x), rtol=1e-11)


@given(st.floats(0.02, 50))
def test_inverse_trigamma_inverts(value):
    assert special.polygamma(1, inverse_trigamma(value)) == pytest.approx(value, rel=1e-9)


@given(st.floats(1e-3, 60), st.floats(0.5, 200))
def test_two_sided_tail_agrees_with_scipy(t, dof):
    expected = 2 * special.stdtr(dof, -abs(t))
    assert t_two_sided(np.array([t]), np.array([dof]))[0] == pytest.approx(expected, rel=1e-9)


@given(st.floats(1e-3, 1e3), st.floats(0.5, 100), st.floats(0.5, 200))
def test_ratios_of_variances_agree_with_scipy(ratio, above, below):
    few = [np.array([one]) for one in (ratio, above, below)]
    assert f_above(*few)[0] == pytest.approx(
        special.fdtrc(above, below, ratio), rel=1e-9, abs=1e-13
    )


@pytest.mark.parametrize("probability", [0.9, 0.95, 0.975, 0.9999])
def test_quantiles_agree_with_scipy(probability):
    expected = special.stdtrit(DEGREES, probability)
    assert np.allclose(expected, t_quantile(probability, DEGREES), rtol=1e-8)


@given(st.floats(1e-3, 60), st.floats(0.5, 200))
def test_few_and_many_tails_are_the_same(t, dof):
    many = np.full(FEW + 1, t), np.full(FEW + 1, dof)
    one = t_two_sided(np.array([t]), np.array([dof]))[0]
    assert t_two_sided(*many)[0] == pytest.approx(one, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("probability", [0.9, 0.975, 0.99995])
def test_few_and_many_quantiles_are_the_same(probability):
    many = np.concatenate([DEGREES, np.linspace(200, 300, FEW)])
    few = t_quantile(probability, DEGREES)
    assert np.allclose(t_quantile(probability, many)[: len(DEGREES)], few, rtol=1e-9)


@pytest.mark.parametrize(
    ("t", "tail"), [(0, 1), (1e-200, 1), (1e200, 0), (-np.inf, 0), (np.inf, 0)]
)
def test_the_ends_of_the_tail_are_numbers(t, tail):
    found = t_two_sided(np.array([float(t)]), np.array([4.0]))
    assert [tail] == found.tolist()


def test_what_is_unknown_stays_unknown():
    nan = np.array([np.nan, 1.0])
    assert np.isnan(t_two_sided(nan, nan[::-1].copy())).all()
    assert np.isnan(t_quantile(0.975, nan)).tolist() == [True, False]
