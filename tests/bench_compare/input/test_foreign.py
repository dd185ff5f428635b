"""Result files of dnn-benchmarking, in all of its layouts, read into the same model."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench_compare.cli import main
from bench_compare.comparison.compare import compare
from bench_compare.input.load import load, read_source
from bench_compare.input.sides import Grouping, group
from bench_compare.model import Verdict
from bench_compare.policy import Policy
from tests.bench_compare.build import case, document, side

MS = 1_000_000
CORRECT = {"match": True, "rtol": 1e-3, "atol": 1e-3, "max_abs_diff": 2e-4, "n_total": 9}
KERNEL_D = {"p25_ms": 0.9, "median_ms": 1.0, "p75_ms": 1.1}
MORE = {"mean_ms": 1.01, "std_ms": 0.1, "min_ms": 0.8, "p95_ms": 1.3, "max_ms": 2.0}
KERNELS = {"v2d": KERNEL_D, "v2c": {**KERNEL_D, "n": 100}, "v2b": {**KERNEL_D, "n": 100, **MORE}}


def plan(layout, **changes):
    timing = {"mode": "staged", "timer": "hip", "samples": 100, "first_call_ms": 180.0}
    return {
        "build_ms": 4.0,
        "timing": timing,
        "kernel": KERNELS[layout],
        "host": {"median_ms": 0.01},
        "workspace_bytes": 64,
        "correctness": CORRECT,
        **changes,
    }


def row(layout, **changes):
    return {
        "runtime": "hipdnn",
        "role": "engine",
        "engine": {"id": "0xA2", "name": "MIOPEN_ENGINE", "version": "1.0.3"},
        "status": "success",
        "message": None,
        "metrics": {"flops": 2_000_000, "io_bytes": 1000},
        "ootb": plan(layout),
        "oracle": None,
        **changes,
    }


def suite(layout="v2d", *rows, **graph):
    found = {
        "graph_id": "0a1b2c3d4e5f",
        "graph_name": "conv",
        "graph_path": "graphs/conv.json",
        "status": "ok",
        "results": list(rows) or [row(layout)],
        **graph,
    }
    return {
        "schema_version": 2,
        "tool": {"name": "dnn-benchmarking", "version": "0.4.0"},
        "run": {"started_at": "2026-09-10T08:00:00+00:00", "config": {"cache_mode": "warm"}},
        "environment": {"hostname": "node7", "gpu_model": "MI300X", "rocm_version": "7.1.0"},
        "graphs": [found],
    }


def second_a():
    flat = {**row("v2b"), "provider": "hipdnn", **plan("v2b")}
    for key in ("runtime", "ootb"):
        del flat[key]
    return suite("v2a", flat)


def first():
    stats = {"mean_ms": 1.0, "median_ms": 1.0, "total_ms": 100.0, "p99_ms": 1.9}
    result = {
        "provider": "MIOPEN_ENGINE",
        "engine_id": 162,
        "status": "success",
        "cpu_build_time_ms": 4.0,
        "gpu_kernel_stats": stats,
        "e2e_stats": {**stats, "median_ms": 2.0},
        "workspace_bytes": 64,
        "analytical_flops": 2_000_000,
        "analytical_io_bytes": 1000,
        "correctness": {"passed": True, "tolerance_match": True, "max_abs_diff": 2e-4},
    }
    graphs = [{"graph_name": "conv", "graph_path": "conv.json", "results": [result]}]
    return {"metadata": {"hostname": "node7", "gpu_model": "MI300X"}, "graphs": graphs}


def single():
    return {
        "host_timings": [2.0, 2.1, 2.2],
        "kernel_timings": [1.0, 1.1, 1.2],
        "metadata": {"graph_name": "conv", "engine_id": 162, "hostname": "node7"},
    }


LAYOUTS = {
    "v0": single(),
    "v1": first(),
    "v2a": second_a(),
    "v2b": suite("v2b"),
    "v2c": suite("v2c"),
    "v2d": suite("v2d"),
}


def imported(tree, tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(tree))
    source = read_source(tmp_path / "r.json")
    return source, source.document.cases


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_is_told_by_content(layout, tmp_path):
    source, _ = imported(LAYOUTS[layout], tmp_path)
    assert source.format == f"dnn-benchmarking {layout[:2]}"


@pytest.mark.parametrize("tree", [[], {}, None, {"schema_version": 2}, {"graphs": []}, "v1"])
def test_another_file_is_refused(tree, tmp_path, capsys):
    (tmp_path / "r.json").write_text(json.dumps(tree))
    assert main([str(tmp_path / "r.json")]) == 1
    assert "no results of a tool that is known" in capsys.readouterr().err


@pytest.mark.parametrize("layout", ["v1", "v2a", "v2b", "v2c", "v2d"])
def test_a_summary_is_read_without_samples(layout, tmp_path):
    source, (one,) = imported(LAYOUTS[layout], tmp_path)
    assert (one.rounds, one.outcome.status) == ((), "completed")
    assert one.summary["device_ns"].median == MS
    assert one.summary["device_ns"].count == 100
    assert one.init["plan_ns"].tolist() == [4 * MS]
    assert (one.memory.workspace_bytes, one.work.flops) == (64, 2_000_000)
    assert one.achieved.tflops == pytest.approx(2e6 / MS / 1000)
    assert (one.validation.status, one.validation.outputs[0].max_abs) == ("passed", 2e-4)
    assert source.document.machine.devices[0].name == "MI300X"


def test_a_single_run_has_its_samples_in_nanoseconds(tmp_path):
    _, (one,) = imported(LAYOUTS["v0"], tmp_path)
    assert one.rounds[0].series["device_ns"].tolist() == [MS, 1_100_000, 1_200_000]
    assert one.rounds[0].series["e2e_ns"].tolist() == [2 * MS, 2_100_000, 2_200_000]


def test_the_cache_and_the_timer_are_settings_that_must_agree(tmp_path):
    source, _ = imported(LAYOUTS["v2d"], tmp_path)
    settings = source.document.run.settings
    assert (settings.cache, settings.timer) == ("hot", "staged (hip)")


def test_a_tuned_plan_is_a_variant(tmp_path):
    _, cases = imported(suite("v2d", row("v2d", oracle=plan("v2d"))), tmp_path)
    assert [case.variant for case in cases] == [{}, {"plan": "oracle"}]


@pytest.mark.parametrize(
    ("status", "expected"), [("skipped", "unsupported"), ("error", "failed"), ("new", "failed")]
)
def test_what_did_not_run_keeps_its_message(status, expected, tmp_path):
    broken = row("v2d", status=status, message="no plan", ootb=None)
    _, (one,) = imported(suite("v2d", broken), tmp_path)
    assert (one.outcome.status, one.outcome.reason) == (expected, "no plan")


def test_a_graph_that_no_engine_takes_is_unsupported(tmp_path):
    tree = suite("v2d", status="no_engines", message="No engine.")
    tree["graphs"][0]["results"] = []
    _, (one,) = imported(tree, tmp_path)
    assert (one.outcome.status, one.outcome.reason) == ("unsupported", "No engine.")


def test_a_mismatch_is_a_failed_validation(tmp_path):
    wrong = row("v2d", ootb=plan("v2d", correctness={**CORRECT, "match": False, "n_mismatch": 4}))
    _, (one,) = imported(suite("v2d", wrong), tmp_path)
    assert (one.validation.status, one.validation.outputs[0].mismatched) == ("failed", 4)


def test_engines_of_one_name_are_told_apart_by_id(tmp_path):
    second = row("v2d", engine={"id": "0xB3", "name": "MIOPEN_ENGINE"})
    _, cases = imported(suite("v2d", row("v2d"), second), tmp_path)
    assert [case.engine for case in cases] == ["MIOPEN_ENGINE", "MIOPEN_ENGINE:0xB3"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_missing_and_unknown_keys_are_tolerated(layout, tmp_path):
    tree = json.loads(json.dumps(LAYOUTS[layout]))
    for graph in tree.get("graphs", ()):
        for result in graph["results"]:
            result.pop("engine", None)
            result["new"] = {"key": [1]}
    for name in ("environment", "run", "tool", "metadata"):
        tree[name] = {} if name in tree else None
    assert len(imported({k: v for k, v in tree.items() if v is not None}, tmp_path)[1]) == 1


def saved(tmp_path, name, tree):
    (tmp_path / name).write_text(json.dumps(tree))
    return str(tmp_path / name)


def test_two_files_are_compared_by_the_scatter_that_they_state(tmp_path):
    slow = suite("v2d", row("v2d", ootb=plan("v2d", kernel={**KERNEL_D, "median_ms": 3.0})))
    sources, _ = load([saved(tmp_path, "a.json", suite()), saved(tmp_path, "b.json", slow)])
    base, others = group(sources, Grouping())
    (found,) = compare(base, others, Policy()).cases
    assert (found.verdict, found.gate_metric.ratio) == (Verdict.SLOWER, pytest.approx(3.0))
    assert "beyond the threshold of 1 %; provisional" in found.reason
    assert {note.kind for note in found.notes} == {"imported"}


def test_samples_of_single_runs_are_tested(tmp_path):
    random = np.random.default_rng(0)
    trees = []
    for level in (1.0, 1.5):
        times = (level * np.exp(random.normal(0, 0.005, 200))).tolist()
        trees.append({**single(), "kernel_timings": times})
    names = [saved(tmp_path, f"{n}.json", tree) for n, tree in enumerate(trees)]
    base, others = group(load(names)[0], Grouping())
    (found,) = compare(base, others, Policy()).cases
    assert (found.verdict, found.gate_metric.provisional) == (Verdict.SLOWER, True)


def test_our_document_meets_theirs_by_name(tmp_path):
    source, _ = imported(suite(), tmp_path)
    ours = side("ours", document([case("conv", [[MS] * 20] * 5, engine="torch")]))
    _, (theirs,) = group([*ours.sources, source], Grouping("file"))
    (found,) = compare(ours, [theirs], Policy()).cases
    assert (found.base is None, found.other is None) == (False, False)


@pytest.mark.parametrize("base", LAYOUTS)
@pytest.mark.parametrize("other", LAYOUTS)
def test_every_two_layouts_meet(base, other, tmp_path):
    trees = LAYOUTS[base], {**LAYOUTS[other], "again": base == other}
    paths = [saved(tmp_path, f"{number}.json", tree) for number, tree in enumerate(trees)]
    ours, (theirs,) = group(load(paths)[0], Grouping("file"))
    (found,) = compare(ours, [theirs], Policy()).cases
    assert found.gate == "device_ns"
    assert found.verdict in (Verdict.SAME, Verdict.FASTER, Verdict.SLOWER, Verdict.UNCLEAR)
