"""Approximations of a convolution compute what their definition says, from the same inputs."""

from __future__ import annotations

import numpy as np
import pytest

from bench_run.errors import GraphError
from bench_run.graph.approximate import with_approximation, with_int8
from bench_run.graph.make import make_graphs
from bench_run.reference import evaluate

CONV = "conv_fwd: n=2 c=8 h=9 w=8 k=4 r=3 s=3 pad=1"


def made(spec):
    return make_graphs(spec)[0]


def values(graph, seed=0):
    random = np.random.default_rng(seed)
    return {tensor.uid: random.normal(size=tensor.dims) for tensor in graph.inputs}


def output(graph, given):
    (tensor,) = graph.outputs
    return evaluate(graph, given)[tensor.uid]


@pytest.mark.parametrize("spec", [CONV, f"{CONV} stride=2", f"{CONV} layout=nhwc"])
@pytest.mark.parametrize(("axis", "name"), [(2, "row"), (3, "col")])
@pytest.mark.parametrize("step", [2, 3])
def test_perforation_computes_one_of_k_rows_and_copies_it(spec, axis, name, step):
    graph = made(spec)
    given = values(graph)
    exact, near = (
        output(graph, given),
        output(with_approximation(graph, f"perf:1/{step}:{name}:0"), given),
    )
    length = exact.shape[axis]
    copied = np.arange(length) // step * step
    assert np.allclose(near, exact.take(copied, axis), rtol=1e-6, atol=1e-6)


def test_perforation_may_begin_at_a_later_row():
    graph = made(CONV.replace("h=9", "h=8"))
    given = values(graph)
    exact = output(graph, given)
    near = output(with_approximation(graph, "perf:1/2:row:1"), given)
    assert np.allclose(near, exact[:, :, np.arange(8) // 2 * 2 + 1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("step", "first"), [(2, 0), (2, 1), (4, 0), (4, 3), (3, 1)])
def test_sampling_leaves_out_one_of_k_channels_and_scales_the_filter(step, first):
    graph = made(CONV)
    given = values(graph)
    x, w = (tensor.uid for tensor in graph.inputs)
    left_out = np.arange(8) % step == first
    alike = {x: given[x], w: np.where(left_out[None, :, None, None], 0, given[w])}
    wanted = output(graph, alike) * 8 / (~left_out).sum()
    near = output(with_approximation(graph, f"samp:1/{step}:{first}"), given)
    assert np.allclose(near, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("spec", [CONV, "matmul: m=16 n=8 k=32", f"{CONV} dtype=half"])
def test_int8_rounds_operands_to_127_steps_of_their_largest(spec):
    graph = made(spec)
    given = values(graph)
    rounded = {}
    for uid, array in given.items():
        step = np.abs(array).max() / 127
        rounded[uid] = np.floor(array / step + 0.5) * step
    near = output(with_int8(graph), given)
    assert np.allclose(near, output(graph, rounded), rtol=1e-6, atol=1e-6)


def test_what_follows_the_convolution_stays():
    graph = made("conv_fwd+bias+relu: n=2 c=8 h=8 w=8 k=4 r=3 s=3 pad=1")
    for near in (with_approximation(graph, "perf:1/2:row:0"), with_int8(graph)):
        assert near.inputs == graph.inputs
        assert near.outputs == graph.outputs
        assert output(near, values(graph)).min() == 0


@pytest.mark.parametrize(
    ("spec", "text", "message"),
    [
        ("conv_fwd: n=2 c=8 h=8 w=8 k=4 r=1 s=1", "perf:1/2:row:1", "its padding of 0 is less"),
        ("conv_fwd: n=2 c=8 h=8 w=8 k=4 r=3 s=3 groups=2", "samp:1/2:0", "convolution in groups"),
        ("conv_fwd: n=2 c=1 h=8 w=8 k=4 r=3 s=3", "samp:1/2:0", "1 channels are too few"),
    ],
)
def test_what_cannot_be_approximated_says_why(spec, text, message):
    with pytest.raises(GraphError, match=message):
        with_approximation(made(spec), text)


def test_a_graph_without_a_convolution_stays_as_it_is():
    assert with_approximation(made("relu: dims=4x4"), "perf:1/2:row:0") is None
    assert with_int8(made("relu: dims=4x4")) is None
