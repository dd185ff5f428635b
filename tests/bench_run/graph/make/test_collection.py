"""The files of graphs/ are what their list of op specs makes, byte for byte."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench_run.errors import UsageError
from bench_run.graph.format.hipdnn_json import read_graph, write_graph
from bench_run.graph.make import make_graphs
from bench_run.graph.make.collection import collection_files, write_collection
from bench_run.graph.make.spec import NODES
from bench_run.graph.sources.suites import read_suite
from bench_run.graph.work import work
from bench_run.tensors.golden import find_golden
from tests.doc_tables import PAGES, filled_in

GRAPHS = Path(__file__).parents[4] / "graphs"
LIST = GRAPHS / "collection.txt"


def _stored() -> dict[str, bytes]:
    paths = sorted(path for path in GRAPHS.rglob("*.json") if path.name != "manifest.json")
    return {path.relative_to(GRAPHS).as_posix(): path.read_bytes() for path in paths}


def test_the_stored_files_are_those_of_the_list_byte_for_byte() -> None:
    assert _stored() == dict(sorted(collection_files(LIST.read_text(), "list").items()))


def test_every_stored_graph_survives_reading_and_writing() -> None:
    changed = [n for n, data in _stored().items() if write_graph(read_graph(data, n)) != data]
    assert changed == []


def test_every_stored_file_is_named_after_its_graph() -> None:
    named = {n: data for n, data in _stored().items() if not n.startswith("sample_")}
    wrong = [n for n, data in named.items() if read_graph(data, n).name != Path(n).stem]
    assert wrong == []


SAMPLES = {
    "conv_fwd": [(16, 16, 16, 16), (16, 16, 3, 3), (16, 16, 16, 16)],
    "matmul": [(256, 512), (512, 1024), (256, 1024)],
    "relu": [(64, 128, 56, 56)] * 2,
    "add": [(128, 256, 14, 14)] * 3,
    "batchnorm": [(32, 64, 28, 28), *[(1, 64, 1, 1)] * 4, (32, 64, 28, 28)],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples_of_dnn_benchmarking_have_its_names_and_shapes(name) -> None:
    graph = read_graph(_stored()[f"sample_{name}.json"], name)
    dims = [tuple(tensor.dims) for tensor in (*graph.inputs, *graph.outputs)]
    assert SAMPLES[name] == dims


def test_the_folder_is_a_matter_of_seconds() -> None:
    """At most three minutes on two cores with NumPy, which does some 20 GFLOP/s."""
    counts = [work(read_graph(data, name)).flops or 0 for name, data in _stored().items()]
    assert len(counts) <= 40
    assert max(counts) < 1e9


def test_a_graph_of_the_folder_has_golden_tensors() -> None:
    (graph,) = (GRAPHS / "golden").glob("*.json")
    assert find_golden(str(graph), None) is not None


def test_the_resnet_suites_hold_every_distinct_convolution() -> None:
    for name in ("resnet50", "resnet50-batch32"):
        ops = [e.op for e in read_suite(GRAPHS / "suites" / f"{name}.toml").layers]
        assert len({op for op in ops if op.startswith("conv_fwd")}) == 23


def test_files_are_written_where_the_list_says(tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("# one\n\nfew relu: n=1..2 c=3 h=4 w=4\n")
    assert write_collection(listed, tmp_path) == 2
    assert sorted(path.stem for path in (tmp_path / "few").iterdir()) == [
        "relu_n1c3h4w4_float_nchw",
        "relu_n2c3h4w4_float_nchw",
    ]


def test_a_line_without_a_spec_is_refused_with_its_place() -> None:
    with pytest.raises(UsageError, match="list:2: expected FOLDER SPEC"):
        collection_files("a relu\nsmoke\n", "list")


@pytest.mark.parametrize("path", sorted((GRAPHS / "suites").iterdir()), ids=lambda path: path.name)
def test_a_suite_of_the_folder_names_only_what_is_there(path: Path) -> None:
    suite = read_suite(path)
    for entry in suite.layers:
        assert entry.op is not None or (entry.file is not None and entry.file.exists())
        assert entry.op is None or make_graphs(entry.op, "small")


def test_the_convolutions_of_the_resnet_suites_occur_53_times() -> None:
    for name in ("resnet50", "resnet50-batch32"):
        entries = read_suite(GRAPHS / "suites" / f"{name}.toml").layers
        convolutions = [e for e in entries if "conv_fwd" in (e.op or str(e.file))]
        assert sum(entry.repeat for entry in convolutions) == 53


def test_the_readme_names_every_folder_and_suite() -> None:
    text = (GRAPHS / "README.md").read_text()
    names = [f"`{path.name}/`" for path in GRAPHS.iterdir() if path.is_dir()]
    names += [f"`{path.name}`" for path in (GRAPHS / "suites").iterdir()]
    names += [f"`{path.name}`" for path in GRAPHS.glob("*.json")]
    assert [name for name in names if name not in text] == []


def test_graphs_are_equal_after_the_round_trip_through_the_file() -> None:
    (graph,) = make_graphs("conv_fwd+bias+relu: n=2 c=4 h=8 w=8 k=4")
    again = read_graph(write_graph(graph), "file")
    assert dataclasses.asdict(again) == dataclasses.asdict(graph)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_holds_the_tables_of_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert filled_in(text) == text, "make tables writes them"


def test_the_readme_names_every_operation() -> None:
    text = (GRAPHS / "README.md").read_text(encoding="utf-8")
    assert [name for name in NODES if f"`{name}`" not in text] == []
