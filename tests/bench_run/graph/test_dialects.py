"""One graph in the spellings that are in use gives one value."""

import json

import pytest

from bench_run.graph.format.fields import graph_notes
from bench_run.graph.format.hipdnn_json import read_graph, to_json
from bench_run.graph.operations import make_node
from tests.bench_run.graph.builders import conv_bias_relu, graph, tensor


def written(whole):
    return json.loads(json.dumps(to_json(whole)))


def read(value):
    return read_graph(json.dumps(value).encode(), "f.json")


def pool():
    node = make_node(
        "resample",
        {"x": 1},
        {"y": 2},
        {
            "pre_padding": (0, 0),
            "post_padding": (0, 0),
            "stride": (2, 2),
            "window": (2, 2),
            "resample_mode": "maxpool",
            "padding_mode": "zero_pad",
        },
    )
    return graph([tensor(1, [1, 2, 4, 4]), tensor(2, [1, 2, 2, 2])], [node])


def in_objects(node):
    """Dialect B: uids in inputs and outputs, parameters in attributes, enums upper case."""
    own = ("type", "name", "compute_data_type")
    moved = {key: node.pop(key) for key in list(node) if key not in own}
    node["inputs"] = {"x_tensor_uid": moved.pop("x_tensor_uid")}
    node["outputs"] = {"y_tensor_uid": moved.pop("y_tensor_uid")}
    node["attributes"] = {k: v.upper() if isinstance(v, str) else v for k, v in moved.items()}


def in_attributes(node):
    """Dialect C: everything in attributes."""
    own = ("type", "name", "compute_data_type")
    node["attributes"] = {key: node.pop(key) for key in list(node) if key not in own}


@pytest.mark.parametrize("rearrange", [in_objects, in_attributes])
def test_data_are_found_wherever_the_dialect_puts_them(rearrange):
    value = written(pool())
    rearrange(value["nodes"][0])
    assert read(value) == pool()


@pytest.mark.parametrize("spelling", ["maxpool", "MAXPOOL", "MaxPool", 1])
def test_enums_are_read_in_any_case_and_as_numbers(spelling):
    value = written(pool())
    value["nodes"][0]["resample_mode"] = spelling
    assert read(value) == pool()


def test_former_keys_of_the_graph_are_read():
    value = written(pool())
    for key in ("io", "intermediate", "compute"):
        value[f"{key}_type"] = value.pop(f"{key}_data_type")
    assert read(value) == pool()


def test_keys_that_may_be_missing_have_their_defaults():
    value = written(pool())
    for key in ("name", "compute_data_type"):
        del value["nodes"][0][key]
    for entry in value["tensors"]:
        for key in ("virtual", "alignment", "is_runtime_pass_by_value"):
            del entry[key]
    assert read(value) == pool()


@pytest.mark.parametrize(
    ("spelling", "name"),
    [("float16", "half"), ("FLOAT", "float"), ("bf16", "bfloat16"), ("fp8_e4m3fn", "fp8_e4m3")],
)
def test_other_spellings_of_data_types_are_read(spelling, name):
    value = written(pool())
    value["tensors"][0]["data_type"] = spelling
    assert read(value).tensors[0].data_type == name


def test_unset_types_come_from_the_graph_by_what_the_tensor_is():
    value = written(conv_bias_relu())
    value |= {"io_data_type": "half", "intermediate_data_type": "double"}
    for entry in value["tensors"]:
        entry["data_type"] = "unset"
    types = {t.data_type: t.virtual for t in read(value).tensors}
    assert types == {"half": False, "double": True}


def test_uid_zero_is_a_uid_like_others():
    value = written(pool())
    value["tensors"][0]["uid"] = value["nodes"][0]["x_tensor_uid"] = 0
    assert read(value).nodes[0].inputs == {"x": 0}


def test_nodes_in_any_order_are_put_in_topological_order():
    value = written(conv_bias_relu())
    value["nodes"].reverse()
    assert read(value) == conv_bias_relu()


def test_a_byte_order_mark_is_no_fault():
    text = b"\xef\xbb\xbf" + json.dumps(written(pool())).encode()
    assert read_graph(text, "f.json") == pool()


def test_unknown_keys_are_kept_and_pointed_out():
    value = written(pool())
    value["hue"] = "blue"
    value["tensors"][1]["pitch"] = 3
    value["nodes"][0]["attributes"] = {"taste": "sour", "_comment": "silent"}
    whole = read(value)
    assert to_json(whole)["nodes"][0]["attributes"] == {"taste": "sour", "_comment": "silent"}
    assert graph_notes(whole) == (
        "hue is not known and has no effect",
        "tensors[1].pitch is not known and has no effect",
        "nodes[0].attributes.taste is not known and has no effect",
    )


def test_a_tensor_that_no_node_uses_is_pointed_out():
    value = written(pool())
    value["tensors"].append(value["tensors"][0] | {"uid": 77, "name": "idle"})
    assert graph_notes(read(value)) == ("tensors[2] (uid 77 'idle') is used by no node",)


def test_of_very_many_unused_tensors_the_first_are_named_and_the_rest_counted():
    value = written(pool())
    value["tensors"] += [value["tensors"][0] | {"uid": 100 + i} for i in range(5000)]
    notes = graph_notes(read(value))
    assert (21, "4,980 more tensors are used by no node") == (len(notes), notes[-1])
