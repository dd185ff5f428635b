import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from bench_compare.comparison.compare import detail, hodges_lehmann, row_median

NS = st.integers(-(2**40), 2**40)


@given(arrays(np.int64, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=NS))
def test_the_median_of_a_row_is_numpys(rows):
    assert row_median(rows).tolist() == np.median(rows, axis=1).tolist()


def test_the_shift_is_the_median_of_all_differences():
    assert hodges_lehmann(np.array([1, 2, 9]), np.array([4, 6])) == 2.5


@pytest.mark.parametrize("lengths", [(200,) * 5, (1,), (7, 1, 300)])
def test_a_series_held_against_itself_shows_nothing(lengths):
    random = np.random.default_rng(3)
    rounds = [random.integers(900, 1100, length) for length in lengths]
    found = detail("e2e_ns", rounds, rounds)
    assert (1.0, 0.0) == (found.median_ratio, found.shift_ns)
    assert found.bootstrap_low <= 1 <= found.bootstrap_high


def test_the_interval_of_the_bootstrap_holds_the_ratio_of_medians():
    random = np.random.default_rng(4)
    base, other = ([random.normal(n, 5, 200).astype(int)] * 3 for n in (1000, 1100))
    found = detail("e2e_ns", base, other)
    assert 1.09 < found.bootstrap_low < found.median_ratio < found.bootstrap_high < 1.11
