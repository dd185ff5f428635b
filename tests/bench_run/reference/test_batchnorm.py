"""Batch normalisation against PyTorch and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_run.errors import UnsupportedGraphError
from tests.support import examples

INFERENCE = "BatchnormInferenceAttributes"
VARIANCE = "BatchnormInferenceAttributesVarianceExt"
TRAINING = "BatchnormAttributes"
BACKWARD = "BatchnormBackwardAttributes"

dims = st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
    lambda nc: st.lists(st.integers(1, 4), min_size=1, max_size=3).map(lambda s: (*nc, *s))
)


def per_channel(shape):
    return (1, shape[1], *(1 for _ in shape[2:]))


def operands(normal, shape):
    channel = per_channel(shape)
    return {
        "x": 3.0 + 2.0 * normal(*shape),
        "scale": normal(*channel, seed=1),
        "bias": normal(*channel, seed=2),
        "mean": normal(*channel, seed=3),
        "variance": np.abs(normal(*channel, seed=4)) + 0.1,
    }


@pytest.mark.needs("torch:cpu")
@settings(max_examples=examples(30), deadline=None)
@given(shape=dims, order=st.integers(0, 119))
def test_both_forms_of_inference_agree_with_torch(shape, order, run_node, normal, permuted):
    import torch

    given_ = operands(normal, shape)
    flat = {k: torch.tensor(v.reshape(-1)) for k, v in given_.items() if k != "x"}
    expected = torch.nn.functional.batch_norm(
        torch.tensor(given_["x"]),
        flat["mean"],
        flat["variance"],
        flat["scale"],
        flat["bias"],
        eps=1e-3,
    ).numpy()
    inverse = 1 / np.sqrt(given_["variance"] + 1e-3)
    x = permuted(given_["x"], order)
    common = {k: given_[k] for k in ("mean", "scale", "bias")} | {"x": x}
    y = run_node(INFERENCE, {**common, "inv_variance": inverse}, {"y": shape})["y"]
    extended = {**common, "variance": given_["variance"], "epsilon": np.array([1e-3])}
    y2 = run_node(VARIANCE, extended, {"y": shape})["y"]
    np.testing.assert_allclose(y, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(y2, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.needs("torch:cpu")
@settings(max_examples=examples(30), deadline=None)
@given(shape=dims.filter(lambda d: d[0] * np.prod(d[2:]) > 1))
def test_training_agrees_with_torch(shape, run_node, normal):
    import torch

    given_ = operands(normal, shape)
    running = [torch.tensor(given_[k].reshape(-1)) for k in ("mean", "variance")]
    weights = [torch.tensor(given_[k].reshape(-1)) for k in ("scale", "bias")]
    expected = torch.nn.functional.batch_norm(
        torch.tensor(given_["x"]), *running, *weights, training=True, momentum=0.3, eps=1e-4
    ).numpy()
    inputs = {k: given_[k] for k in ("x", "scale", "bias")} | {
        "prev_running_mean": given_["mean"],
        "prev_running_variance": given_["variance"],
        "epsilon": np.array([1e-4]),
        "momentum": np.array([0.3]),
    }
    channel = per_channel(shape)
    ports = ("mean", "inv_variance", "next_running_mean", "next_running_variance")
    got = run_node(TRAINING, inputs, {"y": shape} | dict.fromkeys(ports, channel))
    np.testing.assert_allclose(got["y"], expected, rtol=1e-9, atol=1e-9)
    for port, value in zip(ports[2:], running, strict=True):
        np.testing.assert_allclose(got[port].reshape(-1), value.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.needs("torch:cpu")
@settings(max_examples=examples(30), deadline=None)
@given(shape=dims, saved=st.booleans())
def test_backward_agrees_with_autograd(shape, saved, run_node, normal):
    import torch

    given_ = operands(normal, shape)
    leaves = [torch.tensor(given_[k], requires_grad=True) for k in ("x", "scale", "bias")]
    x, scale, bias = leaves
    axes = (0, *range(2, len(shape)))
    mean = x.mean(axes, keepdim=True)
    inverse = (((x - mean) ** 2).mean(axes, keepdim=True) + 1e-5).rsqrt()
    dy = normal(*shape, seed=9)
    ((x - mean) * inverse * scale + bias).backward(torch.tensor(dy))
    inputs = {"dy": dy, "x": given_["x"], "scale": given_["scale"]}
    if saved:
        inputs |= {"mean": mean.detach().numpy(), "inv_variance": inverse.detach().numpy()}
    outputs = {"dx": shape, "dscale": per_channel(shape), "dbias": per_channel(shape)}
    got = run_node(BACKWARD, inputs, outputs)
    for port, leaf in zip(("dx", "dscale", "dbias"), leaves, strict=True):
        np.testing.assert_allclose(got[port], leaf.grad.numpy(), rtol=1e-8, atol=1e-8)


def test_one_element_a_channel_has_no_bessel_correction(run_node):
    one = np.ones((1, 1, 1))
    inputs = {"x": 5 * one, "scale": one, "bias": one, "epsilon": np.array([1.0])}
    inputs |= {"prev_running_mean": one, "prev_running_variance": one, "momentum": np.array([0.5])}
    ports = ("y", "next_running_mean", "next_running_variance")
    got = run_node(TRAINING, inputs, dict.fromkeys(ports, (1, 1, 1)))
    assert [got[port].item() for port in ports] == [1.0, 3.0, 0.5]


def test_a_large_mean_does_not_cancel_the_variance(run_node):
    x = (2.0**20 + np.array([0.0, 2.0**-10])).reshape(2, 1, 1)
    one = np.ones((1, 1, 1))
    inputs = {"x": x, "scale": one, "bias": 0 * one, "epsilon": np.array([0.0])}
    y = run_node(TRAINING, inputs, {"y": (2, 1, 1)})["y"]
    np.testing.assert_allclose(y.reshape(-1), [-1, 1], rtol=1e-9)


def test_a_mean_without_inverse_variance_is_refused(run_node):
    one = np.ones((1, 1, 1))
    inputs = {"dy": one, "x": one, "scale": one, "mean": one}
    with pytest.raises(UnsupportedGraphError, match="both") as caught:
        run_node(BACKWARD, inputs, dict.fromkeys(("dx", "dscale", "dbias"), (1, 1, 1)))
    assert BACKWARD in str(caught.value)


def test_statistics_of_other_gpus_are_refused(build):
    b = build()
    one = np.ones((1, 1, 1))
    uids = {port: b.input(one) for port in ("x", "scale", "bias")}
    uids["epsilon"] = b.input(np.array([1e-5]))
    peers = (b.input(one),)
    b.node(TRAINING, uids, {"y": b.tensor((1, 1, 1))}, lists={"peer_stats": peers})
    with pytest.raises(UnsupportedGraphError, match="peer_stats") as caught:
        b.run()
    assert TRAINING in str(caught.value)
