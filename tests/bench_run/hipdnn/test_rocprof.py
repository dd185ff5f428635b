"""rocprofv3's files, as its documentation describes them, read into kernels and a trace."""

from __future__ import annotations

import json
import os
import sys

import pytest
from bench_schema.files import read

from bench_run.cli import main
from bench_run.errors import EngineError, EngineUnavailableError
from bench_run.profilers import ncu, rocprof
from bench_run.profilers.base import REST_NS
from bench_run.profilers.records import kernels, last_iterations, trace_events

GEMM, BIAS = "igemm_fwd_gtcx3_nhwc_fp16", "OpTensorFwdBias"


@pytest.fixture
def recorded(root):
    return root / "tests" / "data" / "rocprof"


@pytest.fixture
def iterations(recorded):
    return last_iterations(rocprof.read_trace(recorded / "trace"), 2, REST_NS)


def test_launches_fall_into_iterations_by_the_rests_between_them(iterations):
    assert [[GEMM, BIAS]] * 2 == [[each.name for each in one] for one in iterations]


def test_too_few_groups_are_no_iterations(recorded):
    assert last_iterations(rocprof.read_trace(recorded / "trace"), 5, REST_NS) is None


def test_kernels_have_their_launches_and_median_times(iterations):
    found = [(kernel.name, kernel.count, kernel.median_ns) for kernel in kernels(iterations)]
    assert [(GEMM, 1, 41000), (BIAS, 1, 4100)] == found


def test_counters_are_medians_over_launches_and_sums_over_units(recorded):
    launches = rocprof.read_counters(recorded / "counters")
    assert {"FETCH_SIZE": 3076, "SQ_WAVES": 416} == dict(kernels([launches])[0].counters)


def test_the_trace_has_each_launch_in_microseconds(iterations):
    first, *_, last = trace_events(iterations)
    assert (GEMM, 40.0, 0) == (first["name"], first["dur"], first["args"]["iteration"])
    assert (5142.6, 1) == (round(last["ts"] - first["ts"], 3), last["args"]["iteration"])


def test_a_trace_is_one_command(tmp_path):
    found = rocprof.command("rocprofv3", tmp_path, ["python", "x.py"])
    expected = f"rocprofv3 --kernel-trace --output-format csv -d {tmp_path} -o bench -- python x.py"
    assert expected.split() == found


def test_counters_are_a_command_for_each_pass(tmp_path):
    commands = [
        rocprof.command("rocprofv3", tmp_path, ["p"], names)
        for names in rocprof.COUNTER_SETS["memory"]
    ]
    assert [["--pmc", "FETCH_SIZE"], ["--pmc", "WRITE_SIZE"]] == [c[1:3] for c in commands[:2]]


def test_both_vendors_know_the_same_sets():
    assert set(ncu.SETS) == set(rocprof.COUNTER_SETS)


def test_without_the_tool_one_line_says_where_it_comes_from(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(EngineUnavailableError, match="rocprofv3 is not on the path: it comes with"):
        rocprof.find_tool()


def test_no_file_means_that_nothing_was_seen(tmp_path):
    with pytest.raises(EngineError, match=r"wrote no kernel_trace\.csv"):
        rocprof.read_trace(tmp_path)


def test_a_file_without_the_documented_columns_names_them(tmp_path):
    (tmp_path / "x_kernel_trace.csv").write_text('"Kernel_Name","Start_Timestamp"\n')
    with pytest.raises(EngineError, match="has no column Dispatch_Id, End_Timestamp"):
        rocprof.read_trace(tmp_path)


TOOL = """#!{python}
# Stands in for rocprofv3: runs the program, and writes one launch for each of its runs.
import pathlib, subprocess, sys
words = sys.argv[1:]
program = words[words.index("--") + 1 :]
done = subprocess.run(program)
place = pathlib.Path(words[words.index("-d") + 1]) / "77"
place.mkdir(parents=True)
times = [(1_000_000_000 + 6_000_000 * i, 1_000_020_000 + 6_000_000 * i) for i in range(6)]
if "--pmc" in words:
    name = words[words.index("--pmc") + 1]
    head = "Dispatch_Id,Kernel_Name,Start_Timestamp,End_Timestamp,Counter_Name,Counter_Value"
    rows = [f"{{i}},add_kernel,{{b}},{{e}},{{name}},12.5" for i, (b, e) in enumerate(times)]
    (place / "bench_counter_collection.csv").write_text("\\n".join([head, *rows]))
else:
    head = "Dispatch_Id,Kernel_Name,Start_Timestamp,End_Timestamp"
    rows = [f"{{i}},add_kernel,{{b}},{{e}}" for i, (b, e) in enumerate(times)]
    (place / "bench_kernel_trace.csv").write_text("\\n".join([head, *rows]))
sys.exit(done.returncode)
"""


@pytest.fixture
def profiler(tmp_path, monkeypatch):
    """A stand-in for the tool, first on the path."""
    tool = tmp_path / "bin" / "rocprofv3"
    tool.parent.mkdir()
    tool.write_text(TOOL.format(python=sys.executable))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")


SMALL = ("--engine", "hipdnn:MIOPEN_ENGINE", "--rounds", "1", "--iters", "2", "--warmup", "1")


def test_a_run_records_kernels_counters_and_a_trace(
    profiler, release, small_graph, tmp_path, monkeypatch
):
    release()
    monkeypatch.setitem(rocprof.COUNTER_SETS, "memory", (("FETCH_SIZE",),))
    output, trace = tmp_path / "run.json", tmp_path / "trace.json"
    words = ["--counters", "memory", "--trace", str(trace), "-o", str(output)]
    assert 0 == main([str(small_graph), *SMALL, *words])
    (kernel,) = read(output).cases[0].kernels
    assert ("add_kernel", 1, 20000) == (kernel.name, kernel.count, kernel.median_ns)
    assert {"FETCH_SIZE": 12.5} == dict(kernel.counters)
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    assert (0, ["add_kernel"] * 5) == (events[0]["ts"], [event["name"] for event in events])


def test_without_the_tool_the_run_says_so_in_one_line(release, small_graph, capsys):
    release()
    assert 0 == main([str(small_graph), *SMALL, "--counters", "memory"])
    assert 1 == capsys.readouterr().err.count("rocprofv3 is not on the path: it comes with ROCm")
