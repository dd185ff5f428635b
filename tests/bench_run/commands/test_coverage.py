"""`bench-run coverage`: which operations engines support, found by running them."""

from __future__ import annotations

from bench_run.commands.coverage import cover, coverage_text, small_graphs
from bench_run.graph.make.spec import OPS
from bench_run.graph.operations import OPERATIONS, POINTWISE_MODES

GRAPHS = [graph for recipe in OPS.values() for graph in small_graphs(recipe)]


def test_the_table_has_a_row_for_every_operation_and_a_column_for_every_engine(bench_run_command):
    done = bench_run_command("coverage", "--engine", "numpy")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {"operation", "direction", "numpy"} <= set(lines[0].split())
    assert set(OPS) == {line.split()[0] for line in lines[2 : 2 + len(OPS)]}
    assert f"numpy: {len(OPS)} of {len(OPS)} operations" == lines[-1]


def test_the_operations_of_the_table_cover_every_node_type_but_the_custom_one():
    covered = {node.type for graph in GRAPHS for node in graph.nodes}
    assert {row.type for row in OPERATIONS.values() if row.family != "custom"} == covered


def test_the_operations_of_the_table_cover_every_pointwise_mode():
    covered = {node.attributes.get("operation") for graph in GRAPHS for node in graph.nodes}
    assert set(POINTWISE_MODES) == covered - {None}


def test_a_refusal_is_shown_with_its_reason_and_counted_out():
    def attempt(_engine, graph):
        return "no doubles" if graph.io_data_type == "double" else None

    rows = [row for row in cover(("picky",), attempt) if row.operation == "relu"]
    text = coverage_text(("picky",), rows)
    assert "3 of 4" in text
    assert "relu_n2c3h4w5_double_nchw: no doubles" in text
    assert text.endswith("picky: 0 of 1 operations")
