"""Grouped matrix products of experts, row by row and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import UnsupportedGraphError
from tests.support import examples

FORWARD, BACKWARD = "MoeGroupedMatmulAttributes", "MoeGroupedMatmulBwdAttributes"


def offsets(*first):
    return np.array(first, np.int32).reshape(-1, 1, 1)


@st.composite
def groups(draw):
    """Experts, rows, and the first row of each group, rising from 0."""
    experts, rows = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    count = experts * draw(st.integers(1, 2))
    cuts = draw(st.lists(st.integers(0, rows), min_size=count - 1, max_size=count - 1))
    return experts, rows, (0, *sorted(cuts))


@settings(max_examples=examples(40), deadline=None)
@given(group=groups())
def test_each_row_meets_the_weights_of_its_expert(group, run_node, normal):
    experts, rows, first = group
    token, weight = normal(1, rows, 4), normal(experts, 4, 3, seed=1)
    inputs = {"token": token, "weight": weight, "first_token_offset": offsets(*first)}
    got = run_node(FORWARD, inputs, {"output": (1, rows, 3)}, mode="none")["output"]
    ends = (*first[1:], rows)
    for g, (start, end) in enumerate(zip(first, ends, strict=True)):
        for r in range(start, end):
            np.testing.assert_allclose(got[0, r], token[0, r] @ weight[g % experts], rtol=1e-12)


@settings(max_examples=examples(20), deadline=None)
@given(group=groups())
def test_the_weight_gradient_is_the_adjoint_of_forward(group, run_node, normal):
    experts, rows, first = group
    token, weight, dy = normal(1, rows, 4), normal(experts, 4, 3), normal(1, rows, 3, seed=2)
    common = {"token": token, "first_token_offset": offsets(*first)}
    ports = {"output": (1, rows, 3)}
    y = run_node(FORWARD, {**common, "weight": weight}, ports, mode="none")["output"]
    dw = run_node(BACKWARD, {**common, "doutput": dy}, {"dweight": weight.shape})["dweight"]
    np.testing.assert_allclose((y * dy).sum(), (weight * dw).sum(), rtol=1e-10, atol=1e-10)


ONE_EXPERT = {"weight": np.array([[[10.0]]]), "first_token_offset": offsets(0)}
TOKENS = np.array([[[1.0], [2.0], [3.0]]])


def test_gather_reads_the_rows_that_the_index_names(run_node):
    inputs = {**ONE_EXPERT, "token": TOKENS, "token_index": np.array([2, 0, 2, 1], np.int32)}
    got = run_node(FORWARD, inputs, {"output": (1, 4, 1)}, mode="gather", top_k=1)["output"]
    assert got.reshape(-1).tolist() == [30, 10, 30, 20]


def test_scatter_writes_the_rows_that_index_and_rank_name(run_node):
    index = {
        "token_index": np.array([1, 0, 1], np.int32),
        "token_ks": np.array([1, 0, 0], np.int32),
    }
    inputs = {**ONE_EXPERT, "token": TOKENS, **index}
    got = run_node(FORWARD, inputs, {"output": (1, 4, 1)}, mode="scatter", top_k=2)["output"]
    assert got.reshape(-1).tolist() == [20, 0, 30, 10]


@pytest.mark.parametrize(
    ("change", "mode", "words"),
    [
        ({"first_token_offset": offsets(2, 1)}, "none", "rise"),
        ({"weight": np.ones((2, 1, 1))}, "none", "multiple"),
        ({"token_index": np.array([3], np.int32)}, "gather", "outside"),
        ({}, "gather", "needs token_index"),
        ({}, "sideways", "sideways"),
    ],
)
def test_routes_that_do_not_fit_are_refused(run_node, change, mode, words):
    inputs = {**ONE_EXPERT, "token": TOKENS, **change}
    with pytest.raises(UnsupportedGraphError, match=words) as caught:
        run_node(FORWARD, inputs, {"output": (1, 3, 1)}, mode=mode)
    assert FORWARD in str(caught.value)
