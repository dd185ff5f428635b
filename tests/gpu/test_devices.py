"""Several GPUs in one run. Where there is one only, the tests that need two are skipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from bench_run.errors import EngineUnavailableError
from bench_run.streams.cuda_driver import device_count
from tests.support import graph_json

pytestmark = pytest.mark.gpu

QUICK = ("--iters", "4", "--rounds", "2", "--warmup", "1")
HELD = """
import json, sys
import pynvml
from bench_run.graph.sources.load import load
from tests.conformance.opening import opened, planned

def used():
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in sys.argv[3:]]
    return [pynvml.nvmlDeviceGetMemoryInfo(handle).used for handle in handles]

with opened(sys.argv[1], device=1) as engine:
    before = used()
    with planned(engine, load([sys.argv[2]]).graphs[0].graph) as plan:
        plan.run()
        engine.stream.synchronize()
        print(json.dumps([after - b for after, b in zip(used(), before)]))
"""
"""Bytes that a plan on device 1 takes of each device."""


@pytest.fixture
def python(root, tmp_path):
    """Runs Python on these words, with the packages of this folder."""
    paths = [str(root), str(root / "schema"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}

    def run(*words):
        command = [sys.executable, *map(str, words)]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=200, env=env
        )

    return run


@pytest.fixture(scope="module")
def devices():
    try:
        return device_count()
    except EngineUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def two_devices(devices):
    if devices < 2:
        pytest.skip("needs two GPUs, one is visible")


def test_all_devices_share_the_graphs(run, spec, big_graph, small_graph, devices):
    document = run(big_graph, small_graph, "--engine", spec, "--device", "all", *QUICK)
    units = {round_["device_uuid"] for case in document["cases"] for round_ in case["rounds"]}
    assert (2, True) == (len(document["cases"]), document["run"]["complete"])
    assert units <= {device["uuid"] for device in document["machine"]["devices"]}
    assert len(document["parts"]) == (devices if devices > 1 else 0)
    for case in document["cases"]:
        assert 1 == len({round_["device_uuid"] for round_ in case["rounds"]})


def test_each_device_is_measured_validated_and_named(run, two_devices, spec, big_graph):
    document = run(big_graph, "--engine", spec, "--device", "0,1", *QUICK)
    known = {device["uuid"]: device for device in document["machine"]["devices"]}
    for case, row in zip(document["cases"], document["engines"], strict=True):
        assert ("completed", "passed") == (case["outcome"]["status"], case["validation"]["status"])
        assert case["engine"] == row["key"] == f"{spec}+device={row['device_index']}"
        assert row["device_kind"] == known[row["device"]]["name"]
        assert known[row["device"]]["ceiling_gbps"] > 0
        assert case["summary"]["device_ns"]["median"] > 10_000


def test_the_memory_of_a_plan_lies_on_its_device(two_devices, run, python, spec, big_graph):
    pytest.importorskip("pynvml", reason="nvidia-ml-py tells where memory is taken")
    document = run(big_graph, "--engine", spec, "--device", "0,1", *QUICK)
    uuids = [row["device"] for row in document["engines"][:2]]
    done = python("-c", HELD, spec, big_graph, *uuids)
    assert 0 == done.returncode, done.stderr
    first, second = json.loads(done.stdout.splitlines()[-1])
    needed = 3 * 8192 * 4096 * 4
    assert first < needed / 4 < needed <= second


def test_devices_are_compared_by_their_engines(two_devices, run, python, spec, big_graph):
    run(big_graph, "--engine", spec, "--device", "0,1", *QUICK)
    done = python("-m", "bench_compare", "out.json", "--group-by", "engine", "--allow-no-answer")
    assert done.returncode in (0, 2), done.stderr
    assert f"{spec}+device=1" in done.stdout


def test_one_device_of_two_can_be_named_in_the_spec(two_devices, run, small_graph):
    words = ("--a", "cudnn+device=0", "--b", "cudnn+device=1")
    document = run(small_graph, *words, *QUICK)
    assert [0, 1] == [row["device_index"] for row in document["engines"]]
    assert "passed" == document["cases"][1]["validation"]["status"]


def test_a_device_that_is_not_there_is_one_line(bench_run_command, devices, spec, tmp_path):
    path = tmp_path / "g.json"
    path.write_text(json.dumps(graph_json()))
    done = bench_run_command(path, "--engine", spec, "--device", f"0,{devices}")
    assert (1, "") == (done.returncode, done.stdout)
    assert f"there is no GPU {devices}, only {devices}" in done.stderr
