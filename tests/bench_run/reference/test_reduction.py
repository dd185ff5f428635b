"""Reductions against PyTorch and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import UnsupportedGraphError
from bench_run.reference.reduction import MODES
from tests.support import examples

TYPE = "ReductionAttributes"


def by_torch(mode, x, axes):
    """As the engine's table says, which shares no code with the reference."""
    from bench_run.engines.torch_engine.reduction import MODES as BY_TORCH

    return BY_TORCH[mode](x, axes)


@st.composite
def problems(draw):
    """x's dims and the axes to reduce, each longer than 1, at least one."""
    dims = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).filter(lambda d: max(d) > 1))
    long = [axis for axis, length in enumerate(dims) if length > 1]
    return tuple(dims), sorted(draw(st.sets(st.sampled_from(long), min_size=1)))


@pytest.mark.needs("torch:cpu")
@pytest.mark.parametrize("mode", sorted(MODES))
@settings(max_examples=examples(15), deadline=None)
@given(problem=problems(), order=st.integers(0, 23))
def test_every_mode_agrees_with_torch(mode, problem, order, run_node, normal, permuted):
    import torch

    dims, axes = problem
    x = np.round(normal(*dims), 1)
    expected = by_torch(mode, torch.tensor(x), tuple(axes)).numpy()
    out = run_node(TYPE, {"in": permuted(x, order)}, {"out": expected.shape}, mode=mode)["out"]
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-13)


def reduced(run_node, mode, values, data_type="double"):
    return run_node(TYPE, {"in": np.asarray(values)}, {"out": ((1,), data_type)}, mode=mode)["out"]


def test_zeros_are_left_out_of_the_product(run_node):
    assert reduced(run_node, "mul_no_zeros", [2.0, 0.0, 3.0]).item() == 6.0
    assert reduced(run_node, "mul_no_zeros", [0.0, 0.0]).item() == 1.0


def test_integers_add_exactly(run_node):
    assert reduced(run_node, "add", [2**60, 1, 1], "int64").item() == 2**60 + 2
    assert reduced(run_node, "amax", np.array([-128, 5], np.int8), "int32").item() == 128


def test_booleans_count(run_node):
    assert reduced(run_node, "add", [True, True, False], "int32").item() == 2


def test_nan_wins_every_mode(run_node):
    for mode in MODES:
        assert np.isnan(reduced(run_node, mode, [1.0, np.nan, 2.0])).all()


@pytest.mark.parametrize(
    ("out", "mode", "words"),
    [((2, 3), "add", "no axis"), ((2,), "add", "reduce"), ((2, 1), "not_set", "mode")],
)
def test_what_is_no_reduction_is_refused(run_node, out, mode, words):
    with pytest.raises(UnsupportedGraphError, match=words) as caught:
        run_node(TYPE, {"in": np.zeros((2, 3))}, {"out": out}, mode=mode)
    assert TYPE in str(caught.value)
