"""What the user names → graphs: files, folders, globs, and what is told apart from graphs."""

import hashlib
import json
import os

import pytest

from bench_run.errors import GraphError
from bench_run.graph.format.hipdnn_json import write_graph
from bench_run.graph.sources.load import load
from tests.bench_run.graph.builders import conv_bias_relu, graph, pointwise, tensor

GOOD = write_graph(conv_bias_relu())
BROKEN = write_graph(graph([tensor(1, [2])], [pointwise("neg", [1], 7)]))


def put(folder, **files):
    """Files by name (``__`` is a folder, ``_json`` the ending); returns the folder as text."""
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_json", ".json").replace("_bin", ".bin")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(folder)


def names(report, folder):
    return [loaded.path.removeprefix(f"{folder}/") for loaded in report.graphs]


def test_a_file_comes_with_its_bytes_and_their_sum(tmp_path):
    path = put(tmp_path, a_json=GOOD) + "/a.json"
    loaded = load([path]).graphs[0]
    assert loaded.graph == conv_bias_relu()
    assert (loaded.path, loaded.text) == (path, GOOD)
    assert loaded.sha256 == hashlib.sha256(GOOD).hexdigest()
    assert loaded.load_ns > 0


def test_a_folder_is_read_to_its_depths_in_sorted_order(tmp_path):
    folder = put(tmp_path, b_json=GOOD, sub__c_json=GOOD, a_json=GOOD, sub__deep__d_json=GOOD)
    assert names(load([folder]), folder) == ["a.json", "b.json", "sub/c.json", "sub/deep/d.json"]


def test_hidden_folders_are_left_out(tmp_path):
    folder = put(tmp_path, a_json=GOOD)
    put(tmp_path / ".git", x_json=GOOD)
    assert names(load([folder]), folder) == ["a.json"]


def test_a_pattern_gives_its_matches_sorted(tmp_path):
    folder = put(tmp_path, b_json=GOOD, a_json=GOOD, sub__c_json=GOOD)
    report = load([f"{folder}/**/[ac].json"])
    assert names(report, folder) == ["a.json", "sub/c.json"]


def test_arguments_keep_their_order_and_a_file_comes_once(tmp_path):
    folder = put(tmp_path, a_json=GOOD, b_json=GOOD)
    report = load([f"{folder}/b.json", folder, f"{folder}/./a.json"])
    assert names(report, folder) == ["b.json", "a.json"]


def test_a_broken_graph_in_a_folder_costs_only_itself(tmp_path):
    folder = put(tmp_path, a_json=GOOD, b_json=BROKEN)
    report = load([folder])
    assert names(report, folder) == ["a.json"]
    assert report.failures[0].path == f"{folder}/b.json"
    assert "is 7, which is not a tensor" in str(report.failures[0].error)


def test_other_json_in_a_folder_is_left_out_with_a_note(tmp_path):
    folder = put(tmp_path, a_json=GOOD, r_json={"schema_version": 1}, s_json=[1])
    assert load([folder]).notes == (
        f"{folder}/r.json is a result document: bench-compare reads it, left out",
        f"{folder}/s.json is not an operation graph: expected an object, left out",
    )


def test_sidecars_of_a_graph_go_without_a_note(tmp_path):
    folder = put(tmp_path, a_json=GOOD)
    put(tmp_path, **{"a.meta_json": {"seed": 3}, "a.support_json": {"version": 1, "claims": {}}})
    report = load([folder])
    assert report.notes == ()
    assert report.graphs[0].metadata == {"seed": 3}


def test_a_broken_sidecar_names_itself(tmp_path):
    folder = put(tmp_path, a_json=GOOD)
    put(tmp_path, **{"a.meta_json": b"{"})
    assert str(load([folder]).failures[0].error).startswith(f"{folder}/a.meta.json: is not JSON")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nowhere.json", "no such file or folder"),
        ("*.nothing", "matches no file"),
        ("empty", "contains no graph"),
        ("others", "contains no graph ("),
    ],
)
def test_places_without_graphs_are_refused(tmp_path, argument, message):
    (tmp_path / "empty").mkdir()
    put(tmp_path / "others", r_json={"schema_version": 1})
    with pytest.raises(GraphError) as caught:
        load([f"{tmp_path}/{argument}"])
    assert str(caught.value).startswith(f"{tmp_path}/{argument}: {message}")


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(GraphError, match="is not a regular file"):
        load([f"{tmp_path}/pipe.json"])


def test_a_dangling_link_in_a_folder_costs_only_itself(tmp_path):
    folder = put(tmp_path, a_json=GOOD)
    (tmp_path / "b.json").symlink_to("nowhere")
    assert "cannot be read" in str(load([folder]).failures[0].error)


def test_golden_tensors_in_a_folder_of_their_own_are_found(tmp_path):
    folder = put(tmp_path, a_json=GOOD)
    put(tmp_path / "a.golden", manifest_json={}, x_bin=b"1")
    report = load([folder])
    assert [loaded.golden for loaded in report.graphs] == [tmp_path / "a.golden"]


@pytest.mark.parametrize("argument", ["", "/a.json", "/*.json"])
def test_golden_tensors_beside_the_graph_are_found(tmp_path, argument):
    folder = put(tmp_path, a_json=GOOD, b_json=GOOD)
    put(tmp_path, **{"a.tensor1_bin": b"1"})
    golden = {loaded.path: loaded.golden for loaded in load([folder + argument]).graphs}
    assert golden[f"{folder}/a.json"] == tmp_path
    assert golden.get(f"{folder}/b.json") is None


def test_nothing_of_an_empty_list_is_nothing():
    assert load([]).graphs == ()
