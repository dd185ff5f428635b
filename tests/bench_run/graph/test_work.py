"""Flops, bytes and names of graphs, against numbers worked out by hand."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.graph.operations import BY_NAME, POINTWISE_MODES, make_node
from bench_run.graph.operations.pointwise import broadcast_dims
from bench_run.graph.operations.sdpa import Band, visible_pairs
from bench_run.graph.work import family, flops, main_data_type, moved_bytes, work
from bench_run.reference.pointwise import MODES
from tests.bench_run.graph.builders import CONV, conv_bias_relu, graph, pointwise, tensor


def one(name, shapes, inputs, outputs, attributes=None, data_type="float"):
    """A graph of one node; ports take the shapes in order."""
    ports = [*inputs, *outputs]
    tensors = [tensor(i, dims, data_type) for i, dims in enumerate(shapes)]
    uid = {port: i for i, port in enumerate(ports)}
    node = make_node(name, {p: uid[p] for p in inputs}, {p: uid[p] for p in outputs}, attributes)
    return graph(tensors, [node])


def test_a_convolution_counts_a_product_and_a_sum_for_each_tap():
    whole = one("conv_fwd", [[2, 4, 5, 5], [6, 2, 3, 3], [2, 6, 5, 5]], ["x", "w"], ["y"], CONV)
    assert flops(whole) == 2 * (2 * 6 * 5 * 5) * (2 * 3 * 3)


@pytest.mark.parametrize(
    ("name", "inputs", "output"),
    [("conv_dgrad", ["dy", "w"], "dx"), ("conv_wgrad", ["x", "dy"], "dw")],
)
def test_gradients_of_a_convolution_count_like_it(name, inputs, output):
    shapes = {
        "x": [2, 4, 5, 5],
        "dx": [2, 4, 5, 5],
        "w": [6, 4, 3, 3],
        "dw": [6, 4, 3, 3],
        "dy": [2, 6, 5, 5],
    }
    whole = one(name, [shapes[p] for p in (*inputs, output)], inputs, [output], CONV)
    assert flops(whole) == 2 * (2 * 6 * 5 * 5) * (4 * 3 * 3)


def test_a_matrix_product_counts_two_for_each_of_its_steps():
    whole = one("matmul", [[3, 4, 8], [1, 8, 2], [3, 4, 2]], ["a", "b"], ["c"])
    assert flops(whole) == 2 * 3 * 4 * 2 * 8


def test_a_fused_graph_counts_the_sum_of_its_nodes():
    assert flops(conv_bias_relu()) == 2 * 300 * 36 + 300 + 300


def attention(queries, keys, **attributes):
    shapes = [[2, 4, queries, 8], [2, 2, keys, 8], [2, 2, keys, 6], [2, 4, queries, 6]]
    return one("sdpa", shapes, ["q", "k", "v"], ["o"], attributes)


def test_attention_counts_both_products_of_each_pair():
    assert flops(attention(5, 7)) == 2 * (2 * 4 * 5 * 7) * (8 + 6)


def test_causal_attention_counts_only_the_pairs_that_are_left():
    pairs = 1 + 2 + 3 + 4 + 5
    assert flops(attention(5, 7, causal_mask=True)) == 2 * (2 * 4 * pairs) * (8 + 6)


bounds = st.none() | st.integers(0, 12)


@given(st.integers(1, 9), st.integers(1, 9), bounds, bounds, st.booleans())
def test_pairs_of_a_band_are_counted_as_one_by_one(queries, keys, left, right, bottom):
    shift = keys - queries if bottom else 0
    expected = sum(
        (right is None or j <= i + shift + right) and (left is None or j >= i + shift - left)
        for i in range(queries)
        for j in range(keys)
    )
    assert visible_pairs(queries, keys, Band(left, right, bottom)) == expected


def test_attention_over_lengths_known_at_run_time_has_unknown_flops():
    shapes = [[2, 4, 5, 8], [2, 4, 5, 8], [2, 4, 5, 8], [2], [2, 4, 5, 8]]
    whole = one("sdpa", shapes, ["q", "k", "v", "seq_len_kv"], ["o"])
    assert work(whole).flops is None
    assert work(whole).intensity is None


def test_a_custom_operation_makes_the_sum_unknown():
    node = make_node("custom_op", {"input_0": 1}, {"output_0": 2}, {"custom_op_id": "x"})
    tensors = [tensor(1, [4]), tensor(2, [4]), tensor(3, [4])]
    assert flops(graph(tensors, [node, pointwise("neg", [2], 3)])) is None


def test_bytes_are_those_of_tensors_in_memory_once_each():
    expected = 4 * (prod([2, 4, 5, 5]) + prod([6, 4, 3, 3]) + 6 + prod([2, 6, 5, 5]))
    assert moved_bytes(conv_bias_relu()) == expected


def test_constants_and_idle_tensors_move_no_bytes():
    tensors = [tensor(1, [8]), tensor(2, [1], value=2.0), tensor(3, [8]), tensor(4, [99])]
    assert moved_bytes(graph(tensors, [pointwise("mul", [1, 2], 3)])) == 64


def test_gaps_of_strides_move_no_bytes():
    tensors = [tensor(1, [4, 4], strides=(8, 1)), tensor(2, [4, 4])]
    assert moved_bytes(graph(tensors, [pointwise("neg", [1], 2)])) == 128


def test_intensity_is_flops_over_bytes():
    whole = one("matmul", [[4, 8], [8, 2], [4, 2]], ["a", "b"], ["c"], data_type="half")
    assert work(whole).intensity == 128 / (2 * (32 + 16 + 8))


def test_families_join_names_and_call_a_spread_vector_a_bias():
    assert family(conv_bias_relu()) == "conv_fwd+bias+relu"


def test_adding_a_whole_tensor_is_no_bias():
    tensors = [tensor(i, [4, 4]) for i in range(4)]
    whole = graph(tensors, [pointwise("neg", [0], 1), pointwise("add", [1, 2], 3)])
    assert family(whole) == "neg+add"


def test_adding_a_vector_to_an_input_is_no_bias():
    whole = graph(
        [tensor(0, [4, 4]), tensor(1, [4]), tensor(2, [4, 4])], [pointwise("add", [0, 1], 2)]
    )
    assert family(whole) == "add"


def test_the_main_type_is_that_of_the_first_operand():
    tensors = [tensor(1, [4], "bfloat16"), tensor(2, [4], "float")]
    assert main_data_type(graph(tensors, [pointwise("neg", [1], 2)])) == "bfloat16"


def test_every_mode_counts_no_less_than_nothing_and_names_its_operands():
    for name, mode in POINTWISE_MODES.items():
        assert mode.flops >= 0, name
        assert len(mode.hints) <= mode.arity, name
        assert mode.backward == name.endswith("_bwd"), name


def test_the_table_and_the_reference_know_the_same_modes_and_operands():
    computed = {name: arity for name, (arity, _) in MODES.items()} | {"gen_index": 1}
    assert {name: mode.arity for name, mode in POINTWISE_MODES.items()} == computed


def test_every_parameter_a_mode_looks_at_is_one_of_the_node():
    known = {parameter.name for parameter in BY_NAME["pointwise"].parameters}
    assert all(set(mode.attributes) <= known for mode in POINTWISE_MODES.values())


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (((2, 3), (3,)), (2, 3)),
        (((1, 6, 1, 1), (2, 6, 5, 5)), (2, 6, 5, 5)),
        (((2, 1), (1, 3)), (2, 3)),
        (((2, 3), (2, 4)), None),
    ],
)
def test_operands_spread_by_lengths_of_1_from_the_right(shapes, expected):
    assert broadcast_dims(*shapes) == expected
