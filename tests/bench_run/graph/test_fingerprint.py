"""Equal work has equal fingerprints; any other work has another one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.graph.fingerprint import fingerprint
from bench_run.graph.operations import make_node
from tests.bench_run.graph.builders import (
    conv_bias_relu,
    graph,
    graphs,
    packed,
    pointwise,
    renamed,
    tensor,
)


@given(graphs(), st.integers())
def test_names_uids_and_order_do_not_matter(drawn, seed):
    assert fingerprint(renamed(drawn, seed)) == fingerprint(drawn)


def used(drawn):
    return [t for t in drawn.tensors if t.uid in drawn.produced | drawn.consumed]


def with_tensor(drawn, changed):
    return replace(
        drawn, tensors=tuple(changed if t.uid == changed.uid else t for t in drawn.tensors)
    )


def longer(old, axis):
    dims = (*old.dims[:axis], old.dims[axis] + 1, *old.dims[axis + 1 :])
    return replace(old, dims=dims)


def wider(old, axis):
    strides = (*old.strides[:axis], old.strides[axis] + 7, *old.strides[axis + 1 :])
    return replace(old, strides=strides)


@given(graphs(), st.data())
def test_any_other_dim_is_another_graph(drawn, data):
    old = data.draw(st.sampled_from(used(drawn)))
    axis = data.draw(st.integers(0, len(old.dims) - 1))
    assert fingerprint(with_tensor(drawn, longer(old, axis))) != fingerprint(drawn)


@given(graphs(), st.data())
def test_any_other_stride_is_another_graph_unless_its_dim_is_1(drawn, data):
    old = data.draw(st.sampled_from(used(drawn)))
    axis = data.draw(st.integers(0, len(old.dims) - 1))
    same = fingerprint(with_tensor(drawn, wider(old, axis))) == fingerprint(drawn)
    assert same == (old.dims[axis] == 1)


@given(graphs(), st.data())
def test_any_other_type_or_flag_is_another_graph(drawn, data):
    old = data.draw(st.sampled_from(used(drawn)))
    changes = [
        {"data_type": "int32"},
        {"virtual": not old.virtual},
        {"value": 77.0},
        {"runtime_scalar": True},
        {"alignment": 256},
    ]
    changed = replace(old, **data.draw(st.sampled_from(changes)))
    assert fingerprint(with_tensor(drawn, changed)) != fingerprint(drawn)


@given(graphs(), st.data())
def test_any_other_parameter_is_another_graph(drawn, data):
    index = data.draw(st.integers(0, len(drawn.nodes) - 1))
    nodes = list(drawn.nodes)
    attributes = {**nodes[index].attributes, "elu_alpha": 3.25}
    nodes[index] = replace(nodes[index], attributes=attributes)
    assert fingerprint(replace(drawn, nodes=tuple(nodes))) != fingerprint(drawn)


def test_another_compute_type_is_another_graph():
    whole = conv_bias_relu()
    nodes = (replace(whole.nodes[0], compute_data_type="half"), *whole.nodes[1:])
    assert fingerprint(replace(whole, nodes=nodes)) != fingerprint(whole)


def test_adding_a_tensor_to_itself_is_not_adding_two_alike():
    tensors = [tensor(1, [4]), tensor(2, [4]), tensor(3, [4])]
    twice = graph(tensors, [pointwise("add", [1, 1], 3)])
    two = graph(tensors, [pointwise("add", [1, 2], 3)])
    assert fingerprint(twice) != fingerprint(two)


def test_operands_in_the_other_order_are_another_graph():
    tensors = [tensor(1, [4]), tensor(2, [4], "half"), tensor(3, [4])]
    one = graph(tensors, [pointwise("sub", [1, 2], 3)])
    other = graph(tensors, [pointwise("sub", [2, 1], 3)])
    assert fingerprint(one) != fingerprint(other)


def test_sharing_an_operand_between_nodes_is_not_having_one_each():
    tensors = [tensor(i, [4]) for i in range(6)]
    shared = graph(tensors, [pointwise("add", [0, 1], 4), pointwise("add", [0, 2], 5)])
    apart = graph(tensors, [pointwise("add", [0, 1], 4), pointwise("add", [3, 2], 5)])
    assert fingerprint(shared) != fingerprint(apart)


def test_defaults_said_or_unsaid_are_the_same():
    whole = conv_bias_relu()
    bare = replace(whole.nodes[2], attributes={"operation": "relu_fwd", "relu_lower_clip": None})
    assert fingerprint(replace(whole, nodes=(*whole.nodes[:2], bare))) == fingerprint(whole)


def test_tensors_that_no_node_uses_do_not_matter():
    whole = conv_bias_relu()
    more = replace(whole, tensors=(*whole.tensors, tensor(99, [7])))
    assert fingerprint(more) == fingerprint(whole)


def attention(**attributes):
    tensors = [tensor(i, [1, 2, 4, 8]) for i in range(4)]
    return graph(tensors, [make_node("sdpa", {"q": 0, "k": 1, "v": 2}, {"o": 3}, attributes)])


@pytest.mark.parametrize(
    "same",
    [
        {"right_bound": 0},
        {"right_bound": 0, "left_bound": -1},
        {"right_bound": 0, "diagonal_alignment": "top_left"},
        {"causal_mask": True, "left_bound": -1},
    ],
)
def test_a_causal_mask_is_the_same_however_it_is_said(same):
    assert fingerprint(attention(**same)) == fingerprint(attention(causal_mask=True))


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"right_bound": 1},
        {"causal_mask_bottom_right": True},
        {"right_bound": 0, "left_bound": 3},
    ],
)
def test_another_mask_is_another_graph(other):
    assert fingerprint(attention(**other)) != fingerprint(attention(causal_mask=True))


def test_the_fingerprint_of_a_stored_graph_is_what_documents_say():
    whole = graph(
        [tensor(1, [2, 3], strides=packed((2, 3))), tensor(2, [2, 3])],
        [pointwise("relu_fwd", [1], 2)],
    )
    assert fingerprint(whole) == "d0ef94510ec0681c3fe47daecfaa49c03d91aa41348d69c8668bcf24742b612c"
