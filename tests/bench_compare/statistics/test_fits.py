"""Both ways to fit sides in blocks give the same residuals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_compare.statistics import fits


@st.composite
def observations(draw):
    """(values, side, block) of three cases: any sides, any blocks."""
    places = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4)), min_size=2))
    side, block = np.array(places).T
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    return random.normal(10, 0.1, (3, len(places))), side, 7 * block


@given(observations())
def test_many_observations_leave_the_residuals_that_few_do(given_ones):
    values, side, block = given_ones
    by_matrix = fits.fit(values, side, block)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fits, "MOST_IN_MATRIX", 0)
        by_means = fits.fit(values, side, block)
    for name in ("squares", "own_squares", "side_squares", "dof", "base", "other"):
        one, other = (np.array(getattr(found, name)) for found in (by_matrix, by_means))
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-20)


def test_thousands_of_observations_make_no_matrix(monkeypatch):
    monkeypatch.setattr(fits, "_remainder", None)
    block, side = np.repeat(np.arange(400), 5), np.arange(2000) % 2
    found = fits.fit(np.ones((1, 2000)), side, block)
    assert [2000 - 400 - 1] == found.dof.tolist()
