"""`bench-run coverage`: which operations engines support, found by running them."""

from __future__ import annotations

from bench_run.commands.coverage import cover, coverage_text, rows_of_operations, small_graphs
from bench_run.graph.make.spec import NODES, OPS
from bench_run.graph.operations import OPERATIONS, POINTWISE_MODES

GRAPHS = [graph for name in NODES for graph in small_graphs(OPS[name])]


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
