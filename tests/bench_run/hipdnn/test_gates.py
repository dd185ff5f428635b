"""Gates in whole runs: one that opens by force, one that never opens, none at all."""

from __future__ import annotations

import time

import pytest

import bench_run
from bench_run.graph.hipdnn_write import write_graph
from bench_run.report.console import UNGATED_MEANS, side_by_side, table
from tests.conformance.graphs import FAMILIES

WAITS = ["PointwiseAttributes"]


@pytest.fixture
def two_graphs(tmp_path):
    """A pointwise graph, for which some engines wait, and a matrix product."""
    folder = tmp_path / "graphs"
    folder.mkdir()
    for name in ("pointwise_add", "matmul_2d"):
        graph = FAMILIES[name]("float", "packed")
        (folder / f"{name}.json").write_bytes(write_graph(graph))
    return str(folder)


def measured(graphs, spec, rounds=1, **options):
    document = bench_run.run([graphs], engine=[spec], rounds=rounds, iterations=2 * rounds,
                             warmup=1, **options)  # fmt: skip
    return document, {case.graph.path.rpartition("/")[2]: case for case in document.cases}


def timings(cases):
    return {name: {r.device_timing for r in case.rounds} for name, case in cases.items()}


@pytest.mark.parametrize("profile", ["middle", "newest"])
def test_an_engine_that_waits_behind_the_gate_is_measured_without_and_the_table_says_so(
    release, plugin, two_graphs, profile
):
    release(profile)
    document, cases = measured(two_graphs, f"hipdnn@{plugin('waiting', waits=WAITS)}")
    assert {"matmul_2d.json": {"gated events"}, "pointwise_add.json": {"events"}} == timings(cases)
    shown = table(document)
    assert 1 == shown.count(f"* {UNGATED_MEANS}")
    assert 1 == sum("*" in line for line in shown.splitlines() if "passed" in line)
    assert "no gate" in cases["pointwise_add.json"].plan["timing"]


def test_a_gate_that_never_opens_costs_one_case_and_at_most_ten_seconds(
    release, plugin, two_graphs
):
    release("middle", gate="locked")
    begin = time.monotonic()
    measured(two_graphs, "hipdnn", rounds=2)
    usual_s = time.monotonic() - begin
    _, cases = measured(two_graphs, f"hipdnn@{plugin('waiting', waits=WAITS)}", rounds=2)
    spent_s = time.monotonic() - begin - usual_s
    stuck, fine = cases["pointwise_add.json"].outcome, cases["matmul_2d.json"].outcome
    assert ("timed out", "completed") == (stuck.status, fine.status)
    assert "the gate that holds the device back was closed for 8 s" in stuck.reason
    assert spent_s - usual_s < 10


def test_a_gate_that_its_watchdog_disabled_is_no_gate_for_the_rest_of_the_process(
    release, plugin, two_graphs
):
    release("newest", gate="sticky")
    _, cases = measured(two_graphs, f"hipdnn@{plugin('waiting', waits=WAITS)}", rounds=2)
    assert {"completed"} == {case.outcome.status for case in cases.values()}
    waiting, other = (cases[f"{name}.json"].rounds for name in ("pointwise_add", "matmul_2d"))
    assert {"events"} == {each.device_timing for each in waiting}
    later = [a.position < b.position for a, b in zip(waiting, other, strict=True)]
    assert ["events" if late else "gated events" for late in later] == [
        each.device_timing for each in other
    ]


def test_a_document_says_what_the_release_can_do(release, two_graphs):
    release("hard")
    document, _ = measured(two_graphs, "hipdnn")
    abilities = document.engines[0].abilities
    assert ["yes", "no"] == [
        abilities[name] for name in ("HipStallGate.release", "HipStallGate.timed_out")
    ]


def test_both_sides_of_an_a_b_run_carry_the_mark(release, plugin, two_graphs):
    release()
    folder = plugin("waiting", waits=WAITS)
    document = bench_run.run([two_graphs], a=f"hipdnn@{folder}", b=f"hipdnn@{folder}", rounds=1,
                             iterations=2, warmup=1)  # fmt: skip
    row = next(line for line in side_by_side(document).splitlines() if "add" in line)
    assert 2 == row.count("*")
