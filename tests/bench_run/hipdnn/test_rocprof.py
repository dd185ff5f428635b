"""rocprofv3's files, as its documentation describes them, read into kernels and a trace."""

from __future__ import annotations

import json
import os
import sys

import pytest
from bench_schema.files import read

from bench_run.cli import main
from bench_run.errors import EngineError, EngineUnavailableError
from bench_run.profilers import amd, ncu
from bench_run.profilers.amd import (
    BY_ARCH,
    UNKNOWN,
    counters_of,
    kernels,
    last_iterations,
    trace_events,
)
from bench_run.profilers.base import REST_NS

GEMM, BIAS = "igemm_fwd_gtcx3_nhwc_fp16", "OpTensorFwdBias"


@pytest.fixture
def recorded(root):
    return root / "tests" / "data" / "rocprof"


@pytest.fixture
def iterations(recorded):
    return last_iterations(amd.read_trace(recorded / "trace"), 2, REST_NS)


def test_launches_fall_into_iterations_by_the_rests_between_them(iterations):
    assert [[GEMM, BIAS]] * 2 == [[each.name for each in one] for one in iterations]


def test_too_few_groups_are_no_iterations(recorded):
    assert last_iterations(amd.read_trace(recorded / "trace"), 5, REST_NS) is None


def test_kernels_have_their_launches_and_median_times(iterations):
    found = [(kernel.name, kernel.count, kernel.median_ns) for kernel in kernels(iterations)]
    assert [(GEMM, 1, 41000), (BIAS, 1, 4100)] == found


def test_counters_are_medians_over_launches_and_sums_over_units(recorded):
    launches = amd.read_counters(recorded / "counters")
    assert {"FETCH_SIZE": 3076, "SQ_WAVES": 416} == dict(kernels([launches])[0].counters)


def test_the_trace_has_each_launch_in_microseconds(iterations):
    first, *_, last = trace_events(iterations)
    assert (GEMM, 40.0, 0) == (first["name"], first["dur"], first["args"]["iteration"])
    assert (5142.6, 1) == (round(last["ts"] - first["ts"], 3), last["args"]["iteration"])


def test_a_trace_is_one_command(tmp_path):
    found = amd.rocprof_command("rocprofv3", tmp_path, ["python", "x.py"])
    expected = f"rocprofv3 --kernel-trace --output-format csv -d {tmp_path} -o bench -- python x.py"
    assert expected.split() == found


def test_a_counter_is_a_command_of_its_own(tmp_path):
    assert ["--pmc", "FETCH_SIZE"] == amd.rocprof_command(
        "rocprofv3", tmp_path, ["p"], ["FETCH_SIZE"]
    )[1:3]


@pytest.mark.parametrize("arch", [*BY_ARCH, None])
def test_both_vendors_know_the_same_sets(arch):
    assert set(ncu.SETS) == set(UNKNOWN if arch is None else BY_ARCH[arch])


@pytest.mark.parametrize(
    ("arch", "has", "lacks"),
    [
        ("gfx90a", "L2CacheHit", "TCC_HIT_sum"),
        ("gfx942", "TCC_HIT_sum", "L2CacheHit"),
        ("gfx950", "TCC_MISS_sum", "L2CacheHit"),
        ("gfx1151", "L2CacheHit", "MfmaUtil"),
    ],
)
def test_a_chip_is_asked_for_what_it_has(arch, has, lacks):
    names = counters_of("basic", arch)
    assert (True, False) == (has in names, lacks in names)


def test_the_tool_is_that_of_the_rocm_in_use(tmp_path, monkeypatch):
    for place in ("path", "rocm/bin", "wheel"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "rocprofv3").write_text("#!/bin/sh\n")
        (tmp_path / place / "rocprofv3").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "wheel"))
    found = []
    for place in ("wheel", "rocm/bin", "path"):
        found.append(amd.find_tool())
        (tmp_path / place / "rocprofv3").unlink()
    assert [str(tmp_path / p / "rocprofv3") for p in ("wheel", "rocm/bin", "path")] == found


def test_without_the_tool_one_line_says_where_it_comes_from(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(EngineUnavailableError, match="rocprofv3 is not on the path: it comes with"):
        amd.find_tool()


def test_no_file_means_that_nothing_was_seen(tmp_path):
    with pytest.raises(EngineError, match=r"wrote no kernel_trace\.csv"):
        amd.read_trace(tmp_path)


def test_a_file_without_the_documented_columns_names_them(tmp_path):
    (tmp_path / "x_kernel_trace.csv").write_text('"Kernel_Name","Start_Timestamp"\n')
    with pytest.raises(EngineError, match="has no column Dispatch_Id, End_Timestamp"):
        amd.read_trace(tmp_path)


TOOL = """#!{python}
# Stands in for rocprofv3: runs the program, and leaves the files of a chip in the documented form.
import os, pathlib, pickle, shutil, subprocess, sys
words = sys.argv[1:]
program = words[words.index("--") + 1 :]
if pickle.loads(pathlib.Path(program[-1]).read_bytes()).options.timer != "host":
    sys.exit("a closed gate would never open: kernels run one at a time")
record = words[words.index("--pmc") + 1] if "--pmc" in words else "trace"
source = pathlib.Path(os.environ["RECORDED_CHIP"]) / record
if not source.is_dir():
    sys.exit("Unable to find counter: " + record)
done = subprocess.run(program)
shutil.copytree(source, pathlib.Path(words[words.index("-d") + 1]) / "77")
sys.exit(done.returncode)
"""


@pytest.fixture(params=[pytest.param("gfx90a", marks=pytest.mark.slow), "gfx942"])
def chip(request, recorded, monkeypatch):
    """A chip of which the stand-in knows the counters."""
    monkeypatch.setenv("RECORDED_CHIP", str(recorded / request.param))
    return request.param


@pytest.fixture
def profiler(tmp_path, monkeypatch):
    """A stand-in for the tool, first on the path."""
    tool = tmp_path / "bin" / "rocprofv3"
    tool.parent.mkdir()
    tool.write_text(TOOL.format(python=sys.executable))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")


SMALL = ("--engine", "hipdnn:MIOPEN_ENGINE", "--rounds", "1", "--iters", "2", "--warmup", "1")


COUNTED = {
    "gfx90a": {
        "FETCH_SIZE": 3072,
        "WRITE_SIZE": 1024.5,
        "MemUnitStalled": 3.25,
        "L2CacheHit": 71.4,
    },
    "gfx942": {
        "FETCH_SIZE": 3000,
        "WRITE_SIZE": 1024,
        "MemUnitStalled": 1.5,
        "TCC_HIT_sum": 5120,
        "TCC_MISS_sum": 2048,
    },
}


@pytest.mark.slow
def test_counters_of_each_chip_are_taken_without_gate_and_with_kernels_and_a_trace(
    profiler, chip, release, small_graph, tmp_path, monkeypatch, capsys
):
    release()
    monkeypatch.setattr("bench_run.profilers.amd.arch_of", lambda _: chip)
    output, trace = tmp_path / "run.json", tmp_path / "trace.json"
    words = ["--counters", "memory", "--trace", str(trace), "-o", str(output)]
    assert 0 == main([str(small_graph), *SMALL, *words])
    (kernel,) = read(output).cases[0].kernels
    assert (GEMM, 1, 41000) == (kernel.name, kernel.count, kernel.median_ns)
    assert COUNTED[chip] == dict(kernel.counters)
    assert "no " not in capsys.readouterr().err
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    assert (0, [GEMM] * 5) == (events[0]["ts"], [event["name"] for event in events])


@pytest.mark.slow
def test_a_counter_that_the_chip_lacks_costs_itself_and_is_named(
    profiler, chip, release, small_graph, tmp_path, capsys
):
    release()
    output = tmp_path / "run.json"
    assert 0 == main([str(small_graph), *SMALL, "--counters", "memory", "-o", str(output)])
    (case,) = read(output).cases
    assert COUNTED[chip] == dict(case.kernels[0].counters)
    lacking = {"L2CacheHit", "TCC_HIT_sum", "TCC_MISS_sum"} - set(COUNTED[chip])
    notes = [note for note in case.notes if "Unable to find counter" in note]
    assert lacking == {note.split()[1].rstrip(":") for note in notes}


def test_without_the_tool_the_run_says_so_in_one_line(release, small_graph, capsys):
    release()
    assert 0 == main([str(small_graph), *SMALL, "--counters", "memory"])
    assert 1 == capsys.readouterr().err.count("rocprofv3 is not on the path: it comes with ROCm")
