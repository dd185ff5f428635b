"""rocprofv3's files, as its documentation describes them, read into kernels and a trace."""

from __future__ import annotations

import pytest

from bench_run.errors import EngineError, EngineUnavailableError, UsageError
from bench_run.profilers import rocprof
from bench_run.profilers.records import kernels, last_iterations, trace_events
from bench_run.profilers.target import REST_NS

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


def test_the_trace_counts_from_the_first_launch_in_microseconds(iterations):
    name, first, *_, last = trace_events("conv on hipdnn", 3, iterations)
    assert ("process_name", "conv on hipdnn") == (name["name"], name["args"]["name"])
    assert (GEMM, 0.0, 40.0, 0) == (
        first["name"], first["ts"], first["dur"], first["args"]["iteration"],
    )  # fmt: skip
    assert (5142.6, 4.2, 1) == (last["ts"], last["dur"], last["args"]["iteration"])


def test_a_trace_is_one_command(tmp_path):
    found = rocprof.command("rocprofv3", tmp_path, ["python", "x.py"])
    expected = f"rocprofv3 --kernel-trace --output-format csv -d {tmp_path} -o bench -- python x.py"
    assert expected.split() == found


def test_counters_are_a_command_for_each_pass(tmp_path):
    commands = [rocprof.command("rocprofv3", tmp_path, ["p"], names)
                for names in rocprof.passes("memory")]  # fmt: skip
    assert [["--pmc", "FETCH_SIZE"], ["--pmc", "WRITE_SIZE"]] == [c[1:3] for c in commands[:2]]


def test_counters_can_be_named():
    assert (("SQ_WAVES", "TCC_HIT[0:3]"),) == rocprof.passes("SQ_WAVES, TCC_HIT[0:3]")


@pytest.mark.parametrize("text", ["", "a b", "SQ_WAVES,", "-x"])
def test_what_is_no_counter_is_refused_with_the_sets(text):
    with pytest.raises(UsageError, match="memory, compute, occupancy"):
        rocprof.passes(text)


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
