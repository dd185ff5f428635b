"""Graphs as ONNX models: ONNX's own evaluator computes what our reference does."""

from __future__ import annotations

import numpy as np
import pytest

from bench_run.errors import UnsupportedGraphError
from bench_run.graph.make import make_graphs
from bench_run.graph.to_onnx import to_onnx
from bench_run.reference import evaluate
from bench_run.tensors.layout import logical_view
from bench_run.tensors.seeded.inputs import make_inputs
from tests.conformance.graphs import FAMILIES
from tests.conformance.sketch import LAYOUTS

onnx = pytest.importorskip("onnx")


REFUSED = (
    *("_bwd", "backward", "flipped", "gen_index", "mul_no_zeros", "maxpool_index"),
    *("dequantized", "quantize", "experts", "matmul_grouped"),
    *("conv_wgrad_grouped", "conv_wgrad_depthwise", "conv_wgrad_3d"),
    *("sdpa_blind", "sdpa_lengths", "sdpa_paged", "sdpa_sink", "sdpa_stats"),
)
"""Words in the names of families that are not written."""
WRITTEN = ("pointwise_relu_bwd",)
NOT_EVALUATED = ("conv_dgrad_3d", "conv_dgrad_grouped")
"""Transposed convolutions with groups or three axes, which ONNX's evaluator cannot compute; the
engine `onnxruntime` does."""


def computed(graph, inputs):
    """By `onnx.reference`, as storages by uid."""
    from onnx.reference import ReferenceEvaluator

    model = to_onnx(graph)
    given = {end.name: inputs[end.uid].reshape(end.dims) for end in model.inputs}
    found = ReferenceEvaluator(onnx.load_from_string(model.data)).run(None, given)
    return {end.uid: value.reshape(-1) for end, value in zip(model.outputs, found, strict=True)}


def check(graph, rtol=2e-5):
    inputs = make_inputs(graph, 0)
    by_uid = graph.by_uid
    logical = {uid: logical_view(storage, by_uid[uid]) for uid, storage in inputs.items()}
    expected = evaluate(graph, logical)
    for uid, storage in computed(graph, inputs).items():
        tensor = graph.by_uid[uid]
        want = np.asarray(expected[uid], np.float64)
        have = logical_view(storage, tensor).astype(np.float64)
        scale = max(1e-6, np.abs(want).max(initial=0))
        np.testing.assert_allclose(have, want.reshape(have.shape), rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_small_graph_computes_the_references_values_or_is_refused_with_a_reason(family, layout):
    graph = FAMILIES[family]("float", layout)
    refused = any(word in family for word in REFUSED) and family not in WRITTEN
    if refused or layout == "gaps":
        with pytest.raises(UnsupportedGraphError, match=r"onnx: ."):
            to_onnx(graph)
    elif family in NOT_EVALUATED:
        assert to_onnx(graph).data
    else:
        check(graph)


@pytest.mark.parametrize(
    "spec",
    [
        "conv_fwd: n=2 c=6 h=9 w=7 k=4 r=3 s=3 pad=1 stride=2 layout=nhwc",
        "conv_dgrad: n=2 c=6 h=9 w=8 k=4 r=3 s=3 pad=1 stride=2",
        "conv_wgrad: n=2 c=6 h=9 w=8 k=4 r=3 s=3 pad=1 stride=2",
        "matmul+bias+gelu: m=5 n=6 k=7",
        "layernorm: n=2 s=3 h=8",
        "rmsnorm: n=2 s=3 h=8",
        "batchnorm_training: n=2 c=3 h=4 w=5",
        "sdpa: b=2 h=4 hk=2 s=8 d=8 mask=causal",
        "maxpool: n=1 c=2 h=6 w=6 window=2",
        "reduce_norm2: dims=4x6 axes=1",
    ],
)
def test_an_operation_people_have_is_written(spec):
    (graph,) = make_graphs(spec, "small", None, [])
    check(graph)


def test_a_model_is_checked_and_of_opset_21():
    (graph,) = make_graphs("relu: n=1 c=2 h=3 w=4", "small", None, [])
    model = onnx.load_from_string(to_onnx(graph).data)
    assert [21] == [each.version for each in model.opset_import]


def test_a_half_product_stays_a_half_product():
    (graph,) = make_graphs("matmul: m=4 n=4 k=4 dtype=half", "small", None, [])
    model = onnx.load_from_string(to_onnx(graph).data)
    assert "Cast" not in {node.op_type for node in model.graph.node}
