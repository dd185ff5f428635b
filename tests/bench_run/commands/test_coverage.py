"""`bench-run coverage`: which operations engines support, found by running them."""

from __future__ import annotations

import json

import pytest

from bench_run.cli import main
from bench_run.commands.coverage import cover, coverage_text, rows_of_operations, small_graphs
from bench_run.graph.make.spec import NODES, OPS
from bench_run.graph.operations import OPERATIONS, POINTWISE_MODES
from bench_run.graph.sources.load import load
from tests.support import graph_json

GRAPHS = [graph for name in NODES for graph in small_graphs(OPS[name])]


@pytest.mark.long
def test_the_table_has_a_row_for_every_operation_and_a_column_for_every_engine(bench_run_command):
    done = bench_run_command("coverage", "--engine", "numpy")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {"operation", "direction", "numpy"} <= set(lines[0].split())
    assert set(NODES) == {line.split()[0] for line in lines[2 : 2 + len(NODES)]}
    assert f"numpy: {len(NODES)} of {len(NODES)} operations" == lines[-1]


def test_the_operations_of_the_table_cover_every_node_type_but_the_custom_one():
    covered = {node.type for graph in GRAPHS for node in graph.nodes}
    assert {row.type for row in OPERATIONS.values() if row.family != "custom"} == covered


def test_the_operations_of_the_table_cover_every_pointwise_mode():
    covered = {node.attributes.get("operation") for graph in GRAPHS for node in graph.nodes}
    assert set(POINTWISE_MODES) == covered - {None}


def test_a_refusal_is_shown_with_its_reason_and_counted_out():
    def attempt(engine, graph):
        return {engine: "no doubles" if graph.io_data_type == "double" else None}

    (relu,) = (row for row in rows_of_operations() if row.operation == "relu")
    text = coverage_text([cover(relu, ("picky",), attempt)])
    assert "3 of 4" in text
    assert "relu_n2c3h4w5_double_nchw: picky: no doubles" in text
    assert text.endswith("picky: 0 of 1 operations")


def test_each_graph_that_is_named_is_a_row(bench_run_command, small_graph):
    done = bench_run_command("coverage", "--engine", "numpy", small_graph)
    assert done.returncode == 0
    assert "small_add" in done.stdout
    assert done.stdout.strip().endswith("numpy: 1 of 1 graphs")


def test_every_engine_of_hipdnn_is_a_column(bench_run_command, small_graph, root):
    env = {"PYTHONPATH": str(root / "tests" / "doubles")}
    done = bench_run_command("coverage", "-e", "hipdnn:all", small_graph, env=env)
    assert done.returncode == 0
    assert "hipdnn:MIOPEN_ENGINE: 1 of 1 graphs" in done.stdout
    assert "hipdnn:TEST_ENGINE: 1 of 1 graphs" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("place", ["", "@tests/doubles/hipdnn_plugins/engines"])
def test_claims_are_written_for_the_chip_and_hold_a_later_run(tmp_path, root, monkeypatch, place):
    graph = tmp_path / "add.json"
    graph.write_text(json.dumps(graph_json()))
    monkeypatch.syspath_prepend(str(root / "tests" / "doubles"))
    monkeypatch.setenv("PYTHONPATH", str(root / "tests" / "doubles"))
    monkeypatch.chdir(root)
    words = ["coverage", "-e", f"hipdnn:all{place}", str(graph), "--claims", str(tmp_path)]
    assert 1 == main(words)  # nothing tells the chip
    monkeypatch.setattr("bench_run.runner.bundles.chip_of", lambda _: "gfx942")
    assert 0 == main(words)
    told = json.loads((tmp_path / "add.support.json").read_text())
    chips = {"gfx942": ["linux"]}
    assert {"version": 1, "claims": {"MIOPEN_ENGINE": chips, "TEST_ENGINE": chips}} == told
    assert set(told["claims"]) == set(load([str(graph)]).graphs[0].bundle.claims)
    assert 1 == main(words)  # the file is there
    assert 0 == main([*words, "--force"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "name graph files"),
        (("a/g.json", "b/g.json"), "two graphs would be g.support.json"),
        (("a/g.json",), "name engines of hipDNN on one device: --engine hipdnn:all"),
    ],
)
def test_claims_that_would_say_nothing_are_refused_before_anything_is_run(
    tmp_path, monkeypatch, capsys, words, problem
):
    monkeypatch.chdir(tmp_path)
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "g.json").write_text(json.dumps(graph_json()))
    assert 1 == main(["coverage", "-e", "numpy", *words, "--claims", "claims"])
    assert ("", True) == ((shown := capsys.readouterr()).out, f"--claims: {problem}" in shown.err)
