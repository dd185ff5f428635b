"""Pooling against PyTorch and by hand; backward as the adjoint of forward."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import UnsupportedGraphError
from tests.support import examples

FORWARD, BACKWARD = "ResampleFwdAttributes", "ResampleBwdAttributes"
AVERAGES = ("avgpool_exclude_padding", "avgpool_include_padding")


@st.composite
def problems(draw, symmetric=False):
    axes = draw(st.integers(1, 3))

    def each(low, high):
        return tuple(draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes)))

    window, stride = each(1, 3), each(1, 3)
    pre = tuple(min(p, w // 2) for p, w in zip(each(0, 1), window, strict=True))
    post = pre if symmetric else each(0, 2)
    image = tuple(w + extra for w, extra in zip(window, each(0, 4), strict=True))
    parts = zip(image, pre, post, window, stride, strict=True)
    out = tuple((i + a + b - w) // s + 1 for i, a, b, w, s in parts)
    lead = (draw(st.integers(1, 2)), draw(st.integers(1, 3)))
    sizes = {"pre_padding": pre, "post_padding": post, "stride": stride, "window": window}
    return (*lead, *image), (*lead, *out), sizes


@pytest.mark.needs("torch:cpu")
@settings(max_examples=examples(40), deadline=None)
@given(problem=problems(symmetric=True), order=st.integers(0, 119))
def test_max_pooling_and_its_index_agree_with_torch(problem, order, run_node, normal, permuted):
    import torch

    dims, out, sizes = problem
    x = normal(*dims)
    f = torch.nn.functional
    pool = (f.max_pool1d, f.max_pool2d, f.max_pool3d)[len(dims) - 3]
    y, index = pool(
        torch.tensor(x),
        sizes["window"],
        sizes["stride"],
        sizes["pre_padding"],
        return_indices=True,
    )
    inputs = {"x": permuted(x, order)}
    outputs = {"y": out, "index": (out, "int64")}
    got = run_node(FORWARD, inputs, outputs, resample_mode="maxpool", **sizes)
    np.testing.assert_array_equal(got["y"], y.numpy())
    np.testing.assert_array_equal(got["index"], index.numpy())


@pytest.mark.needs("torch:cpu")
@settings(max_examples=examples(40), deadline=None)
@given(problem=problems(symmetric=True), mode=st.sampled_from(AVERAGES))
def test_averages_agree_with_torch(problem, mode, run_node, normal):
    import torch

    dims, out, sizes = problem
    x = normal(*dims)
    f = torch.nn.functional
    pool = (f.avg_pool1d, f.avg_pool2d, f.avg_pool3d)[len(dims) - 3]
    include = mode == "avgpool_include_padding"
    expected = pool(
        torch.tensor(x),
        sizes["window"],
        sizes["stride"],
        sizes["pre_padding"],
        count_include_pad=include,
    )
    y = run_node(FORWARD, {"x": x}, {"y": out}, resample_mode=mode, **sizes)["y"]
    np.testing.assert_allclose(y, expected.numpy(), rtol=1e-12, atol=1e-13)


@settings(max_examples=examples(40), deadline=None)
@given(problem=problems(), mode=st.sampled_from(("maxpool", *AVERAGES)))
def test_backward_is_the_adjoint_of_forward(problem, mode, run_node, normal):
    """Each is linear near x: ⟨forward(x), dy⟩ = ⟨x, backward(dy)⟩."""
    dims, out, sizes = problem
    x, dy = normal(*dims), normal(*out, seed=1)
    more = {"resample_mode": mode, **sizes}
    ports = {"y": out} | ({"index": (out, "int64")} if mode == "maxpool" else {})
    got = run_node(FORWARD, {"x": x}, ports, **more)
    inputs = {"dy": dy} | ({"index": got["index"]} if mode == "maxpool" else {})
    dx = run_node(BACKWARD, inputs, {"dx": dims}, **more)["dx"]
    seen = np.isfinite(got["y"])
    np.testing.assert_allclose((got["y"] * dy)[seen].sum(), (x * dx).sum(), rtol=1e-9, atol=1e-9)


LINE = {"pre_padding": (0,), "post_padding": (0,), "stride": (1,), "window": (2,)}


def line(run_node, values, mode, out, **sizes):
    x = np.asarray(values, float).reshape(1, 1, -1)
    ports = {"y": (1, 1, out)} | ({"index": ((1, 1, out), "int32")} if mode == "maxpool" else {})
    got = run_node(FORWARD, {"x": x}, ports, **{**LINE, "resample_mode": mode, **sizes})
    return {port: value.reshape(-1).tolist() for port, value in got.items()}


def test_the_first_of_equal_maxima_is_the_winner(run_node):
    assert line(run_node, [5, 5, 1], "maxpool", 2) == {"y": [5, 5], "index": [0, 1]}


def test_minus_infinity_still_has_an_index(run_node):
    got = line(run_node, [-np.inf, -np.inf], "maxpool", 1)
    assert got == {"y": [-np.inf], "index": [0]}


def test_a_window_of_padding_only_has_index_minus_one_and_average_zero(run_node):
    sizes = {"pre_padding": (2,), "stride": (2,)}
    assert line(run_node, [3, 4], "maxpool", 2, **sizes) == {"y": [-np.inf, 4], "index": [-1, 1]}
    assert line(run_node, [3, 4], AVERAGES[0], 2, **sizes) == {"y": [0, 3.5]}


def test_nan_wins_its_windows(run_node):
    got = line(run_node, [1, np.nan, 2, 3], "maxpool", 3)
    np.testing.assert_array_equal(got["y"], [np.nan, np.nan, 3])
    assert got["index"] == [1, 1, 3]


def test_max_pooling_backward_finds_the_winners_in_x(run_node):
    x, dy = np.array([[[1.0, 3.0, 2.0]]]), np.array([[[10.0, 20.0]]])
    more = {**LINE, "resample_mode": "maxpool"}
    dx = run_node(BACKWARD, {"x": x, "dy": dy}, {"dx": x.shape}, **more)["dx"]
    assert dx.tolist() == [[[0.0, 30.0, 0.0]]]


def test_max_pooling_backward_without_index_or_x_is_refused(run_node):
    more = {**LINE, "resample_mode": "maxpool"}
    with pytest.raises(UnsupportedGraphError, match="index or its x") as caught:
        run_node(BACKWARD, {"dy": np.ones((1, 1, 2))}, {"dx": (1, 1, 3)}, **more)
    assert BACKWARD in str(caught.value)


def test_an_unset_mode_is_refused(run_node):
    with pytest.raises(UnsupportedGraphError, match="not_set") as caught:
        line(run_node, [1, 2], "not_set", 1)
    assert FORWARD in str(caught.value)
