"""Whole runs on a GPU: what the document says, and what a broken case costs."""

from __future__ import annotations

import json
import statistics

import pytest

from tests.support import graph_json

pytestmark = pytest.mark.gpu

QUICK = ("--iters", "6", "--rounds", "2", "--warmup", "2")


def test_a_result_is_validated_and_timed_by_the_device(run, spec, big_graph):
    case = run(big_graph, "--engine", spec, *QUICK)["cases"][0]
    assert ("completed", "passed") == (case["outcome"]["status"], case["validation"]["status"])
    assert case["summary"]["device_ns"]["median"] > 10_000


def test_the_device_and_its_ceilings_are_in_the_document(run, spec, big_graph):
    document = run(big_graph, "--engine", spec, *QUICK)
    device = document["machine"]["devices"][0]
    assert document["engines"][0]["device"] == device["uuid"]
    assert device["ceiling_gbps"] > 0 < device["ceiling_tflops"]["half"]
    assert 0.1 < document["cases"][0]["achieved"]["ceiling_share"] < 1.2


def test_telemetry_holds_a_probed_clock(run, spec, big_graph):
    round_ = run(big_graph, "--engine", spec, *QUICK)["cases"][0]["rounds"][0]
    assert round_["telemetry_before"]["probed_clock_mhz"] > 100


def test_the_cupti_timer_names_kernels(run, spec, big_graph):
    pytest.importorskip("cupti", reason="cupti-python is not installed")
    case = run(big_graph, "--engine", spec, *QUICK, "--timer", "cupti")["cases"][0]
    assert case["kernels"]
    assert case["summary"]["kernel_sum_ns"]["median"] <= case["summary"]["kernel_span_ns"]["median"]


def test_events_and_cupti_agree_on_a_long_kernel(run, spec, big_graph):
    pytest.importorskip("cupti", reason="cupti-python is not installed")
    medians = {}
    for timer in ("events", "cupti"):
        case = run(big_graph, "--engine", spec, "--iters", "60", "--timer", timer)["cases"][0]
        medians[timer] = case["summary"]["device_ns"]["median"]
    assert abs(medians["events"] / medians["cupti"] - 1) < 0.02


@pytest.mark.alone
@pytest.mark.parametrize("timer", ["events", "auto"])
def test_the_level_of_a_short_kernel_does_not_depend_on_the_number_of_samples(run, timer):
    relu = ("--op", "relu: n=16 c=64 h=32 w=32 dtype=half", "--engine", "cudnn", "--timer", timer)
    medians = []
    for count in (20, 100, 1000):
        case = run(*relu, "--iters", str(count), "--rounds", "5")["cases"][0]
        medians.append(case["summary"]["device_ns"]["median"])
    assert max(medians) - min(medians) < 150


@pytest.mark.alone
def test_the_first_sample_is_like_the_others_after_outputs_were_kept(run, spec):
    """What it reads and writes just fits a second-level cache of 50 MB, and copies push it out."""
    pytest.importorskip("cupti", reason="cupti-python is not installed")
    if spec == "cublaslt":
        pytest.skip("cuBLASLt has no relu alone")
    relu = "relu: n=32 c=256 h=32 w=32 dtype=half layout=nhwc"
    words = ("--iters", "160", "--rounds", "5", "--check-budget", "10")  # more than one sample
    case = run("--op", relu, "--engine", spec, *words)["cases"][0]
    assert case["validation"]["iterations_checked"] > 2 * len(case["rounds"])
    series = [each["series"]["device_ns"] for each in case["rounds"]]
    firsts = [each[0] / statistics.median(each) for each in series]
    assert statistics.median(firsts) < 1.03


@pytest.mark.needs("cudnn")
def test_attention_with_sinks_and_a_window_is_right(run):
    attention = "sdpa: b=1 h=32 hk=8 s=8192 d=128 mask=causal window=4096 sink=1 dtype=bfloat16"
    words = ("--op", attention, "--engine", "cudnn", "--reference", "torch:cuda")
    case = run(*words, "--iters", "60", "--rounds", "3")["cases"][0]
    assert ("completed", "passed") == (case["outcome"]["status"], case["validation"]["status"])


@pytest.mark.parametrize("setting", [("--cache", "cold"), ("--cache", "rotate"), ("--replay",)])
def test_a_result_is_right_in_every_setting(run, spec, small_graph, setting):
    case = run(small_graph, "--engine", spec, *QUICK, *setting)["cases"][0]
    assert ("completed", "passed") == (case["outcome"]["status"], case["validation"]["status"])


def test_a_case_that_does_not_fit_costs_only_itself(run, spec, small_graph, tmp_path):
    huge = tmp_path / "huge.json"
    huge.write_text(json.dumps(graph_json("huge", (1 << 20, 1 << 16))))
    found = run(huge, small_graph, "--engine", spec, *QUICK)["cases"]
    assert {"completed"} < {case["outcome"]["status"] for case in found}
