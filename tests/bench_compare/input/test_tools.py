"""Files that other tools wrote, compared without a flag. Those under ``tests/data/foreign`` are
real: NVBench (its Python package) and Triton on an H200, the others on a processor; the second of
each pair does 10 % more work."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_compare.cli import main
from bench_compare.input.load import read_source

DATA = Path(__file__).parents[2] / "data/foreign"
PAIRS = {
    "nvbench": ("device_ns", 63.8e3, "slower"),
    "google": ("e2e_ns", 28.4e3, "unclear"),
    "pytest": ("e2e_ns", 28.97e3, "slower"),
    "hyperfine": ("e2e_ns", 11.5e6, "slower"),
    "pyperf": ("e2e_ns", 28.0e3, "slower"),
    "triton": ("device_ns", 3.21e6, "slower"),
}
"""Tool to the series of its first case, about its time, and the verdict on it."""


def files(tool):
    suffix = "csv" if tool == "triton" else "json"
    return [str(DATA / f"{tool}_{side}.{suffix}") for side in ("base", "other")]


def compared(capsys, *words):
    code = main([*words, "--json", "-"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("tool", PAIRS)
def test_two_files_of_a_tool_are_compared_without_a_flag(tool, capsys):
    series, time_ns, verdict = PAIRS[tool]
    code, report = compared(capsys, *files(tool))
    found = next(case for case in report["cases"] if case["gate"] is not None)
    metric = found["metrics"][series]
    assert (found["gate"], found["verdict"]) == (series, verdict)
    assert metric["base"] == pytest.approx(time_ns, rel=0.02)
    assert code == {"slower": 2, "unclear": 1}[verdict]


@pytest.mark.parametrize("tool", PAIRS)
def test_a_file_of_a_tool_is_shown_by_itself(tool, capsys):
    assert main([files(tool)[0]]) == 0
    out = capsys.readouterr().out
    assert "1970" not in out
    assert "none failed" in out


@pytest.mark.parametrize("tool", PAIRS)
def test_a_file_against_itself_is_never_slower(tool, capsys, tmp_path):
    source = Path(files(tool)[0])
    copy = tmp_path / source.name
    copy.write_bytes(source.read_bytes().replace(b"}", b"} ").replace(b",Clone", b",Clone "))
    for folder in DATA.glob(f"{source.name}-bin"):
        (tmp_path / folder.name).symlink_to(folder)
    code = main([str(source), str(copy)])
    said = capsys.readouterr()
    assert code == 1 or "slower (" not in said.out, said
    assert "FAIL" not in said.out


def test_three_files_a_side_of_one_process_each_are_decided(tmp_path, capsys):
    random = np.random.default_rng(3)
    tree = json.loads((DATA / "google_base.json").read_text())
    for side, level in (("a", 1.0), ("b", 1.1)):
        for number in range(3):
            for row in tree["benchmarks"]:
                row["real_time"] = 28e3 * level * float(np.exp(random.normal(0, 0.004)))
            (tmp_path / f"{side}{number}.json").write_text(json.dumps(tree))
    words = ["--a", str(tmp_path / "a*.json"), "--b", str(tmp_path / "b*.json")]
    code, report = compared(capsys, *words)
    assert (code, {case["verdict"] for case in report["cases"]}) == (2, {"slower"})


def test_one_process_a_side_is_said(capsys):
    main(files("nvbench"))
    assert "all samples of a file are of one process" in " ".join(capsys.readouterr().out.split())


def test_nvbench_has_samples_skipped_states_and_its_device():
    source = read_source(Path(files("nvbench")[0]))
    skipped, first, _ = source.document.cases
    assert source.format == "nvbench 1.0.0"
    assert (skipped.outcome.status, skipped.outcome.reason) == ("unsupported", "too small")
    assert first.graph.name == "matmul [N=1024 T=half]"
    assert first.rounds[0].series["device_ns"].size == 400
    assert first.summary["e2e_ns"].median > first.summary["device_ns"].median
    assert first.work.moved_bytes == pytest.approx(3 * 1024 * 1024 * 2, rel=1e-3)
    assert source.document.machine.devices[0].name == "NVIDIA H200"


def test_nvbench_without_its_folder_of_samples_is_refused(tmp_path, capsys):
    copy = tmp_path / "nvbench_base.json"
    copy.write_bytes(Path(files("nvbench")[0]).read_bytes())
    assert main([str(copy)]) == 1
    assert "nvbench_base.json-bin/0.bin, which is not there" in capsys.readouterr().err


def primbench(scale=1.0, batches=True):
    """As its reference describes it: context, specializations, summary."""
    times = [0.5 * scale + 0.001 * (n % 5) for n in range(20)]
    found = {
        "index": 0,
        "name": "key: int",
        "items": 1 << 20,
        "bytes_per_item": 8,
        "items_per_second": (1 << 20) / (0.502e-3 * scale),
        "bytes_per_second": 8 * (1 << 20) / (0.502e-3 * scale),
        "noise_timeout": False,
        "noise_percent": 0.3,
        "calls": {"kernel_calls_per_batch": 5, "batches": 4, "kernel_calls": 20},
    }
    if batches:
        parts = [times[n : n + 5] for n in range(0, 20, 5)]
        found["batches"] = [{"batch_ms": sum(some), "iterations_ms": some} for some in parts]
    general = {
        "algorithm": "device_sort",
        "gpu": {"name": "MI300X", "arch": "gfx942", "pci_bus_id": "0000:05:00.0"},
        "backend": {"name": "hip", "hip_version": "7.1.0"},
        "host_name": "node7",
        "date": "2026-10-01T10:00:00+00:00",
        "commit_hash": "0a1b2c",
    }
    context = {"results_version": "4.0.0", "general": general, "settings": {"hot": False}}
    return {"context": context, "specializations": [found], "summary": {}}


@pytest.mark.parametrize("batches", [True, False])
def test_primbench_is_judged_by_its_iterations_else_by_its_rate(batches, tmp_path, capsys):
    paths = []
    for name, scale in (("a", 1.0), ("b", 1.2)):
        paths.append(str(tmp_path / f"{name}.json"))
        Path(paths[-1]).write_text(json.dumps(primbench(scale, batches)))
    source = read_source(Path(paths[0]))
    (one,) = source.document.cases
    assert source.document.run.tags == {"commit": "0a1b2c"}
    assert source.document.run.settings.cache == "cold"
    assert one.summary["device_ns"].median == pytest.approx(0.502e6, rel=0.01)
    assert bool(one.rounds) == batches
    assert main(paths) == 2
    assert "slower (1.2×, " in capsys.readouterr().out


def google(*rows, **more):
    found = [{"name": "f", "run_name": "f", "run_type": "iteration", **row} for row in rows]
    return {"context": {"library_version": "1.9.5"}, "benchmarks": found, **more}


def saved(tmp_path, tree):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(tree))
    return read_source(path).document.cases


def test_times_of_a_few_nanoseconds_keep_their_fractions(tmp_path):
    rows = [{"real_time": 2.5 + 0.01 * n, "time_unit": "ns", "iterations": 9} for n in range(4)]
    (one,) = saved(tmp_path, google(*rows))
    assert one.summary["e2e_ns"].median == pytest.approx(2.515)


def test_a_time_that_is_taken_by_hand_is_the_devices(tmp_path):
    rows = [{"real_time": 2.0, "time_unit": "ms", "run_name": "sort/manual_time"}] * 3
    (one,) = saved(tmp_path, google(*rows))
    assert one.summary["device_ns"].median == 2e6


def test_one_repetition_is_a_summary(tmp_path):
    (one,) = saved(tmp_path, google({"real_time": 2.0, "time_unit": "us", "iterations": 500}))
    assert (one.rounds, one.summary["e2e_ns"].median, one.summary["e2e_ns"].count) == ((), 2e3, 500)


def test_an_error_of_google_benchmark_is_a_failed_case(tmp_path):
    (one,) = saved(tmp_path, google({"error_occurred": True, "error_message": "no device"}))
    assert (one.outcome.status, one.outcome.reason) == ("failed", "no device")


def test_a_fit_of_complexity_is_no_case(tmp_path):
    fit = {"run_name": "g", "run_type": "aggregate", "aggregate_name": "BigO", "big_o": "N"}
    rows = [{"real_time": 2.0, "time_unit": "us"}, fit]
    assert [case.graph.name for case in saved(tmp_path, google(*rows))] == ["f"]


def test_a_cell_without_a_value_is_a_provider_that_did_not_run(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text("N,triton (ms),torch (ms)\n128,1.0,\n256,nan,2.0\n")
    statuses = [case.outcome.status for case in read_source(path).document.cases]
    assert statuses == ["completed", "unsupported", "unsupported", "completed"]
    assert main([str(path)]) == 0


def test_commands_of_hyperfine_in_one_file_are_compared_as_engines(tmp_path, capsys):
    trees = [json.loads(Path(path).read_text()) for path in files("hyperfine")]
    path = tmp_path / "both.json"
    path.write_text(json.dumps({"results": [tree["results"][0] for tree in trees]}))
    code, report = compared(capsys, str(path), "--group-by", "engine")
    (found,) = report["cases"]
    assert (code, found["engine"]) == (2, "sleep 0.010 → sleep 0.012")


def test_a_table_without_units_says_how_to_name_them(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text("N,triton,torch\n128,1.0,2.0\n")
    assert main([str(path)]) == 1
    assert "name it as in 'triton (ms)' or 'triton (GB/s)'" in capsys.readouterr().err


def test_a_refusal_names_the_tools(tmp_path, capsys):
    path = tmp_path / "x.json"
    path.write_text('{"answer": 42}')
    assert main([str(path)]) == 1
    said = capsys.readouterr().err
    for tool in ("bench-run", "nvbench", "primbench", "hyperfine", "pyperf", "Triton"):
        assert tool in said


@pytest.mark.long
@given(
    tool=st.sampled_from(["google", "pytest", "hyperfine", "pyperf", "nvbench"]),
    place=st.integers(0, 10**6),
    value=st.sampled_from([None, {}, [], "x", -1, 0, float("nan"), 10**400, True]),
)
def test_no_damage_ends_in_a_traceback(tool, place, value, tmp_path_factory):
    """One value anywhere in a real file is replaced."""
    tree = json.loads(Path(files(tool)[0]).read_text())
    places = list(_places(tree))
    holder, key = places[place % len(places)]
    holder[key] = value
    path = tmp_path_factory.mktemp("damage") / "r.json"
    path.write_text(json.dumps(tree))
    assert main([str(path), files(tool)[1]]) in (0, 1, 2)


def _places(tree):
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree))
    for key in list(keys):
        yield tree, key
        if isinstance(tree[key], (dict, list)):
            yield from _places(tree[key])


@pytest.mark.parametrize(("shift", "verdicts"), [(1.05, {"unclear"}), (1.2, {"slower"})])
def test_what_another_process_can_make_is_no_change(shift, verdicts, tmp_path, capsys):
    """Thousands of samples of one process know nothing of another one: ten of one function were up
    to 7 % apart, and 12 of their 45 pairs were called faster or slower."""
    random = np.random.default_rng(2)
    paths = []
    for number, level in enumerate((1.0, shift)):
        tree = json.loads(Path(files("pytest")[0]).read_text())
        stats = tree["benchmarks"][0]["stats"]
        stats["data"] = (28e-6 * level * np.exp(random.normal(0, 0.003, 2000))).tolist()
        paths.append(str(tmp_path / f"{number}.json"))
        Path(paths[-1]).write_text(json.dumps(tree))
    _, report = compared(capsys, *paths)
    (found,) = report["cases"]
    assert found["verdict"] in verdicts
    if shift < 1.1:
        assert "no more than another process can make" in found["reason"]
