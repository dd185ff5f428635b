"""Sweeps: a template and its cases, filled in by hipDNN's rules."""

import copy
import json

import pytest

from bench_run.errors import GraphError
from bench_run.graph.format.hipdnn_json import to_json
from bench_run.graph.sources.load import load
from tests.bench_run.graph.builders import graph, pointwise, tensor


def template():
    value = to_json(graph([tensor(1, [2]), tensor(2, [2])], [pointwise("relu_fwd", [1], 2)]))
    for entry in value["tensors"]:
        entry |= {key: f"${{case.{key}}}" for key in ("dims", "strides", "data_type")}
    value["io_data_type"] = "${case.io_data_type}"
    value["nodes"][0]["inputs"]["relu_upper_clip"] = "${case.attributes.clip}"
    return value


def case(name, length=3, **more):
    entries = [
        {"uid": uid, "dims": [length], "strides": [1], "data_type": "half"} for uid in (1, 2)
    ]
    values = {"io_data_type": "half", "attributes": {"clip": 6.0}, "tensors": entries}
    return {"id": name, "values": values, "metadata": {"format_version": 1}, **more}


def put(folder, cases, value=None, names=("graph.template.json", "sweep.json")):
    folder.mkdir(exist_ok=True)
    (folder / names[0]).write_text(json.dumps(template() if value is None else value))
    (folder / names[1]).write_text(json.dumps({"version": 1, "cases": cases}))
    return str(folder)


def error_of(report):
    return str(report.failures[0].error)


def test_a_sweep_folder_gives_a_graph_for_each_case(tmp_path):
    report = load([put(tmp_path, [case("small"), case("large", 9)])])
    found = {loaded.path: loaded.graph.tensors[0].dims for loaded in report.graphs}
    path = f"{tmp_path}/graph.template.json"
    assert found == {f"{path}#small": (3,), f"{path}#large": (9,)}


def test_template_and_cases_of_one_name_side_by_side_are_a_sweep(tmp_path):
    put(tmp_path, [case("one")], names=("x.template.json", "x.sweep.json"))
    assert load([f"{tmp_path}/x.template.json"]).graphs[0].path.endswith("x.template.json#one")


def test_a_case_list_named_alone_is_refused(tmp_path):
    put(tmp_path, [case("one")], names=("x.template.json", "x.sweep.json"))
    with pytest.raises(GraphError, match="is the case list of a sweep template, not a graph"):
        load([f"{tmp_path}/x.sweep.json"])


def test_a_dotted_path_reaches_into_the_values(tmp_path):
    loaded = load([put(tmp_path, [case("one")])]).graphs[0]
    assert loaded.graph.nodes[0].attributes["relu_upper_clip"] == 6.0


def test_the_tensors_entry_comes_before_the_values(tmp_path):
    value = template()
    value["tensors"][0]["name"] = "${case.label}"
    value["tensors"][1]["name"] = "${case.label}"
    one = case("one")
    one["values"]["label"] = "common"
    one["values"]["tensors"][0]["label"] = "own"
    loaded = load([put(tmp_path, [one], value)]).graphs[0]
    assert [t.name for t in loaded.graph.tensors] == ["own", "common"]


def test_dims_come_from_the_tensors_entry_alone(tmp_path):
    one = case("one")
    del one["values"]["tensors"][1]["dims"]
    one["values"]["dims"] = [3]
    report = load([put(tmp_path, [one, case("two")])])
    assert "tensors[1].dims: the case gives no dims for tensor 2" in error_of(report)
    assert len(report.graphs) == 1


def test_a_missing_value_drops_that_case_only(tmp_path):
    one = case("one")
    del one["values"]["attributes"]
    report = load([put(tmp_path, [one, case("two")])])
    assert "#one: nodes[0].inputs.relu_upper_clip: the case gives no attributes.clip" in error_of(
        report
    )
    assert [loaded.path[-3:] for loaded in report.graphs] == ["two"]


def test_a_value_that_nothing_asks_for_is_pointed_out(tmp_path):
    one = case("one")
    one["values"]["hue"] = "blue"
    loaded = load([put(tmp_path, [one])]).graphs[0]
    assert loaded.notes == ("the case's value hue is not used",)


def test_patches_set_and_then_remove(tmp_path):
    value = template()
    value["tensors"][0]["hue"] = "blue"
    patches = [{"uid": 1, "set": {"name": "patched", "alignment": 64}, "remove": ["hue"]}]
    loaded = load([put(tmp_path, [case("one", tensor_patches=patches)], value)]).graphs[0]
    first = loaded.graph.tensors[0]
    assert (first.name, first.alignment, first.extras) == ("patched", 64, {})


def test_the_metadata_of_the_case_comes_with_its_graph(tmp_path):
    one = case("one", metadata={"format_version": 1, "seed": 7})
    assert load([put(tmp_path, [one])]).graphs[0].metadata["seed"] == 7


@pytest.mark.parametrize(
    ("more", "place"), [({}, "golden/one"), ({"golden": {"path": "else/where"}}, "else/where")]
)
def test_golden_data_of_a_case_are_found(tmp_path, more, place):
    put(tmp_path, [case("one", **more)])
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "tensor1.bin").write_bytes(b"")
    (tmp_path / place / "stray.json").write_text("{}")
    report = load([str(tmp_path)])
    assert [loaded.golden for loaded in report.graphs] == [tmp_path / place]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": ""}, "cases[0].id: is '', expected a text that is not empty"),
        ({"metadata": None}, "cases[0].metadata: is null, expected an object"),
        ({"golden": {"path": "../up"}}, "golden.path: is '../up', expected a path inside"),
        ({"tensor_patches": [{"set": {}}]}, "tensor_patches[0].uid: is null"),
        ({"tensor_patches": [{"uid": 5}]}, "the template has no tensor 5"),
    ],
)
def test_a_broken_case_is_refused_with_its_place(tmp_path, change, message):
    assert message in error_of(load([put(tmp_path, [case("one") | change])]))


def test_ids_of_cases_must_differ(tmp_path):
    report = load([put(tmp_path, [case("one"), copy.deepcopy(case("one"))])])
    assert "cases[1].id: is 'one', as in cases[0]; ids must differ" in error_of(report)
