"""Work that goes on when a stream says that it is over, and honest threads that look like it."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import bench_run
from bench_run.measure.unfinished import ThreadWatch, find_false_clock, find_hidden
from bench_run.streams.host import HostStream

SAMPLES_NS = (600,) * 9 + (5000,)
WORK_S = 0.003


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Deferred:
    """Leaves its work to a thread, one piece after another; `arrive` waits for it."""

    def __init__(self, work):
        self.todo = queue.Queue()
        self.work = work
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            self.todo.get()
            self.work()
            self.todo.task_done()

    def run(self):
        self.todo.put(None)

    def arrive(self):
        self.todo.join()
        return 0


def nothing():
    return None


def no_bytes():
    return 0


def test_work_left_to_a_thread_that_a_reading_waits_for_is_found():
    plan = Deferred(lambda: time.sleep(WORK_S))
    found = find_hidden(plan.run, nothing, plan.arrive, SAMPLES_NS)
    assert "work is done outside of the samples" in found
    assert "the samples of as many 9.600 µs" in found


def test_a_synchronize_that_waits_is_not_accused():
    plan = Deferred(lambda: time.sleep(WORK_S))
    assert None is find_hidden(plan.run, plan.todo.join, plan.arrive, [3_300_000])


def test_an_engine_that_is_fast_in_samples_only_is_found():
    assert "outside" in find_hidden(lambda: spin(0.001), nothing, no_bytes, SAMPLES_NS)


def test_a_machine_that_became_slower_is_no_accusation():
    slow = lambda: spin(0.0002)  # noqa: E731
    assert None is find_hidden(slow, nothing, no_bytes, [100_000] * 2, 0, lambda: [210_000] * 8)
    assert "outside" in find_hidden(slow, nothing, no_bytes, [1_000] * 2, 0, lambda: [1_000] * 8)


def test_outputs_that_are_computed_by_each_reading_are_found():
    def arrive():
        time.sleep(WORK_S)
        return 4096

    assert "outside of the samples" in find_hidden(nothing, nothing, arrive, SAMPLES_NS)


@pytest.mark.parametrize("size", [64, 1 << 20, 1 << 25])
def test_copies_are_not_accused_however_short_the_iteration_was(size):
    source = np.ones(size, np.uint8)
    assert None is find_hidden(nothing, nothing, lambda: source.copy().nbytes, SAMPLES_NS)


def test_outputs_in_another_order_are_not_accused():
    source = np.ones((1024, 2048), np.float32)
    arrive = lambda: np.ascontiguousarray(source.T).nbytes  # noqa: E731
    assert None is find_hidden(nothing, nothing, arrive, SAMPLES_NS)


def test_reading_that_takes_a_small_part_of_an_iteration_is_not_accused():
    def arrive():
        time.sleep(WORK_S)
        return 4

    assert None is find_hidden(nothing, nothing, arrive, [30_000_000])


class Clock(HostStream):
    """Shows so many times what the host's does."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def elapsed_ns(self, begin, end):
        return int(self.factor * (end - begin))


@pytest.mark.parametrize(("factor", "is_false"), [(0.1, True), (0.5, True), (1, False), (2, True)])
def test_a_device_clock_is_held_against_the_host_s(factor, is_false):
    found = find_false_clock(lambda: spin(0.0002), Clock(factor), [200_000], [200_000])
    assert is_false == (found is not None)


class SlowMarks(Clock):
    """Takes long before the first mark and after the second, several times what is between them."""

    def __init__(self, factor):
        super().__init__(factor)
        self.is_first = False

    def mark(self):
        self.is_first = not self.is_first
        spin(0.02 if self.is_first else 0)
        made = super().mark()
        spin(0 if self.is_first else 0.02)
        return made


@pytest.mark.parametrize(("factor", "is_false"), [(0.1, True), (1, False), (2, True)])
def test_marks_that_take_long_hide_no_false_clock(factor, is_false):
    found = find_false_clock(lambda: spin(0.0002), SlowMarks(factor), [200_000], [200_000])
    assert is_false == (found is not None)


def test_device_times_of_nothing_are_not_believed():
    found = find_false_clock(nothing, Clock(1), [1] * 5, [600] * 5)
    assert "not longer than two marks" in found


WITHIN = """
import time
from bench_run.measure.unfinished import ThreadWatch

watch = ThreadWatch(1)
end = time.perf_counter() + 0.02
while time.perf_counter() < end:
    pass
print(watch.reason())
"""


def test_threads_within_their_number_are_not_accused():
    """In a group of its own, as a worker is: other tests are counted in the group of this one."""
    command = [sys.executable, "-c", WITHIN]
    done = subprocess.run(
        command, capture_output=True, text=True, start_new_session=True, check=True
    )
    assert "None\n" == done.stdout


def test_no_threads_asked_for_is_nothing_to_exceed():
    assert None is ThreadWatch(None).reason()


MS = 1_000_000


@pytest.mark.parametrize(
    ("threads", "own_ms", "group_s", "used"),
    [
        (1, 105, 0.0, None),
        (1, 108, 0.0, "1.1 processors were used while sampled, of 1 by --threads"),
        (1, 100, 0.14, None),  # counted in steps of 10 ms
        (1, 10, 0.39, "3.9 processors"),
        (4, 400, 0.44, None),
        (4, 790, 0.8, "8.0 processors"),
    ],
)
def test_processor_time_beyond_the_threads_that_were_given_is_told(threads, own_ms, group_s, used):
    times = iter([(0, 0, 0.0), (100 * MS, own_ms * MS, group_s)])
    found = ThreadWatch(threads, lambda: next(times)).reason()
    assert (found is None) == (used is None)
    assert used is None or used in found


@pytest.mark.usefixtures("hostile")
def test_an_engine_that_takes_more_processors_than_it_was_given_is_implausible(small_graph):
    idle = os.cpu_count() - os.getloadavg()[0]
    if idle < 1:
        pytest.skip("no second processor is idle, which an engine could take")
    engines = ["hostile:widens-its-threads+threads=1", "hostile:fine+threads=1"]
    document = bench_run.run([str(small_graph)], engine=engines, rounds=1, iterations=20)
    widened, fine = document.cases
    assert "processors were used while sampled, of 1 by --threads" in widened.implausible
    assert None is fine.implausible
