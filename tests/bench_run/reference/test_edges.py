"""Tensors of no element and of one, through every family that has a meaning for them."""

from __future__ import annotations

import numpy as np
import pytest

from bench_run.errors import UnsupportedGraphError

CONV = dict.fromkeys(("stride", "dilation"), (1,)) | {"conv_mode": "cross_correlation"}
CONV |= {"pre_padding": (0,), "post_padding": (0,)}


def test_a_batch_of_nothing_gives_nothing(run_node):
    none, w = np.zeros((0, 2, 5)), np.ones((3, 2, 2))
    y = run_node("ConvolutionFwdAttributes", {"x": none, "w": w}, {"y": (0, 3, 4)}, **CONV)["y"]
    exp = run_node("PointwiseAttributes", {"in_0": none}, {"out_0": none.shape}, operation="exp")
    q = np.zeros((0, 1, 2, 3))
    o = run_node("SdpaAttributes", {"q": q, "k": q, "v": q}, {"o": q.shape})["o"]
    assert (y.shape, exp["out_0"].shape, o.shape) == ((0, 3, 4), (0, 2, 5), (0, 1, 2, 3))


def test_sums_over_nothing_are_zero(run_node):
    none, dy = np.zeros((0, 2, 5)), np.zeros((0, 3, 4))
    inputs = {"x": none, "dy": dy}
    dw = run_node("ConvolutionWrwAttributes", inputs, {"dw": (3, 2, 2)}, **CONV)["dw"]
    c = run_node("MatmulAttributes", {"a": np.ones((2, 0)), "b": np.ones((0, 3))}, {"c": (2, 3)})
    out = run_node("ReductionAttributes", {"in": none}, {"out": (1, 2, 5)}, mode="add")["out"]
    assert not dw.any()
    assert not c["c"].any()
    assert not out.any()


def test_a_query_of_no_keys_sees_nothing(run_node):
    q, k = np.ones((1, 1, 2, 3)), np.ones((1, 1, 0, 3))
    got = run_node("SdpaAttributes", {"q": q, "k": k, "v": k}, {"o": q.shape, "stats": (1, 1, 2)})
    assert not got["o"].any()
    assert np.isneginf(got["stats"]).all()


def test_the_maximum_of_nothing_is_refused(run_node):
    with pytest.raises(UnsupportedGraphError, match="no elements") as caught:
        run_node("ReductionAttributes", {"in": np.zeros((0, 2))}, {"out": (1, 2)}, mode="max")
    assert "ReductionAttributes" in str(caught.value)


def test_tensors_of_one_element_are_ordinary(run_node):
    one = np.full((1, 1, 1), 3.0)
    y = run_node("ConvolutionFwdAttributes", {"x": one, "w": one}, {"y": (1, 1, 1)}, **CONV)["y"]
    scalar = np.full((1,), 2.0)
    inputs = {"x": one, "scale": scalar, "bias": scalar, "epsilon": np.array([1.0])}
    ports = {"y": (1, 1, 1)}
    normed = run_node("LayernormAttributes", inputs, ports, normalized_dim_count=1)["y"]
    assert (y.item(), normed.item()) == (9.0, 2.0)
