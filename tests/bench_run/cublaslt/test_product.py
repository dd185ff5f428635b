"""Graphs as products of cuBLASLt, which needs no library: held against NumPy's product."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench_run.engines.cublaslt.engine import read_id
from bench_run.engines.cublaslt.product import product_of
from bench_run.errors import UnsupportedGraphError, UsageError
from bench_run.graph.make import make_graphs
from bench_run.tensors.layout import logical_view

ACTIVATIONS = {
    "DEFAULT": lambda x: x,
    "RELU": lambda x: np.maximum(x, 0),
    "GELU": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}


def graph_of(spec):
    (graph,) = make_graphs(spec, "small", None, [])
    return graph


def column_major(storage, matrix, index):
    """The matrix of the batch as cuBLASLt reads it."""
    flat = storage[index * matrix.batch_stride :]
    stored = np.lib.stride_tricks.as_strided(
        flat,
        (matrix.rows, matrix.columns),
        (flat.itemsize, matrix.leading * flat.itemsize),
    )
    return stored.T if matrix.transposed else stored


def computed(graph, storages):
    """By the description alone: what cuBLASLt would write."""
    product = product_of(graph)
    out = graph.outputs[0]
    storage = np.zeros(out.span)
    for index in range(product.batch):
        a, b = (column_major(storages[m.uid], m, index) for m in (product.a, product.b))
        value = a @ b
        if product.bias is not None:
            value = value + storages[product.bias][: len(value), None]
        name = product.epilogue.replace("_BIAS", "").replace("BIAS", "DEFAULT")
        column_major(storage, product.d, index)[...] = ACTIVATIONS[name](value)
    return logical_view(storage, out)


def expected(graph, storages):
    views = {t.uid: logical_view(storages[t.uid], t) for t in graph.inputs}
    first, *rest = graph.nodes
    value = views[first.inputs["a"]] @ views[first.inputs["b"]]
    for node in rest:
        mode = node.attributes["operation"]
        if mode == "add":
            (bias,) = (views[uid] for uid in node.inputs.values() if uid in views)
            value = value + bias
        else:
            value = ACTIVATIONS["RELU" if mode == "relu_fwd" else "GELU"](value)
    return value


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(
    "spec",
    [
        "matmul: m=3 n=5 k=7",
        "matmul: m=1 n=5 k=7",
        "matmul: m=3 n=1 k=1",
        "matmul: batch=4 m=3 n=5 k=7",
        "matmul+bias: m=3 n=5 k=7",
        "matmul+bias+relu: m=3 n=5 k=7",
        "matmul+gelu_tanh: m=3 n=5 k=7",
    ],
)
@pytest.mark.parametrize("c_layout", ["row", "col"])
def test_a_product_in_column_major_words_is_the_graphs(spec, layout, c_layout):
    with_bias = "bias" in spec
    graph = graph_of(f"{spec} layout={layout} c_layout={c_layout} dtype=double")
    rng = np.random.default_rng(1)
    storages = {t.uid: rng.standard_normal(t.span) for t in graph.inputs}
    if with_bias and c_layout == "col":
        with pytest.raises(UnsupportedGraphError, match="adds one value a row of the result"):
            product_of(graph)
        return
    np.testing.assert_allclose(computed(graph, storages), expected(graph, storages), rtol=1e-12)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("relu: n=1 c=2 h=3 w=4", "only products"),
        ("matmul+gelu: m=3 n=5 k=7", "gelu_fwd is none of what"),
        ("matmul+relu+bias: m=3 n=5 k=7", "not what cuBLASLt computes behind a product"),
        ("matmul+sigmoid: m=3 n=5 k=7", "sigmoid_fwd is none of what"),
    ],
)
def test_what_it_has_no_kernel_for_is_refused_with_the_reason(spec, why):
    with pytest.raises(UnsupportedGraphError, match=f"cublaslt: .*{why}"):
        product_of(graph_of(spec))


def test_a_bias_of_another_type_is_refused():
    graph = graph_of("matmul+bias: m=3 n=5 k=7 dtype=half")
    bias = next(t for t in graph.inputs if 5 == t.elements)
    tensors = tuple(replace(t, data_type="float") if t is bias else t for t in graph.tensors)
    with pytest.raises(UnsupportedGraphError, match="a bias of float for a result of half"):
        product_of(replace(graph, tensors=tensors))


@pytest.mark.parametrize("identifier", [None, "all", "index=3", "plan=algo66_tile18"])
def test_an_id_is_taken(identifier):
    assert read_id(identifier) is None


@pytest.mark.parametrize("identifier", ["66", "index=x", "plan=", "every"])
def test_an_id_that_means_nothing_is_refused_with_what_does(identifier):
    with pytest.raises(UsageError, match="plan=NAME, index=N or all"):
        read_id(identifier)
