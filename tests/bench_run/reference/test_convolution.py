"""Convolutions against PyTorch's float64 ones and against their own adjoints."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.model import Node, Tensor
from bench_run.reference import OPERATIONS
from bench_run.reference.common import SCRATCH_BYTES
from tests.support import examples

FORWARD, DATA, WEIGHT = (f"Convolution{direction}Attributes" for direction in ("Fwd", "Bwd", "Wrw"))


@st.composite
def problems(draw):
    """Shapes and parameters of a valid convolution of one to three spatial axes."""
    axes = draw(st.integers(1, 3))

    def each(low, high):
        return tuple(draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes)))

    groups, per_in, per_out = (draw(st.integers(1, 3)) for _ in range(3))
    size, stride, dilation, pre, post = each(1, 3), each(1, 3), each(1, 2), each(0, 2), each(0, 2)
    reach = [d * (r - 1) + 1 for d, r in zip(dilation, size, strict=True)]
    image = tuple(
        max(1, need - low - high) + extra
        for need, low, high, extra in zip(reach, pre, post, each(0, 4), strict=True)
    )
    out = [
        (i + a + b - n) // s + 1
        for i, a, b, n, s in zip(image, pre, post, reach, stride, strict=True)
    ]
    batch = draw(st.integers(1, 3))
    return {
        "x": (batch, groups * per_in, *image),
        "w": (groups * per_out, per_in, *size),
        "y": (batch, groups * per_out, *out),
        "parameters": {
            "pre_padding": pre,
            "post_padding": post,
            "stride": stride,
            "dilation": dilation,
            "conv_mode": draw(st.sampled_from(["cross_correlation", "convolution"])),
        },
        "order": draw(st.integers(0, 119)),
    }


def expected(torch, problem, x, w):
    """Torch's forward: explicit padding, flipped weights for true convolution."""
    p = problem["parameters"]
    pads = [
        n for pair in zip(p["pre_padding"], p["post_padding"], strict=True) for n in pair[::-1]
    ][::-1]
    if p["conv_mode"] == "convolution":
        w = torch.flip(w, tuple(range(2, w.ndim)))
    conv = (torch.conv1d, torch.conv2d, torch.conv3d)[x.ndim - 3]
    groups = x.shape[1] // w.shape[1]
    padded = torch.nn.functional.pad(x, pads)
    return conv(padded, w, None, p["stride"], 0, p["dilation"], groups)


@pytest.mark.needs("torch:cpu")
@settings(max_examples=examples(60), deadline=None)
@given(problem=problems())
def test_all_three_directions_agree_with_torch(problem, run_node, normal, permuted):
    import torch

    x, w, dy = (normal(*problem[name], seed=i) for i, name in enumerate(("x", "w", "y")))
    tx, tw = (torch.tensor(a, requires_grad=True) for a in (x, w))
    ty = expected(torch, problem, tx, tw)
    ty.backward(torch.tensor(dy))
    x, w, dy = (permuted(a, problem["order"]) for a in (x, w, dy))
    parameters = problem["parameters"]
    y = run_node(FORWARD, {"x": x, "w": w}, {"y": problem["y"]}, **parameters)["y"]
    dx = run_node(DATA, {"dy": dy, "w": w}, {"dx": problem["x"]}, **parameters)["dx"]
    dw = run_node(WEIGHT, {"x": x, "dy": dy}, {"dw": problem["w"]}, **parameters)["dw"]
    np.testing.assert_allclose(y, ty.detach().numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(dx, tx.grad.numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(dw, tw.grad.numpy(), rtol=1e-12, atol=1e-12)


PLAIN = {
    "pre_padding": (1, 0),
    "post_padding": (0, 2),
    "stride": (2, 1),
    "dilation": (1, 2),
    "conv_mode": "cross_correlation",
}


def by_hand(x, w):
    """The formula with loops, for PLAIN and one group."""
    y = np.zeros((x.shape[0], w.shape[0], 3, 4))
    for n, k, o, p in np.ndindex(*y.shape):
        for c, r, s in np.ndindex(*w.shape[1:]):
            i, j = o * 2 + r - 1, p + 2 * s
            if 0 <= i < x.shape[2] and 0 <= j < x.shape[3]:
                y[n, k, o, p] += x[n, c, i, j] * w[k, c, r, s]
    return y


def test_forward_is_the_formula_with_loops(run_node, normal):
    x, w = normal(2, 3, 5, 6), normal(4, 3, 2, 3)
    y = run_node(FORWARD, {"x": x, "w": w}, {"y": (2, 4, 3, 4)}, **PLAIN)["y"]
    np.testing.assert_allclose(y, by_hand(x, w), rtol=1e-13, atol=1e-13)


def test_tiles_do_not_change_the_result(run_node, normal, monkeypatch):
    x, w, dy = normal(3, 3, 5, 6), normal(4, 3, 2, 3), normal(3, 4, 3, 4)
    cases = {
        FORWARD: ({"x": x, "w": w}, {"y": dy.shape}),
        DATA: ({"dy": dy, "w": w}, {"dx": x.shape}),
        WEIGHT: ({"x": x, "dy": dy}, {"dw": w.shape}),
    }
    whole = {name: run_node(name, *case, **PLAIN) for name, case in cases.items()}
    for scratch in (1, 600, 2000, 5000):
        monkeypatch.setattr("bench_run.reference.convolution.SCRATCH_BYTES", scratch)
        for name, case in cases.items():
            tiled = run_node(name, *case, **PLAIN)
            for port, value in whole[name].items():
                np.testing.assert_allclose(tiled[port], value, rtol=1e-12, atol=1e-12)


def test_scratch_stays_small_however_large_the_batch():
    x, w = np.ones((64, 32, 32, 32)), np.ones((32, 32, 3, 3))
    sizes = dict.fromkeys(("pre_padding", "post_padding", "stride", "dilation"), (1, 1))
    node = Node(FORWARD, "n", "float", {}, {}, {**sizes, "conv_mode": "cross_correlation"})
    outputs = {"y": Tensor(0, "y", "double", x.shape, x.strides)}
    tracemalloc.start()
    y = OPERATIONS[FORWARD](node, {"x": x, "w": w}, outputs)["y"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - y.nbytes < 2.5 * SCRATCH_BYTES < 9 * x.nbytes


def test_integers_are_exact_even_where_float64_is_not(run_node):
    x = np.array([[[2**30, 1]]], np.int32)
    w = np.array([[[2**30, 3]]], np.int32)
    parameters = {
        "pre_padding": (0,),
        "post_padding": (0,),
        "stride": (1,),
        "dilation": (1,),
        "conv_mode": "cross_correlation",
    }
    y = run_node(FORWARD, {"x": x, "w": w}, {"y": ((1, 1, 1), "int64")}, **parameters)["y"]
    assert (y.dtype, y.item()) == (np.int64, 2**60 + 3)


def test_nan_spoils_the_windows_that_see_it_and_no_others(run_node):
    x = np.zeros((1, 1, 6))
    x[..., 2] = np.nan
    parameters = {
        "pre_padding": (0,),
        "post_padding": (0,),
        "stride": (1,),
        "dilation": (1,),
        "conv_mode": "cross_correlation",
    }
    y = run_node(FORWARD, {"x": x, "w": np.ones((1, 1, 2))}, {"y": (1, 1, 5)}, **parameters)["y"]
    assert np.isnan(y).tolist() == [[[False, True, True, False, False]]]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"conv_mode": "unset"}, "conv_mode"),
        ({"stride": (1,)}, "stride"),
        ({"pre_padding": (-1, 0)}, "padding"),
        ({"dilation": (1, 1)}, "give y"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(run_node, normal, change, word):
    inputs = {"x": normal(2, 3, 5, 6), "w": normal(4, 3, 2, 3)}
    with pytest.raises(UnsupportedGraphError, match=word) as caught:
        run_node(FORWARD, inputs, {"y": (2, 4, 3, 4)}, **{**PLAIN, **change})
    assert "ConvolutionFwdAttributes" in str(caught.value)


def test_channels_that_do_not_fall_into_groups_are_refused(run_node, normal):
    inputs = {"x": normal(2, 3, 5, 6), "w": normal(4, 2, 2, 3)}
    with pytest.raises(UnsupportedGraphError, match="groups") as caught:
        run_node(FORWARD, inputs, {"y": (2, 4, 3, 4)}, **PLAIN)
    assert "3 channels" in str(caught.value)
