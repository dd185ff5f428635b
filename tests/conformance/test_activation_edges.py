"""The ReLU family at its clips, at NaN and at infinities: every engine keeps to one convention.

With lower clip L, upper clip U and slope s. Forward: s·(x − L) + L up to L, U from U on, else x;
NaN stays NaN. Backward: s·dy up to and at L, 0 beyond U, else dy, so that dy passes at U itself
(MIOpen's convention; PyTorch's own clamp gives 0 there) and at NaN, for which no comparison holds.
A factor of 0 gives 0 whatever dy is.
"""

from __future__ import annotations

import numpy as np
import pytest

from bench_run.errors import UnsupportedGraphError
from bench_run.reference import evaluate
from tests.conformance.opening import outputs
from tests.conformance.sketch import Sketch

NAN, INF = np.nan, np.inf
PLAIN: dict[str, float] = {}
LEAKY = {"relu_lower_clip_slope": 0.25}
RELU6 = {"relu_lower_clip": 0.0, "relu_upper_clip": 6.0}
BOTH = {"relu_lower_clip": -1.0, "relu_upper_clip": 6.0, "relu_lower_clip_slope": 0.5}

X = (NAN, -INF, -2.0, -1.0, 0.0, 3.0, 6.0, 7.0, INF)
FORWARD = {
    "relu": (PLAIN, (NAN, 0.0, 0.0, 0.0, 0.0, 3.0, 6.0, 7.0, INF)),
    "leaky": (LEAKY, (NAN, -INF, -0.5, -0.25, 0.0, 3.0, 6.0, 7.0, INF)),
    "relu6": (RELU6, (NAN, 0.0, 0.0, 0.0, 0.0, 3.0, 6.0, 6.0, 6.0)),
    "both": (BOTH, (NAN, -INF, -1.5, -1.0, 0.0, 3.0, 6.0, 6.0, 6.0)),
}
BACKWARD = {
    "relu": (PLAIN, (8.0, 0.0, 0.0, 0.0, 0.0, 8.0, 8.0, 8.0, 8.0)),
    "leaky": (LEAKY, (8.0, 2.0, 2.0, 2.0, 2.0, 8.0, 8.0, 8.0, 8.0)),
    "relu6": (RELU6, (8.0, 0.0, 0.0, 0.0, 0.0, 8.0, 8.0, 0.0, 0.0)),
    "both": (BOTH, (8.0, 4.0, 4.0, 4.0, 8.0, 8.0, 8.0, 0.0, 0.0)),
}


def activation(mode, attributes, operands):
    """The graph and its inputs by uid."""
    s = Sketch("edges", "float")
    ports = {f"in_{i}": s.tensor(1, len(X)) for i in range(len(operands))}
    y = s.tensor(1, len(X))
    s.node("PointwiseAttributes", ports, {"out_0": y}, operation=mode, **attributes)
    graph = s.graph()
    pairs = zip(graph.inputs, operands, strict=True)
    return graph, {t.uid: np.array(values, np.float32) for t, values in pairs}


def result(engine, mode, attributes, *operands):
    graph, inputs = activation(mode, attributes, operands)
    try:
        return outputs(engine, graph, inputs)[graph.outputs[0].uid]
    except UnsupportedGraphError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", FORWARD)
def test_activations_have_these_values_at_their_edges(engine, name):
    attributes, expected = FORWARD[name]
    np.testing.assert_array_equal(result(engine, "relu_fwd", attributes, X), expected)


@pytest.mark.parametrize("name", BACKWARD)
def test_gradients_have_these_values_at_their_edges(engine, name):
    attributes, expected = BACKWARD[name]
    eights = [8.0] * len(X)
    np.testing.assert_array_equal(result(engine, "relu_bwd", attributes, eights, X), expected)


@pytest.mark.parametrize("dy", [NAN, INF])
@pytest.mark.parametrize("name", ["relu", "relu6"])
def test_a_factor_of_0_gives_0_whatever_dy_is(engine, name, dy):
    attributes, expected = BACKWARD[name]
    found = result(engine, "relu_bwd", attributes, [dy] * len(X), X)
    np.testing.assert_array_equal(found, np.where(np.array(expected) == 0, 0.0, dy))


@pytest.mark.parametrize("mode", ["relu_fwd", "relu_bwd"])
@pytest.mark.parametrize("name", BACKWARD)
def test_the_reference_has_the_same_edges(name, mode):
    attributes, expected = (FORWARD if mode == "relu_fwd" else BACKWARD)[name]
    operands = [X] if mode == "relu_fwd" else [[8.0] * len(X), X]
    graph, inputs = activation(mode, attributes, operands)
    shaped = {uid: values.reshape(1, -1) for uid, values in inputs.items()}
    found = evaluate(graph, shaped)[graph.outputs[0].uid]
    np.testing.assert_array_equal(found[0], expected)
