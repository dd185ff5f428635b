"""The graphs that come with the project, and how long many of them take to load."""

import time

import pytest

from bench_run.graph.format.hipdnn_json import read_graph, write_graph
from bench_run.graph.sources.load import load
from tests.bench_run.graph.builders import ROOT, conv_bias_relu

GRAPHS = ROOT / "graphs"


def test_our_graphs_load_without_a_failure_or_a_note():
    report = load([str(GRAPHS)])
    assert report.graphs
    assert report.failures == ()
    assert report.notes == ()


def test_our_graphs_survive_writing_and_reading():
    for loaded in load([str(GRAPHS)]).graphs:
        assert read_graph(write_graph(loaded.graph), loaded.path) == loaded.graph


@pytest.mark.slow
def test_ten_thousand_files_load_in_seconds(tmp_path):
    text = write_graph(conv_bias_relu())
    for index in range(10_000):
        (tmp_path / f"{index}.json").write_bytes(text)
    begin = time.perf_counter()
    report = load([str(tmp_path)])
    assert len(report.graphs) == 10_000
    assert time.perf_counter() - begin < 30
