"""Graph → JSON → Graph, and what the strict reader of hipDNN finds in that JSON."""

import json

import pytest
from hypothesis import given

from bench_run.graph.check import check
from bench_run.graph.format.hipdnn_json import read_graph, to_json, write_graph
from bench_run.graph.operations import BY_NAME, OPERATIONS, make_node
from tests.bench_run.graph.builders import conv_bias_relu, graph, graphs, tensor


@given(graphs())
def test_a_generated_graph_survives_writing_and_reading(drawn):
    canonical = check(drawn)
    assert read_graph(write_graph(canonical), "generated") == canonical


@given(graphs())
def test_equal_graphs_give_equal_bytes(drawn):
    canonical = check(drawn)
    again = read_graph(write_graph(canonical), "generated")
    assert write_graph(again) == write_graph(canonical)


def test_every_tensor_says_whether_it_is_virtual_and_passed_by_value():
    for written in to_json(conv_bias_relu())["tensors"]:
        assert {"virtual", "is_runtime_pass_by_value", "alignment"} <= written.keys()


def test_optional_pointwise_keys_are_there_as_null():
    inputs = to_json(conv_bias_relu())["nodes"][2]["inputs"]
    unused = {key for key, value in inputs.items() if value is None}
    assert unused == {
        "in_1_tensor_uid",
        "in_2_tensor_uid",
        "axis_tensor_uid",
        "relu_lower_clip",
        "relu_upper_clip",
        "relu_lower_clip_slope",
        "swish_beta",
        "elu_alpha",
        "softplus_beta",
    }


def sdpa():
    tensors = [tensor(i, [1, 2, 4, 8]) for i in range(4)]
    node = make_node("sdpa", {"q": 0, "k": 1, "v": 2}, {"o": 3}, {"left_bound": 2})
    return graph(tensors, [node])


def test_attention_has_all_its_keys():
    written = to_json(sdpa())["nodes"][0]
    sizes = [len(written[place]) for place in ("inputs", "outputs", "attributes")]
    assert sizes == [21, 7, 13]


def test_enums_are_written_in_the_case_that_each_operation_wants():
    attributes = to_json(sdpa())["nodes"][0]["attributes"]
    conv = to_json(conv_bias_relu())["nodes"][0]["parameters"]
    assert attributes["diagonal_alignment"] == "TOP_LEFT"
    assert attributes["mma_core_mode"] == "unset"
    assert conv["conv_mode"] == "CROSS_CORRELATION"


def layernorm(name="layernorm", **attributes):
    tensors = [
        tensor(1, [2, 3, 4]),
        tensor(2, [4]),
        tensor(3, [4]),
        tensor(4, [1], "double", value=1e-5),
        tensor(5, [2, 3, 4]),
    ]
    inputs = {"x": 1, "scale": 2, "bias": 3, "epsilon": 4}
    return graph(tensors, [make_node(name, inputs, {"y": 5}, attributes)])


def test_layer_norm_writes_its_phase_as_a_number_and_unused_results_as_null():
    written = to_json(layernorm(normalized_dim_count=1, forward_phase="training"))["nodes"][0]
    assert written["forward_phase"] == 2
    assert written["outputs"] == {
        "y_tensor_uid": 5,
        "mean_tensor_uid": None,
        "inv_variance_tensor_uid": None,
    }


def test_rms_norm_writes_its_phase_as_a_word_and_leaves_unused_results_out():
    written = to_json(layernorm("rmsnorm", forward_phase="training"))["nodes"][0]
    assert written["forward_phase"] == "TRAINING"
    assert written["outputs"] == {"y_tensor_uid": 5}


def test_reduction_is_written_flat():
    node = make_node("reduction", {"in": 1}, {"out": 2}, {"mode": "amax"})
    written = to_json(graph([tensor(1, [2, 3]), tensor(2, [1, 3])], [node]))["nodes"][0]
    assert written == {
        "type": "ReductionAttributes",
        "name": "",
        "compute_data_type": "float",
        "in_tensor_uid": 1,
        "out_tensor_uid": 2,
        "mode": "amax",
        "is_deterministic": False,
    }


def test_custom_operations_keep_the_order_of_their_tensors():
    node = make_node(
        "custom_op",
        {"input_0": 3, "input_1": 1},
        {"output_0": 2},
        {"custom_op_id": "my.op", "data": (1, 255)},
    )
    whole = check(graph([tensor(i, [2]) for i in (1, 2, 3)], [node]))
    written = to_json(whole)["nodes"][0]
    assert written["input_tensor_uids"] == [3, 1]
    assert read_graph(write_graph(whole), "custom") == whole


@pytest.mark.parametrize("code", [0, 1, 56, 126, 184])
def test_a_constant_of_8_bits_is_read_from_its_code_and_written_as_it(code):
    whole = json.loads(write_graph(layernorm(normalized_dim_count=1)))
    whole["tensors"][3] |= {"data_type": "fp8_e4m3", "value_type": "Float8Value", "value": code}
    read = read_graph(json.dumps(whole).encode(), "codes")
    assert to_json(read)["tensors"][3]["value"] == code


def test_a_code_is_the_number_it_stands_for():
    whole = json.loads(write_graph(layernorm(normalized_dim_count=1)))
    whole["tensors"][3] |= {"data_type": "fp8_e4m3", "value_type": "Float8Value", "value": 56}
    assert read_graph(json.dumps(whole).encode(), "codes").tensors[3].value == 1.0


def test_every_type_of_the_format_has_a_row_with_a_name_of_its_own():
    assert len(OPERATIONS) == 23
    assert len(BY_NAME) == 23
