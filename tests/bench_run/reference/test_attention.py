"""Attention, forward and backward, against PyTorch's operations and autograd."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import examples

FORWARD, BACKWARD = "SdpaAttributes", "SdpaBackwardAttributes"


@st.composite
def problems(draw):
    """Dims, bounds, dims of the bias, sink or not, and how many scores are held at a time."""
    batch, shared_k, shared_v = (draw(st.integers(1, 2)) for _ in range(3))
    heads = draw(st.sampled_from([2, 4]))
    queries, keys = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    size, value_size = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    bound = st.sampled_from([None, -1, 0, 1, 3])
    wide = (batch, heads, queries, keys)
    kept = draw(st.tuples(*[st.booleans()] * 4))
    bias = tuple(n if keep else 1 for n, keep in zip(wide, kept, strict=True))
    return {
        "q": (batch, heads, queries, size),
        "k": (batch, heads // shared_k, keys, size),
        "v": (batch, heads // shared_v, keys, value_size),
        "bias": draw(st.sampled_from([None, bias, bias[2:]])),
        "sink": draw(st.booleans()),
        "attributes": {
            "left_bound": draw(bound),
            "right_bound": draw(bound),
            "diagonal_alignment": draw(st.sampled_from(["top_left", "bottom_right"])),
            "attn_scale_value": draw(st.sampled_from([None, 0.5, 0.0])),
        },
        "block": draw(st.sampled_from([1, 7, 1000])),
    }


def hidden(queries, keys, attributes):
    """The format's masks, element by element."""
    off = keys - queries if attributes.get("diagonal_alignment") == "bottom_right" else 0
    left, right = (attributes.get(f"{side}_bound") for side in ("left", "right"))
    mask = np.zeros((queries, keys), bool)
    for i, j in np.ndindex(queries, keys):
        past = right is not None and right >= 0 and j >= i + 1 + off + right
        early = left is not None and left >= 0 and j < i + off - left
        mask[i, j] = past or early
    return mask


def by_torch(torch, q, k, v, attributes, bias=None, sink=None):
    """(o, log-sum-exp) with whole matrices."""
    heads = q.shape[1]
    k, v = (a.repeat_interleave(heads // a.shape[1], dim=1) for a in (k, v))
    scale = attributes.get("attn_scale_value")
    scores = (q @ k.mT) * (q.shape[3] ** -0.5 if scale is None else scale)
    scores = scores if bias is None else scores + bias
    mask = torch.tensor(hidden(q.shape[2], k.shape[2], attributes))
    empty = mask.all(1, keepdim=True)
    scores = scores.masked_fill(mask & ~empty, -math.inf)
    total = torch.logsumexp(scores, 3, keepdim=True)
    total = torch.where(empty, -math.inf, total)
    if sink is not None:
        total = torch.logaddexp(total, sink.reshape(1, -1, 1, 1))
    weights = torch.exp(scores - torch.where(empty, 0.0, total)) * ~empty
    return weights @ v, total


def data(problem, normal):
    arrays = {port: normal(*problem[port], seed=i) for i, port in enumerate("qkv")}
    if problem["bias"] is not None:
        arrays["attn_mask"] = normal(*problem["bias"], seed=7)
    return arrays


@pytest.mark.needs("torch:cpu")
@settings(max_examples=examples(80), deadline=None)
@given(problem=problems(), order=st.integers(0, 23))
def test_forward_agrees_with_torch(problem, order, run_node, normal, permuted):
    import torch

    arrays = data(problem, normal)
    sink = normal(problem["q"][1], seed=8) if problem["sink"] else None
    tensors = {port: torch.tensor(a) for port, a in arrays.items()}
    o, total = by_torch(
        torch,
        *(tensors[p] for p in "qkv"),
        problem["attributes"],
        tensors.get("attn_mask"),
        None if sink is None else torch.tensor(sink),
    )
    inputs = {port: permuted(a, order) for port, a in arrays.items()}
    inputs |= {} if sink is None else {"sink_token": sink}
    outputs = {"o": tuple(o.shape), "stats": tuple(total.shape)}
    with pytest.MonkeyPatch.context() as patch:
        name = "bench_run.reference.attention.BLOCK_ELEMENTS"
        patch.setattr(name, problem["block"])
        got = run_node(FORWARD, inputs, outputs, **problem["attributes"])
    np.testing.assert_allclose(got["o"], o.numpy(), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(got["stats"], total.numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.needs("torch:cpu")
@settings(max_examples=examples(60), deadline=None)
@given(problem=problems())
def test_backward_agrees_with_autograd(problem, run_node, normal):
    import torch

    arrays = data(problem, normal)
    leaves = {port: torch.tensor(a, requires_grad=True) for port, a in arrays.items()}
    o, total = by_torch(
        torch, *(leaves[p] for p in "qkv"), problem["attributes"], leaves.get("attn_mask")
    )
    do = normal(*o.shape, seed=9)
    o.backward(torch.tensor(do))
    inputs = {**arrays, "o": o.detach().numpy(), "do": do, "stats": total.detach().numpy()}
    outputs = {f"d{port}": problem[port] for port in "qkv"}
    outputs |= {"dbias": problem["bias"]} if problem["bias"] is not None else {}
    got = run_node(BACKWARD, inputs, outputs, **problem["attributes"])
    for port, leaf in leaves.items():
        name = "dbias" if port == "attn_mask" else f"d{port}"
        np.testing.assert_allclose(got[name], leaf.grad.numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.needs("torch:cpu")
def test_agrees_with_torch_own_attention(run_node, normal):
    import torch

    q, k, v = normal(2, 4, 33, 8), normal(2, 2, 47, 8, seed=1), normal(2, 2, 47, 5, seed=2)
    attention = torch.nn.functional.scaled_dot_product_attention
    for causal in (False, True):
        expected = attention(
            *map(torch.tensor, (q, k, v)), is_causal=causal, enable_gqa=True
        ).numpy()
        inputs = {"q": q, "k": k, "v": v}
        o = run_node(FORWARD, inputs, {"o": expected.shape}, causal_mask=causal)["o"]
        np.testing.assert_allclose(o, expected, rtol=1e-11, atol=1e-12)


def test_gradients_agree_with_finite_differences(run_node, normal):
    q, k, v, do = (normal(1, 1, n, 2, seed=i) for i, n in enumerate((3, 4, 4, 3)))
    attributes = {"right_bound": 1, "attn_scale_value": 0.7}
    arrays = {"q": q, "k": k, "v": v}

    def loss(changed):
        return (run_node(FORWARD, changed, {"o": do.shape}, **attributes)["o"] * do).sum()

    outputs = {"o": do.shape, "stats": (1, 1, 3)}
    forward = run_node(FORWARD, arrays, outputs, **attributes)
    inputs = {**arrays, **forward, "do": do}
    got = run_node(BACKWARD, inputs, {f"d{p}": arrays[p].shape for p in arrays}, **attributes)
    for port, array in arrays.items():
        for index in np.ndindex(array.shape):
            step = np.zeros(array.shape)
            step[index] = 1e-6
            up, down = (loss({**arrays, port: array + s * step}) for s in (1, -1))
            slope = (up - down) / 2e-6
            np.testing.assert_allclose(got[f"d{port}"][index], slope, rtol=1e-6, atol=1e-8)
