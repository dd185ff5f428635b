"""`--parallel measure`: devices measure at the same time where that changes nothing."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from bench_schema.estimate import counting, round_log

import bench_run
from bench_run.errors import UsageError
from bench_run.machine.device_lock import DeviceLock
from bench_run.options import Options
from bench_run.runner.parallel.baton import Overlaps
from bench_run.runner.parallel.beside import companions_of
from bench_run.runner.parallel.sharing import share_devices
from bench_run.runner.rounds import Rounds

OPS = ("relu: n=2 c=4 h=8 w=8",)


def test_devices_that_measured_at_the_same_time_know_each_other():
    overlaps = Overlaps()
    first = overlaps.begin("A")
    second = overlaps.begin("B")
    assert {"B"} == overlaps.end(first)
    third = overlaps.begin("C")
    assert ({"A", "C"}, {"B"}) == (overlaps.end(second), overlaps.end(third))


# --- whole runs ---


def run(engine="twin", **changes):
    given = {"op": OPS, "rounds": 3, "iterations": 60, "warmup": 1, "reference": "none"}
    return bench_run.run((), engine=(engine,), device=None, **{**given, **changes})


def beside(document):
    """Which rounds of each case had companions."""
    return {c.id: [bool(companions_of(each)) for each in c.rounds] for c in document.cases}


def test_devices_measure_side_by_side_but_for_the_rounds_that_are_alone(twins, tmp_path):
    document = run(parallel="measure", output=str(tmp_path / "out.json"))
    assert "measure" == document.run.settings.device_parallelism
    assert [2, {3}] == [len(document.cases), {len(case.rounds) for case in document.cases}]
    assert not any(rounds[0] for rounds in beside(document).values())
    rounds = [
        r for c in json.loads((tmp_path / "out.json").read_bytes())["cases"] for r in c["rounds"]
    ]
    assert all(isinstance(each["surroundings"]["companions"], list) for each in rounds)


def test_a_device_that_slows_beside_others_is_measured_alone(twins):
    document = run("twin:slow", parallel="measure", iterations=300)
    times = [  # of what counts: a start beside others that end early is cut off as warm-up
        (math.exp(round_log(counting(each, "e2e_ns"))), companions_of(each))
        for case in document.cases
        for each in case.rounds
    ]
    fastest = min(time_ns for time_ns, _ in times)
    assert [] == [time_ns for time_ns, others in times if others and time_ns > 4 * fastest]


@pytest.mark.slow
def test_what_does_not_count_is_measured_again_while_other_cases_are_measured(twins, monkeypatch):
    batches, measure = [], Rounds._batch

    def batch(self, rounds):
        batches.append([len(case_runs) for case_runs in rounds])
        measure(self, rounds)

    monkeypatch.setattr(Rounds, "_batch", batch)
    ops = (*OPS, "add: dims=4x8 dtype=float", "add: dims=8x8 dtype=float", "relu: n=1 c=1 h=4 w=4")
    document = run("twin:slow", op=ops, parallel="measure", iterations=120)
    fallen = sum(any(n.endswith(": measured alone") for n in c.notes) for c in document.cases)
    assert 1 <= fallen
    assert sum(map(sum, batches[1:])) < fallen, "each of them has one void round at least"
    assert {3} == {len({each.pid for each in case.rounds}) for case in document.cases}


@pytest.mark.slow
def test_by_default_devices_take_turns(twins):
    assert not any(map(any, beside(run()).values()))


@pytest.mark.parametrize("devices", [{"a": "cpu"}, {"a": "GPU-1"}, {"a": "GPU-1", "b": "cpu"}])
def test_one_device_cannot_measure_side_by_side(devices):
    with pytest.raises(UsageError, match="--parallel goes with several accelerators"):
        share_devices(Options(parallel="measure"), devices)


# --- several runs on one device ---


def start(output, **env):
    words = [sys.executable, "-m", "bench_run", "--engine", "twin", "--op", OPS[0], "--rounds", "1"]
    words += ["--iters", "200", "--reference", "none", "--quiet", "-o", str(output)]
    return subprocess.Popen(words, env={**os.environ, **env})


def spans(trace):
    """By process, when each series of runs began and ended: the first run of a plan is copying."""
    found = {}
    for line in trace.read_text().splitlines():
        _, pid, begin, end = line.split()
        found.setdefault(int(pid), []).append((float(begin), float(end)))
    return {pid: runs for pid, runs in found.items() if len(runs) > 50}


@pytest.mark.slow
def test_two_runs_started_at_once_do_not_measure_at_the_same_time(twins, tmp_path):
    traces = [tmp_path / name for name in ("a", "b")]
    runs = [start(tmp_path / f"{t.name}.json", TWIN_TRACE=str(t)) for t in traces]
    assert [0, 0] == [process.wait(120) for process in runs]
    timed = [
        (runs[2][0], runs[-3][1])  # first runs and those after the samples only touch the device
        for trace in traces
        for runs in spans(trace).values()
    ]
    timed.sort()
    assert 2 == len(timed)
    assert [] == [(a, b) for a, b in pairwise(timed) if b[0] < a[1]]


def test_a_run_that_is_killed_leaves_no_lock(twins, tmp_path):
    trace = tmp_path / "trace"
    process = start(tmp_path / "a.json")
    until = time.monotonic() + 60
    while time.monotonic() < until and not (trace.exists() and trace.stat().st_size > 5000):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    begin = time.monotonic()
    held = DeviceLock(["TWIN-0"]).acquire(alone=True, stopped=lambda: time.monotonic() > begin + 30)
    assert (True, True) == (bool(held), time.monotonic() < begin + 20)
    held.release()
