"""What lies between kernels comes from queues in which nothing records."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.measure.kernel_pass import (
    COLD,
    SEVERAL,
    SINGLE,
    Recorded,
    _choose,
    asks_for_records,
)
from bench_run.measure.loop import Measured
from bench_run.measure.queue_pass import added_ns, gap_ns
from bench_run.streams.cupti import KernelRecord

times = st.integers(500, 100_000)


class Queue:
    """A device that runs kernels of these durations with these gaps, and marks that cost some."""

    def __init__(self, kernels, gap, mark=1300, depth=100):
        self.kernels, self.gap, self.mark_ns, self.gate_depth = kernels, gap, mark, depth
        self.now, self.gates = 0, 0

    def mark(self):
        self.now += self.mark_ns
        return self.now

    def elapsed_ns(self, begin, end):
        return end - begin

    def run(self):
        self.now += sum(self.kernels) + self.gap * len(self.kernels)

    @contextmanager
    def gate(self):
        self.gates += 1
        yield

    def synchronize(self):
        return None


@given(st.lists(times, min_size=1, max_size=5), st.integers(-400, 3000), st.integers(0, 5000))
def test_the_gap_is_told_whatever_marks_cost(kernels, gap, mark):
    queue = Queue(kernels, gap, mark)
    assert gap == pytest.approx(gap_ns(queue, queue, len(kernels), sum(kernels)))


def test_a_gate_that_holds_too_few_tells_nothing():
    queue = Queue([1000], 500, depth=5)
    assert added_ns(queue, queue, 1000) is None
    assert 0 == queue.gates


def groups(kernels, gap, count=3):
    """As CUPTI records them: with gaps of its own."""
    made = []
    for number in range(count):
        at, group = 32 * 1000 * number, []
        for index, duration in enumerate(kernels):
            group.append(KernelRecord(f"k{index}", at, at + duration))
            at += duration + gap
        made.append(group)
    return made


EVENTS = Recorded(Measured({}, {"device_ns": [9000] * 3, "e2e_ns": [1] * 3}, "iterations"))


def test_one_kernel_takes_what_its_record_says():
    queue = Queue([1184], 800)
    found = _choose(queue, queue, EVENTS, groups([1184], 0), flushes=False)
    assert ([1184] * 3, 32.0, (SINGLE,)) == (
        found.measured.series["device_ns"], found.bound_ns, found.notes)  # fmt: skip


def test_between_several_kernels_lie_the_gaps_of_the_queue_not_of_the_records():
    queue = Queue([2000, 6400], 800)
    found = _choose(queue, queue, EVENTS, groups([2000, 6400], 1600), flushes=False)
    assert [9200] * 3 == found.measured.series["device_ns"]
    assert [10000] * 3 == found.measured.series["kernel_span_ns"]
    assert (800.0, (SEVERAL,), True) == (found.bound_ns, found.notes, found.replaces_events)


def test_after_a_flush_several_kernels_keep_their_events():
    queue = Queue([2000, 6400], 800)
    found = _choose(queue, queue, EVENTS, groups([2000, 6400], 1600), flushes=True)
    assert [9000] * 3 == found.measured.series["device_ns"]
    assert ((COLD,), False) == (found.notes, found.replaces_events)


@pytest.mark.parametrize(("timer", "median_ns", "asked"), [
    ("cupti", 1_000_000, True), ("auto", 1_000_000, False), ("events", 1_000, False),
])  # fmt: skip
def test_only_records_that_will_be_taken_are_waited_for(timer, median_ns, asked):
    stream = SimpleNamespace(timer=timer, flushes=False)
    assert asked is asks_for_records(stream, [median_ns] * 3)
