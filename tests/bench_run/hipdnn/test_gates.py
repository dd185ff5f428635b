"""Gates in whole runs: one that opens by force, one that never opens, none at all."""

from __future__ import annotations

import csv
import time
from dataclasses import replace

import pytest

import bench_run
from bench_run.report.console import oracle_table, side_by_side, table
from bench_run.report.formats import cases_csv, markdown, samples_csv
from bench_run.report.labels import UNGATED_MEANS, UNLIKE_MEANS

WAITS = ["PointwiseAttributes"]


def measured(graphs, spec, rounds=1, **options):
    document = bench_run.run(
        [graphs], engine=[spec], rounds=rounds, iterations=2 * rounds, warmup=1, **options
    )
    return document, {case.graph.path.rpartition("/")[2]: case for case in document.cases}


def timings(cases):
    return {name: {r.device_timing for r in case.rounds} for name, case in cases.items()}


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["sweep", "newest"])
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
    rows = [line for line in markdown(document).splitlines() if "\\*" in line]
    assert ["| add", f"\\* {UNGATED_MEANS}"] == [row[: 5 if row[0] == "|" else 99] for row in rows]
    assert {("add", "events"), ("matmul", "gated events")} == {
        (row["graph"], row["device_timing"])
        for text in (cases_csv(document), samples_csv(document))
        for row in csv.DictReader(text.splitlines())
        if row["series"] == "device_ns"
    }


@pytest.mark.slow
def test_a_gate_that_never_opens_costs_at_most_ten_seconds_and_no_case(release, plugin, two_graphs):
    release("sweep", gate="locked")
    begin = time.monotonic()
    measured(two_graphs, "hipdnn", rounds=2)
    usual_s = time.monotonic() - begin
    _, cases = measured(two_graphs, f"hipdnn@{plugin('waiting', waits=WAITS)}", rounds=2)
    spent_s = time.monotonic() - begin - usual_s
    assert {"completed"} == {case.outcome.status for case in cases.values()}
    assert {"matmul_2d.json": {"gated events"}, "pointwise_add.json": {"events"}} == timings(cases)
    notes = cases["pointwise_add.json"].notes
    assert "the engine hung behind the closed gate: device_ns hold the host's delays" in notes
    assert spent_s - usual_s < 10


@pytest.mark.slow
def test_a_gate_that_its_watchdog_disabled_costs_the_other_graphs_nothing(
    release, plugin, two_graphs
):
    release()
    _, cases = measured(two_graphs, f"hipdnn@{plugin('waiting', waits=WAITS)}", rounds=3)
    assert {"matmul_2d.json": {"gated events"}, "pointwise_add.json": {"events"}} == timings(cases)
    for case in cases.values():
        assert ("completed", {0, 1, 2}) == (case.outcome.status, {r.index for r in case.rounds})


@pytest.mark.slow
def test_the_bindings_own_watchdog_opens_the_gate_after_two_seconds(
    release, plugin, two_graphs, monkeypatch
):
    release()
    monkeypatch.setenv("HIPDNN_DOUBLE_WATCHDOG_S", "2")
    _, cases = measured(two_graphs, f"hipdnn@{plugin('waiting', waits=WAITS)}")
    assert {"matmul_2d.json": {"gated events"}, "pointwise_add.json": {"events"}} == timings(cases)


@pytest.mark.long
@pytest.mark.parametrize(
    ("profile", "kept"),
    [
        ("newest", True),
        pytest.param("newest", False, marks=pytest.mark.slow),
        pytest.param("sweep", True, marks=pytest.mark.slow),
    ],
)
def test_a_graph_whose_gate_is_forced_late_is_measured_again_as_a_whole(
    release, plugin, two_graphs, tmp_path, profile, kept
):
    release(profile)
    folder = plugin("late", waits=WAITS, waits_after=2)
    output = {"output": str(tmp_path / "run.json")} if kept else {}
    _, cases = measured(two_graphs, f"hipdnn@{folder}", rounds=3, **output)
    assert {"matmul_2d.json": {"gated events"}, "pointwise_add.json": {"events"}} == timings(cases)
    again = cases["pointwise_add.json"]
    assert [0, 1, 2] == sorted(each.index for each in again.rounds)
    assert {3} == {len(values) for values in again.init.values()}
    assert 6 == again.summary["device_ns"].count


@pytest.mark.slow
def test_both_sides_of_an_a_b_run_carry_the_mark(release, plugin, two_graphs):
    release()
    folder = plugin("waiting", waits=WAITS)
    document = bench_run.run(
        [two_graphs], a=f"hipdnn@{folder}", b=f"hipdnn@{folder}", rounds=1, iterations=2, warmup=1
    )
    row = next(line for line in side_by_side(document).splitlines() if "add" in line)
    assert 2 == row.count("*")
    pair = tuple(engine.key for engine in document.engines)
    shown = oracle_table(document, [pair])
    assert (2, 1) == (
        next(x for x in shown.splitlines() if "add" in x).count("*"),
        shown.count(UNGATED_MEANS),
    )


@pytest.mark.long
def test_a_side_with_a_gate_is_not_held_against_one_without(release, plugin, two_graphs):
    release()
    folders = [plugin("waiting", waits=WAITS), plugin("usual")]
    a, b = (f"hipdnn@{folder}" for folder in folders)
    document = bench_run.run([two_graphs], a=a, b=b, rounds=1, iterations=2, warmup=1)
    for shown in (side_by_side(document), oracle_table(document, [(a, b)])):
        row = next(line for line in shown.splitlines() if line.startswith("add"))
        assert (1, True) == (row.count("*"), "unlike" in row)
        assert 1 == shown.count(f"unlike: {UNLIKE_MEANS}")
    bare = replace(document, cases=())
    assert "unlike" not in oracle_table(bare, [(a, b)])
