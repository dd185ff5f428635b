"""Rules that files cannot easily break, and what is allowed."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.errors import GraphError
from bench_run.graph.check import check, distinct_elements
from bench_run.graph.model import Node
from bench_run.graph.operations import HINTS, OPERATIONS, POINTWISE_MODES, make_node
from bench_run.graph.operations.norms import rmsnorm_axes
from tests.bench_run.graph.builders import conv_bias_relu, graph, pointwise, tensor


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), min_size=1, max_size=4))
def test_elements_are_distinct_exactly_when_no_two_share_an_offset(axes):
    dims, strides = zip(*axes, strict=True)
    offsets = [
        sum(i * s for i, s in zip(index, strides, strict=True))
        for index in product(*(range(d) for d in dims))
    ]
    expected = len(set(offsets)) == len(offsets)
    assert distinct_elements(tensor(1, dims, strides=strides)) == expected


def test_a_tensor_that_is_only_read_may_repeat_its_elements():
    whole = graph(
        [tensor(1, [2, 3], strides=(0, 1)), tensor(2, [2, 3])], [pointwise("neg", [1], 2)]
    )
    assert check(whole) == whole


def test_gaps_between_elements_are_allowed():
    whole = graph(
        [tensor(1, [2, 3]), tensor(2, [2, 3], strides=(8, 2))], [pointwise("neg", [1], 2)]
    )
    assert check(whole) == whole


def test_an_output_that_is_read_again_is_allowed():
    tensors = [tensor(i, [4]) for i in range(3)]
    whole = graph(tensors, [pointwise("neg", [0], 1), pointwise("abs", [1], 2)])
    assert check(whole) == whole


def test_independent_nodes_keep_their_order():
    tensors = [tensor(i, [4]) for i in range(4)]
    nodes = [pointwise(mode, [0], i) for i, mode in enumerate(("neg", "abs", "exp"), 1)]
    assert check(graph(tensors, nodes)).nodes == tuple(nodes)


def test_a_made_node_with_an_unknown_port_is_refused():
    node = make_node("matmul", {"a": 0, "b": 0, "bias": 0}, {"c": 1})
    with pytest.raises(GraphError, match="'bias' is not a port of MatmulAttributes, expected a, b"):
        check(graph([tensor(0, [2, 2]), tensor(1, [2, 2])], [node]))


def test_a_made_node_with_an_unknown_parameter_is_refused():
    node = pointwise("neg", [0], 1, slope=1)
    with pytest.raises(GraphError, match="slope: is not a parameter of PointwiseAttributes"):
        check(graph([tensor(0, [2]), tensor(1, [2])], [node]))


def test_a_made_node_with_a_parameter_of_nan_is_refused():
    node = pointwise("relu_fwd", [0], 1, relu_upper_clip=float("nan"))
    with pytest.raises(GraphError, match="relu_upper_clip: is nan, expected a finite number"):
        check(graph([tensor(0, [2]), tensor(1, [2])], [node]))


def test_a_made_node_of_an_unknown_type_is_refused():
    node = Node("Pooling", "", "float", {"x": 0}, {"y": 1}, {})
    with pytest.raises(GraphError, match=r"nodes\[0\]\.type: is 'Pooling'"):
        check(graph([tensor(0, [2]), tensor(1, [2])], [node]))


def test_an_error_carries_place_and_fault_apart():
    node = pointwise("neg", [0], 5)
    with pytest.raises(GraphError) as caught:
        check(graph([tensor(0, [2])], [node]), "g.json")
    assert caught.value.where == "g.json: nodes[0].outputs.out_0_tensor_uid"
    assert caught.value.what == "is 5, which is not a tensor of this graph (uids: 0)"


def test_a_good_graph_comes_back_as_it_is():
    assert check(conv_bias_relu()) == conv_bias_relu()


def test_every_hint_of_every_port_is_explained():
    ports = [port for row in OPERATIONS.values() for port in (*row.inputs, *row.outputs)]
    used = {port.hint for port in ports} | {h for m in POINTWISE_MODES.values() for h in m.hints}
    assert used <= HINTS.keys()
    assert HINTS.keys() <= used


@pytest.mark.parametrize(
    ("x", "scale", "inv_rms", "axes"),
    [
        ((2, 3, 4), (1, 1, 4), None, (2,)),
        ((2, 3, 4), (4,), None, (2,)),
        ((2, 3, 4), (3, 4), None, (1, 2)),
        ((2, 3, 4), (2, 3, 4), None, (1, 2)),
        ((2, 3, 4, 4), (1, 3, 1, 1), None, (2, 3)),
        ((2, 3, 4, 4), (1, 3, 1, 1), (2, 3, 1, 1), (2, 3)),
        ((2, 3, 4, 4), (1, 3, 1, 1), (1, 3, 1, 1), (0, 2, 3)),
    ],
)
def test_axes_of_rms_norm_follow_from_its_shapes(x, scale, inv_rms, axes):
    assert rmsnorm_axes(x, scale, inv_rms) == axes


def grouped(mode, index, ks=None, output=(1, 6, 5), rows=6):
    dims = {"token": (1, rows, 4), "weight": (2, 4, 5), "first_token_offset": (2, 1, 1)}
    dims |= {"token_index": index, **({} if ks is None else {"token_ks": ks}), "output": output}
    kinds = {"token": "float", "weight": "float", "output": "float"}
    tensors = [
        tensor(i, shape, kinds.get(port, "int32")) for i, (port, shape) in enumerate(dims.items())
    ]
    uids = {port: i for i, port in enumerate(dims)}
    result = {"output": uids.pop("output")}
    node = make_node("moe_grouped_matmul", uids, result, {"mode": mode, "top_k": 2})
    return graph(tensors, [node])


@pytest.mark.parametrize(
    ("made", "saying"),
    [
        (grouped("gather", (1, 3, 1)), r"has dims \[1, 6, 5\], expected \[1, 3, 5\]"),
        (grouped("gather", (2, 3, 1)), r"has dims \[2, 3, 1\], expected one row of numbers"),
        (
            grouped("scatter", (1, 5, 1), (1, 6, 1)),
            "5 elements, expected one for each",
        ),
        (
            grouped("scatter", (1, 6, 1), (1, 5, 1)),
            "5 elements, expected one for each",
        ),
    ],
)
def test_indices_that_do_not_fit_the_rows_are_refused(made, saying):
    with pytest.raises(GraphError, match=saying):
        check(made)


def test_indices_that_fit_are_allowed():
    for made in (grouped("gather", (1, 6, 1)), grouped("scatter", (6,), (1, 6, 1), (1, 9, 5))):
        assert check(made) == made


def test_a_stride_that_no_memory_has_is_refused_even_of_a_dim_of_1():
    wide = tensor(1, [1, 4], strides=(2**63 - 1, 1))
    with pytest.raises(GraphError, match=r"tensors\[0\].strides: is .*, expected at most"):
        check(graph([wide, tensor(2, [1, 4])], [pointwise("neg", [1], 2)]))


@pytest.mark.parametrize(
    "clips",
    [
        {"relu_lower_clip": 2.0, "relu_upper_clip": 1.0},
        {"relu_upper_clip": -1.0},
    ],
)
@pytest.mark.parametrize("mode", ["relu_fwd", "relu_bwd"])
def test_an_upper_clip_below_the_lower_one_is_refused(mode, clips):
    operands = [1] if mode == "relu_fwd" else [1, 1]
    whole = graph([tensor(1, [4]), tensor(2, [4])], [pointwise(mode, operands, 2, **clips)])
    with pytest.raises(GraphError, match=r"relu_upper_clip: is .*, below the lower clip"):
        check(whole)
