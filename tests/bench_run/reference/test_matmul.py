"""Matrix products against NumPy, PyTorch and loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import UnsupportedGraphError
from tests.support import examples

TYPE = "MatmulAttributes"


@st.composite
def shapes(draw):
    """Batch dims of c, and for a and b divisors of them; m, n, k."""
    batch = draw(st.lists(st.integers(1, 6), max_size=2))

    def divisors():
        return [draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0])) for n in batch]

    return batch, divisors(), divisors(), [draw(st.integers(1, 5)) for _ in range(3)]


@settings(max_examples=examples(60), deadline=None)
@given(shape=shapes(), order=st.integers(0, 23))
def test_each_matrix_serves_consecutive_batches(shape, order, run_node, normal, permuted):
    batch, left, right, (m, n, k) = shape
    a, b = normal(*left, m, k), normal(*right, k, n, seed=1)
    inputs = {"a": permuted(a, order), "b": permuted(b, order)}
    c = run_node(TYPE, inputs, {"c": (*batch, m, n)})["c"]
    for index in np.ndindex(*batch):
        at_a = tuple(
            i // (whole // part) for i, whole, part in zip(index, batch, left, strict=True)
        )
        at_b = tuple(
            i // (whole // part) for i, whole, part in zip(index, batch, right, strict=True)
        )
        np.testing.assert_allclose(c[index], a[at_a] @ b[at_b], rtol=1e-13, atol=1e-13)


@pytest.mark.needs("torch:cpu")
def test_agrees_with_torch(run_node, normal):
    import torch

    a, b = normal(2, 3, 17, 33), normal(2, 1, 33, 9)
    expected = torch.matmul(torch.tensor(a), torch.tensor(b)).numpy()
    c = run_node(TYPE, {"a": a, "b": b}, {"c": (2, 3, 17, 9)})["c"]
    np.testing.assert_allclose(c, expected, rtol=1e-12, atol=1e-12)


def test_int8_products_are_exact(run_node):
    a = np.full((1, 300), -128, np.int8)
    c = run_node(TYPE, {"a": a, "b": a.T}, {"c": ((1, 1), "int32")})["c"]
    assert (c.dtype, c.item()) == (np.int64, 300 * 128 * 128)


def test_int64_products_beyond_float64_are_exact(run_node):
    a, b = np.array([[2**31, 1]]), np.array([[2**31], [1]])
    assert run_node(TYPE, {"a": a, "b": b}, {"c": ((1, 1), "int64")})["c"].item() == 2**62 + 1


def test_nan_stays_in_its_row(run_node):
    a = np.array([[np.nan, 0.0], [1.0, 2.0]])
    c = run_node(TYPE, {"a": a, "b": np.ones((2, 1))}, {"c": (2, 1)})["c"]
    np.testing.assert_array_equal(c, [[np.nan], [3.0]])


@pytest.mark.parametrize(
    ("a", "b", "c", "words"),
    [
        ((2, 3), (4, 5), (2, 5), "does not give"),
        ((2, 3), (3, 5), (1, 2, 5), "ranks"),
        ((3, 2, 3), (3, 3, 5), (4, 2, 5), "does not divide"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(run_node, a, b, c, words):
    with pytest.raises(UnsupportedGraphError, match=words) as caught:
        run_node(TYPE, {"a": np.zeros(a), "b": np.zeros(b)}, {"c": c})
    assert "MatmulAttributes" in str(caught.value)
