"""Layer norm and RMS norm against PyTorch, autograd and the axis rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.operations.norms import rmsnorm_axes
from tests.support import examples

LAYER, LAYER_BACKWARD = "LayernormAttributes", "LayernormBackwardAttributes"
RMS, RMS_BACKWARD = "RMSNormAttributes", "RMSNormBackwardAttributes"

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@st.composite
def layers(draw):
    """x's dims, how many are normalised, and scale's dims with or without leading 1s."""
    dims = draw(shapes)
    count = draw(st.integers(1, len(dims)))
    row = dims[-count:]
    full = (1,) * (len(dims) - count) + row
    kept = dims[:-count] + (1,) * count
    return dims, count, draw(st.sampled_from([row, full])), kept


@pytest.mark.needs("torch:cpu")
@settings(max_examples=examples(30), deadline=None)
@given(layer=layers(), order=st.integers(0, 23), saved=st.booleans())
def test_layer_norm_agrees_with_torch(layer, order, saved, run_node, normal, permuted):
    import torch

    dims, count, row, kept = layer
    x, scale, bias, dy = (normal(*d, seed=i) for i, d in enumerate((dims, row, row, dims)))
    epsilon = np.array([1e-2])
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, scale, bias)]
    tail = dims[-count:]
    y = torch.nn.functional.layer_norm(
        leaves[0], tail, leaves[1].reshape(tail), leaves[2].reshape(tail), 1e-2
    )
    y.backward(torch.tensor(dy))
    x, dy = permuted(x, order), permuted(dy, order + 1)
    given_ = {"x": x, "scale": scale, "bias": bias, "epsilon": epsilon}
    outputs = {"y": dims, "mean": kept, "inv_variance": kept}
    got = run_node(LAYER, given_, outputs, normalized_dim_count=count)
    np.testing.assert_allclose(got["y"], y.detach().numpy(), rtol=1e-10, atol=1e-10)
    inputs = {"x": x, "dy": dy, "scale": scale}
    inputs |= {k: got[k] for k in ("mean", "inv_variance")} if saved else {"epsilon": epsilon}
    gradients = {"dx": dims, "dscale": row, "dbias": row}
    back = run_node(LAYER_BACKWARD, inputs, gradients, normalized_dim_count=count)
    for port, leaf in zip(gradients, leaves, strict=True):
        np.testing.assert_allclose(back[port], leaf.grad.numpy(), rtol=1e-8, atol=1e-8)


def test_layer_norm_gradient_is_the_formula_of_the_format(run_node, normal):
    x, dy, scale = normal(3, 5), normal(3, 5, seed=1), normal(5, seed=2)
    mean = x.mean(1, keepdims=True)
    r = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    g = dy * scale
    a = r**3 * ((g * x).sum(1, keepdims=True) - mean * g.sum(1, keepdims=True)) / 5
    b = r * g.sum(1, keepdims=True) / 5 - a * mean
    inputs = {"x": x, "dy": dy, "scale": scale, "mean": mean, "inv_variance": r}
    outputs = {"dx": x.shape, "dscale": (5,), "dbias": (5,)}
    got = run_node(LAYER_BACKWARD, inputs, outputs, normalized_dim_count=1)
    np.testing.assert_allclose(got["dx"], r * g - a * x - b, rtol=1e-11, atol=1e-12)


def test_layer_norm_backward_needs_statistics_or_epsilon(run_node):
    inputs = {"x": np.ones((2, 2)), "dy": np.ones((2, 2)), "scale": np.ones(2)}
    outputs = {"dx": (2, 2), "dscale": (2,), "dbias": (2,)}
    with pytest.raises(UnsupportedGraphError, match="epsilon") as caught:
        run_node(LAYER_BACKWARD, inputs, outputs, normalized_dim_count=1)
    assert LAYER_BACKWARD in str(caught.value)


AXES = (
    # x, scale, inv_rms, axes that are averaged
    ((2, 3, 4), (4,), None, (2,)),
    ((2, 3, 4), (3, 4), None, (1, 2)),
    ((2, 3, 4), (1, 1, 4), None, (2,)),
    ((2, 3, 4), (2, 3, 4), None, (1, 2)),
    ((2, 3, 4, 4), (1, 3, 1, 1), None, (2, 3)),
    ((2, 3, 4, 4), (1, 3, 1, 1), (2, 3, 1, 1), (2, 3)),
    ((2, 3, 4, 4), (1, 3, 1, 1), (2, 1, 1, 1), (1, 2, 3)),
    ((2, 3, 4, 4), (1, 3, 1, 1), (1, 3, 1, 1), (0, 2, 3)),
    ((2, 3, 4), (4,), (2, 3, 1), (2,)),
    ((5,), (5,), None, (0,)),
    ((4, 7, 1), (1, 1, 1), None, (2,)),
    ((4, 7, 1), (1, 7, 1), None, (1, 2)),
)


@pytest.mark.parametrize(("x", "scale", "inv_rms", "axes"), AXES)
def test_rms_norm_averages_over_the_axes_that_the_shapes_name(x, scale, inv_rms, axes):
    assert rmsnorm_axes(x, scale, inv_rms) == axes


@pytest.mark.parametrize("scale", [(1, 1, 1), (1, 3, 1), (5,)])
def test_a_scale_that_does_not_name_the_axes_is_refused(scale):
    with pytest.raises(ValueError, match="name no axes"):
        rmsnorm_axes((2, 4, 3) if scale == (1, 3, 1) else (2, 3, 4), scale, None)


@pytest.mark.needs("torch:cpu")
@settings(max_examples=examples(30), deadline=None)
@given(
    case=st.sampled_from([c for c in AXES if c[2] is None or c[2][0] != 1]), biased=st.booleans()
)
def test_rms_norm_agrees_with_autograd(case, biased, run_node, normal):
    import torch

    dims, row, _, axes = case
    x, scale, bias, dy = (normal(*d, seed=i) for i, d in enumerate((dims, row, row, dims)))
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, scale, bias)]
    inverse = ((leaves[0] ** 2).mean(axes, keepdim=True) + 1e-2).rsqrt()
    y = leaves[0] * inverse * leaves[1] + (leaves[2] if biased else 0)
    y.backward(torch.tensor(dy))
    inputs = {"x": x, "scale": scale, "epsilon": np.array([1e-2])}
    inputs |= {"bias": bias} if biased else {}
    kept = tuple(inverse.shape)
    got = run_node(RMS, inputs, {"y": dims, "inv_rms": kept})
    np.testing.assert_allclose(got["y"], y.detach().numpy(), rtol=1e-11, atol=1e-11)
    inputs = {"x": x, "dy": dy, "scale": scale, "inv_rms": got["inv_rms"]}
    outputs = {"dx": dims, "dscale": row} | ({"dbias": row} if biased else {})
    back = run_node(RMS_BACKWARD, inputs, outputs)
    for port, leaf in zip(outputs, leaves, strict=False):
        np.testing.assert_allclose(back[port], leaf.grad.numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.needs("torch:cpu")
def test_rms_norm_agrees_with_torch_own(run_node, normal):
    import torch

    x, scale = normal(3, 4, 5), normal(5, seed=1)
    expected = torch.nn.functional.rms_norm(torch.tensor(x), (5,), torch.tensor(scale), 1e-6)
    y = run_node(RMS, {"x": x, "scale": scale, "epsilon": np.array([1e-6])}, {"y": x.shape})["y"]
    np.testing.assert_allclose(y, expected.numpy(), rtol=1e-12, atol=1e-12)
