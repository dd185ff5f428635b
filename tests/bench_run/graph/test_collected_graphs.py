"""The collected graphs: all load, and nothing in them is lost on the way back to JSON."""

import json

import pytest

from bench_run.graph.dtypes import ALIASES
from bench_run.graph.format.hipdnn_json import read_graph, to_json, write_graph
from bench_run.graph.sources.load import load
from tests.bench_run.graph.builders import COLLECTED, COLLECTION

every_graph = pytest.mark.parametrize("path", COLLECTED, ids=lambda path: path.stem)

RENAMED = {
    "io_type": "io_data_type",
    "compute_type": "compute_data_type",
    "intermediate_type": "intermediate_data_type",
}
FULL_DIALECT_A = ("conv_bias_1d_expanded", "mx_matmul_16x24x64", "mx_matmul_32x8x96")


def leaves(node):
    """Every datum of a node by key, wherever its dialect put it."""
    found = {}
    for key, value in node.items():
        found |= value if isinstance(value, dict) else {key: value}
    return found


def same(key, value, back):
    if isinstance(value, str) and isinstance(back, int):
        return key == "forward_phase" and ("NOT_SET", "INFERENCE", "TRAINING")[back] == value
    if isinstance(value, str):
        return ALIASES.get(value.lower(), value.lower()) == back.lower()
    return value == back


def test_the_folder_gives_every_graph_and_the_sweeps_cases():
    report = load([str(COLLECTION)])
    assert not report.failures
    cases = [loaded.path for loaded in report.graphs if "#" in loaded.path]
    assert len(report.graphs) == len(COLLECTED) + len(cases)
    assert cases == [str(COLLECTION / "conv_bias_1d.template.json") + "#strided"]


def test_templates_without_cases_are_left_out_with_a_note():
    notes = load([str(COLLECTION)]).notes
    assert len(notes) == 7
    assert all("is a sweep template, left out" in note for note in notes)


def test_metadata_beside_a_graph_comes_with_it():
    report = load([str(COLLECTION / "sdpa_with_metadata.json")])
    assert report.graphs[0].metadata["seed"] == 7


def test_the_expanded_sweep_is_the_graph_that_was_expanded_by_hand():
    case = load([str(COLLECTION / "conv_bias_1d.template.json")]).graphs[0]
    by_hand = load([str(COLLECTION / "conv_bias_1d_expanded.json")]).graphs[0]
    assert case.graph == by_hand.graph


@every_graph
def test_reading_what_was_written_gives_the_same_graph(path):
    graph = read_graph(path.read_bytes(), path.name)
    text = write_graph(graph)
    assert read_graph(text, path.name) == graph
    assert write_graph(read_graph(text, path.name)) == text


@every_graph
def test_no_datum_of_the_graph_itself_is_lost(path):
    original = json.loads(path.read_bytes())
    back = to_json(read_graph(path.read_bytes(), path.name))
    for key, value in original.items():
        if key not in ("tensors", "nodes"):
            assert same(key, value, back[RENAMED.get(key, key)])


@every_graph
def test_no_datum_of_a_tensor_is_lost(path):
    original = json.loads(path.read_bytes())
    back = to_json(read_graph(path.read_bytes(), path.name))
    for before, after in zip(original["tensors"], back["tensors"], strict=True):
        lost = {key for key, value in before.items() if not same(key, value, after[key])}
        assert lost == set()


@every_graph
def test_no_datum_of_a_node_is_lost(path):
    original = json.loads(path.read_bytes())
    back = to_json(read_graph(path.read_bytes(), path.name))
    for before, after in zip(original["nodes"], back["nodes"], strict=True):
        kept = leaves(after)
        said = {key: value for key, value in leaves(before).items() if value is not None}
        if said.get("compute_data_type") == "unset":
            said["compute_data_type"] = original["compute_data_type"]
        lost = {key for key, value in said.items() if not same(key, value, kept[key])}
        assert lost == set()


@pytest.mark.parametrize("name", FULL_DIALECT_A)
def test_a_file_in_the_form_of_the_cpp_serialiser_comes_back_key_for_key(name):
    text = (COLLECTION / f"{name}.json").read_bytes()
    assert to_json(read_graph(text, name)) == json.loads(text)
