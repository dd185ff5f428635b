"""Graphs in cuDNN's own operations mean the same: held against the float64 reference."""

from __future__ import annotations

import numpy as np
import pytest

from bench_run.engines.cudnn.rewrite import NO_NODE, rewrite
from bench_run.errors import UnsupportedGraphError
from bench_run.graph.model import Graph, Node, Tensor
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs
from tests.conformance.graphs import FAMILIES
from tests.conformance.sketch import Sketch


def reduced(mode):
    s = Sketch("sum", "float")
    x, y = s.tensor(3, 4), s.tensor(3, 1)
    return s.node("ReductionAttributes", {"in": x}, {"out": y}, mode=mode).graph()


GRAPHS = {
    "bn_inference": FAMILIES["bn_inference"]("float", "packed"),
    "bn_inference_variance": FAMILIES["bn_inference_variance"]("float", "last"),
    "mean": reduced("avg"),
    "sum of magnitudes": reduced("norm1"),
    "sum": reduced("add"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_rewritten_graph_has_the_same_results(name):
    graph = GRAPHS[name]
    found = make_inputs(graph, 0)
    inputs = {t.uid: logical_view(found[t.uid], t) for t in graph.inputs}
    expected, actual = evaluate(graph, inputs), evaluate(rewrite(graph), inputs)
    assert all(
        np.allclose(expected[t.uid], actual[t.uid], rtol=1e-6, atol=1e-5) for t in graph.outputs
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_inputs_and_outputs_stay_what_they_were(name):
    graph = GRAPHS[name]
    made = rewrite(graph)
    assert (graph.inputs, graph.outputs) == (made.inputs, made.outputs)


def test_no_batch_norm_inference_is_left():
    kinds = {node.type for node in rewrite(GRAPHS["bn_inference"]).nodes}
    assert {"PointwiseAttributes"} == kinds


@pytest.mark.parametrize("kind", NO_NODE)
def test_what_cudnn_has_no_node_for_is_refused_with_name_and_reason(kind):
    x = Tensor(0, "x", "float", (1,), (1,))
    node = Node(kind, "mine", "float", {"x": 0}, {}, {})
    graph = Graph("g", "float", "float", "float", (x,), (node,))
    with pytest.raises(UnsupportedGraphError, match="mine") as caught:
        rewrite(graph)
    assert NO_NODE[kind] in str(caught.value)


@pytest.mark.parametrize(
    ("family", "dtype"), [("conv_fwd_2d", "double"), ("conv_wgrad_1d", "double")]
)
def test_convolutions_that_cudnn_computes_wrongly_are_refused(family, dtype):
    with pytest.raises(UnsupportedGraphError, match="come out wrong"):
        rewrite(FAMILIES[family](dtype, "packed"))


def test_truth_values_in_memory_are_refused():
    s = Sketch("compare", "float")
    a, b, y = s.tensor(4, 8), s.tensor(4, 8), s.tensor(4, 8, dtype="boolean")
    graph = s.node(
        "PointwiseAttributes", {"in_0": a, "in_1": b}, {"out_0": y}, operation="cmp_gt"
    ).graph()
    with pytest.raises(UnsupportedGraphError, match=r"node0.*truth values"):
        rewrite(graph)


def test_rounding_to_integers_is_refused():
    s = Sketch("cast", "float")
    x, y = s.tensor(4, 8), s.tensor(4, 8, dtype="int32")
    graph = s.node("PointwiseAttributes", {"in_0": x}, {"out_0": y}, operation="identity").graph()
    with pytest.raises(UnsupportedGraphError, match="cut off"):
        rewrite(graph)
