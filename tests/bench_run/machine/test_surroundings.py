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
    cpu_clock_mhz,
    find_run,
    others_on,
    tree_time_s,
)

BUSY = "import time; end = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


def process(folder, pid, parent, ticks=(0, 0, 0, 0), command=b"x", children=None):
    """A process as /proc shows it."""
    home = folder / str(pid)
    home.mkdir(parents=True)
    fields = " ".join(["S", str(parent), *["0"] * 9, *map(str, ticks)])
    (home / "stat").write_text(f"{pid} (a ) b) {fields} 0\n")
    (home / "cmdline").write_bytes(command)
    if children is not None:
        for task, pids in children.items():
            (home / "task" / str(task)).mkdir(parents=True)
            (home / "task" / str(task) / "children").write_text(" ".join(map(str, pids)))


@pytest.mark.parametrize("lists", [True, False])
def test_the_time_of_a_tree_counts_children_of_all_threads_and_ended_ones(tmp_path, lists):
    kept = {10: {10: [11], 17: [12]}, 11: {11: []}, 12: {12: []}, 13: {13: []}}
    for pid, parent, ticks in (
        (10, 1, (100, 20, 3, 4)),
        (11, 10, (50, 0, 0, 0)),
        (12, 10, (0, 7, 0, 0)),
        (13, 1, (999, 0, 0, 0)),
    ):
        process(tmp_path, pid, parent, ticks, children=kept[pid] if lists else None)
    assert 184 / os.sysconf("SC_CLK_TCK") == pytest.approx(tree_time_s(10, tmp_path))


def test_the_run_is_the_first_ancestor_that_is_no_worker(tmp_path):
    worker = b"python\0-m\0bench_run.worker.main\0"
    process(tmp_path, 20, 1, command=b"python\0bench-run\0")
    process(tmp_path, 21, 20, command=b"python\0-m\0bench_run.worker.template\0")
    process(tmp_path, 22, 21, command=worker)
    assert 20 == find_run(22, tmp_path)


def test_processor_time_of_this_process_is_not_that_of_others():
    root, begin, end = find_run(os.getpid()), time.process_time(), time.process_time() + 0.2
    before = tree_time_s(root)
    while time.process_time() < end:
        pass
    assert tree_time_s(root) - before >= time.process_time() - begin - 0.03


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
    busy = iter([(0.0, 0.0), (1.0, 0.0)])  # one processor for a second
    monkeypatch.setattr(surroundings, "_host_times", lambda _proc: next(busy))
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


def test_where_there_is_no_proc_nothing_is_known_and_nothing_fails(tmp_path):
    watch = HostWatch(tmp_path)
    watch.begin()
    watch.end()
    found = watch.surroundings()
    assert (None, None) == (found.others_cpu_s, found.steal_s)
    assert cpu_clock_mhz(tmp_path, tmp_path) is None


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
