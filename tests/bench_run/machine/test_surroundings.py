"""What else the host did while a round was measured."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

import bench_run
from bench_run.machine import surroundings, telemetry
from bench_run.machine.surroundings import (
    HostWatch,
    find_run,
    others_on,
    tree_ns,
)

BUSY = "import time; end = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


def test_processor_time_of_this_process_is_not_that_of_others():
    root, begin, end = find_run(os.getpid()), time.process_time(), time.process_time() + 0.2
    before = tree_ns(root)
    while time.process_time() < end:
        pass
    assert (tree_ns(root) - before) / 1e9 >= time.process_time() - begin - 0.03


def test_processes_that_end_while_they_are_listed_are_left_out():
    many = "for i in $(seq 3000); do (true); done"
    with subprocess.Popen(["sh", "-c", many]) as busy:
        seen = [*iter(lambda: tree_ns(busy.pid) if busy.poll() is None else None, None)]
    assert max(seen) > 0


@pytest.mark.long
def test_processor_time_of_a_stranger_is_counted():
    command = [
        sys.executable,
        "-c",
        "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\n" + BUSY.format(2),
    ]
    subprocess.run(command, check=True)  # its child belongs to nobody of ours
    watch = HostWatch()
    watch.begin()
    time.sleep(1)
    watch.end()
    assert watch.surroundings().others_cpu_s > 0.05


@pytest.mark.long
def test_processor_time_of_a_process_that_we_start_meanwhile_is_not_that_of_others(monkeypatch):
    busy = iter([(0.0, 0.0), (0.0, 0.0), (1.0, 0.0)])  # one processor for a second
    monkeypatch.setattr(surroundings, "_host_times", lambda: next(busy))
    watch = HostWatch()
    watch.begin()
    with subprocess.Popen([sys.executable, "-c", BUSY.format(60)]) as ours:
        started = psutil.Process(ours.pid)
        while started.cpu_times().user < 0.5:  # on a busy machine it gets less than a processor
            time.sleep(0.05)
        watch.end()
        told = watch.surroundings()
        ours.kill()
    assert told.others_cpu_s < 0.7


@pytest.mark.long
def test_every_round_says_what_went_on_beside_it(fresh_workers, small_graph):
    document = bench_run.run([str(small_graph)], engine=["numpy"], rounds=1, iterations=3)
    found = document.cases[0].rounds[0].surroundings
    assert found.window_s > 0
    assert found.others_cpu_s >= 0
    assert found.involuntary_switches >= 0
    assert found.device_processes is None


class Nvml:
    """A driver with one device, and what computes on it."""

    class NVMLError(Exception):
        pass

    def __init__(self, there):
        self.there = there

    def nvmlInit(self):
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid != "GPU-1":
            raise self.NVMLError
        return uuid

    def nvmlDeviceGetComputeRunningProcesses(self, _handle):
        if self.there is None:
            raise self.NVMLError
        return [SimpleNamespace(pid=pid) for pid in self.there]


@pytest.fixture
def driver(monkeypatch):
    def install(there):
        telemetry.nvml.cache_clear()
        telemetry._handle.cache_clear()
        monkeypatch.setitem(sys.modules, "pynvml", Nvml(there))

    yield install
    telemetry.nvml.cache_clear()
    telemetry._handle.cache_clear()


def test_processes_of_others_on_the_device_are_counted_and_ours_are_not(driver):
    stranger = 2**22 + 1  # beyond what the kernel gives
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as ours:
        driver([os.getpid(), ours.pid, stranger])
        assert 1 == others_on("GPU-1")
        driver([os.getpid(), ours.pid])
        assert 0 == others_on("GPU-1")


@pytest.mark.parametrize(
    ("there", "device"), [(None, "GPU-1"), ([1, 2], "GPU-1"), ([], "GPU-1"), ([1], "GPU-2")]
)
def test_where_the_driver_does_not_count_as_we_do_nobody_knows(driver, there, device):
    driver(there)
    assert others_on(device) is None
