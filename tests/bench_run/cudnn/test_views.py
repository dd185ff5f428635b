"""What cuDNN is told of the tensors: matrices for element-wise graphs, the axes for others."""

from __future__ import annotations

import numpy as np
import pytest

from bench_run.engines.cudnn.plans import spread_out
from bench_run.engines.cudnn.rewrite import rewrite
from bench_run.engines.cudnn.views import views
from bench_run.errors import UnsupportedGraphError
from bench_run.graph.make import make_graphs
from tests.conformance.graphs import FAMILIES
from tests.conformance.sketch import Sketch


def viewed(graph):
    canonical = rewrite(graph)
    return canonical, views(canonical)


def add(x_dims, b_dims, layout="packed", b_layout="packed"):
    s = Sketch("add", "float", layout)
    x, b = s.tensor(*x_dims), s.tensor(*b_dims, layout=b_layout)
    y = s.tensor(*x_dims)
    return s.node(
        "PointwiseAttributes", {"in_0": x, "in_1": b}, {"out_0": y}, operation="add"
    ).graph()


@pytest.mark.parametrize("dims", [(7,), (4, 6), (2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 2, 2)])
def test_an_element_wise_graph_is_a_matrix_of_rank_four(dims):
    _, found = viewed(add(dims, dims))
    assert {4} == {len(view.dims) for view in found.values()}


def test_the_matrix_has_as_many_elements_as_the_tensor():
    _, found = viewed(add((2, 3, 5), (2, 3, 5)))
    assert {30} == {int(np.prod(view.dims)) for view in found.values()}


def test_a_channel_parameter_of_channels_last_is_one_value_a_column():
    _, found = viewed(add((2, 8, 3, 4), (1, 8, 1, 1), "last", "last"))
    assert (1, 8, 1, 1) == found[1].dims
    assert found[1].spread is None


def test_a_channel_parameter_of_packed_images_is_spread_over_the_rows():
    _, found = viewed(add((2, 8, 3, 4), (1, 8, 1, 1)))
    assert (16, 1, 1, 1) == found[1].dims
    assert (2, 8, 1, 1) == found[1].spread.dims


def test_one_image_needs_no_spreading():
    _, found = viewed(add((1, 8, 3, 4), (1, 8, 1, 1)))
    assert (8, 1, 1, 1) == found[1].dims
    assert found[1].spread is None


def test_a_scalar_stays_one():
    _, found = viewed(add((4, 6), (1,)))
    assert (1, 1, 1, 1) == found[1].dims


def test_a_spread_input_has_its_values_in_the_order_of_the_rows():
    graph = add((2, 3, 4, 5), (1, 3, 1, 1))
    _, found = viewed(graph)
    spread = found[1].spread
    values = spread_out(graph.inputs[1], np.float32([1, 2, 3]), spread.dims, spread.order)
    assert [1, 2, 3, 1, 2, 3] == list(values)


def test_a_spread_input_of_another_order_is_laid_out_anew():
    graph = add((2, 3, 4), (1, 3, 4), "packed", "last")
    _, found = viewed(graph)
    spread = found[1].spread
    storage = np.arange(12, dtype=np.float32)  # axis 1 is the fastest
    values = spread_out(graph.inputs[1], storage, spread.dims, spread.order)
    assert [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11] == list(values)


def test_gaps_between_elements_are_refused():
    with pytest.raises(UnsupportedGraphError, match="gaps"):
        viewed(add((4, 6), (4, 6), "gaps", "gaps"))


def test_operands_that_lie_in_different_orders_are_refused():
    with pytest.raises(UnsupportedGraphError, match="another order"):
        viewed(add((2, 3, 4, 5), (2, 3, 4, 5), "packed", "last"))


def test_a_broadcast_that_is_neither_rows_nor_columns_is_refused():
    with pytest.raises(UnsupportedGraphError, match="no matrix view"):
        viewed(add((2, 3, 4, 5), (2, 1, 1, 5)))


def test_layer_norm_has_its_normalised_axes_as_columns():
    graph = make_graphs("layernorm: n=4 s=32 h=64 dtype=float")[0]
    _, found = viewed(graph)
    assert (128, 64, 1, 1) == found[graph.inputs[0].uid].dims
    assert (1, 64, 1, 1) == found[graph.inputs[1].uid].dims


def test_a_sum_over_axes_that_lie_apart_is_refused_with_the_nodes_name():
    s = Sketch("sum", "float")
    x, y = s.tensor(2, 3, 4), s.tensor(1, 3, 1)
    graph = s.node("ReductionAttributes", {"in": x}, {"out": y}, mode="add").graph()
    with pytest.raises(UnsupportedGraphError, match=r"node0.*not adjacent in memory"):
        viewed(graph)


def test_matrices_get_a_batch_of_one():
    graph = FAMILIES["matmul_2d"]("float", "packed")
    _, found = viewed(graph)
    assert [(1, 5, 7), (1, 7, 6), (1, 5, 6)] == [found[t.uid].dims for t in graph.tensors]


def test_a_convolution_keeps_its_axes_and_strides():
    graph = FAMILIES["conv_fwd_2d"]("half", "last")
    _, found = viewed(graph)
    assert all(found[t.uid].dims == t.dims for t in graph.tensors)
    assert all(found[t.uid].strides == t.strides for t in graph.tensors)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layout", ["packed", "last", "gaps"])
def test_every_graph_is_viewed_or_refused(family, layout):
    try:
        canonical, found = viewed(FAMILIES[family]("float", layout))
    except UnsupportedGraphError as error:
        assert str(error).startswith("cudnn: ")  # noqa: PT017 - which ones: tests/data/support
        return
    assert {t.uid for t in canonical.tensors} == set(found)
    assert all(len(view.dims) >= 3 for view in found.values())
