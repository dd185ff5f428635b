from __future__ import annotations

import pytest

from bench_run.graph.make import make_graphs
from bench_run.graph.scale import scale_batch


def scaled(spec, batch=2):
    return scale_batch(make_graphs(spec)[0], batch)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_only_the_batch_of_a_convolution_changes(layout):
    graph = scaled(f"conv_fwd+bias+relu: n=8 c=4 h=6 w=6 k=8 r=3 s=3 pad=1 layout={layout}")
    dims = {t.name: t.dims for t in graph.tensors if t.dims != (1,)}
    assert {2, 8, 1} == {shape[0] for shape in dims.values()}
    assert dims["x"] == (2, 4, 6, 6)


def test_the_smaller_graph_is_the_one_made_with_that_batch():
    small = make_graphs("batchnorm_training: n=2 c=4 h=6 w=6")[0]
    large = scaled("batchnorm_training: n=8 c=4 h=6 w=6")
    assert [t.dims for t in small.tensors] == [t.dims for t in large.tensors]
    assert [t.strides for t in small.tensors] == [t.strides for t in large.tensors]


def test_a_small_batch_is_left_alone():
    graph = make_graphs("conv_fwd: n=2 c=4 h=6 w=6 k=8 r=3 s=3")[0]
    assert graph is scale_batch(graph, 4)


def test_a_matrix_product_without_a_batch_cannot_be_scaled():
    assert scaled("matmul: m=8 n=8 k=8") is None


@pytest.mark.parametrize(
    "spec", ["relu: dims={0}x4x6x6", "add: dims={0}x6x4", "gelu_bwd: dims={0}x4x6x6"]
)
def test_element_wise_graphs_have_a_batch_too(spec):
    small = make_graphs(spec.format(2))[0]
    large = scaled(spec.format(8))
    assert [t.dims for t in small.tensors] == [t.dims for t in large.tensors]
    assert [t.strides for t in small.tensors] == [t.strides for t in large.tensors]


def test_rows_of_a_matrix_are_no_batch():
    assert scaled("relu: dims=8x4") is None
