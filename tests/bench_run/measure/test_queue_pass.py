"""What lies between kernels comes from queues in which nothing records."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_run.measure.kernel_pass import (
    COLD,
    FLUSHED,
    SEVERAL,
    SINGLE,
    Gaps,
    Recorded,
    added_ns,
    asks_for_records,
    choose_clock,
    gaps,
)
from bench_run.measure.loop import Measured
from bench_run.streams.base import StreamAbilities
from bench_run.streams.cupti import KernelRecord
from tests.bench_run.measure.replayed import Device, DevicePlan

times = st.integers(500, 100_000)


class Queue:
    """A device that runs kernels of these durations with these gaps, and marks that cost some. Both
    a stream and a plan."""

    abilities = SimpleNamespace(captured=None, forced_gates=None)

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
    found = gaps(queue, queue, len(kernels), sum(kernels))
    assert (found.inner_ns, found.between_ns) == (pytest.approx(gap), pytest.approx(gap))


def test_a_gate_that_holds_too_few_tells_nothing():
    queue = Queue([1000], 500, depth=5)
    assert added_ns(queue, queue, 1000) is None
    assert 0 == queue.gates


@given(st.lists(times, min_size=1, max_size=5), st.integers(-400, 900), st.integers(0, 3000))
def test_a_device_graph_has_a_gap_inside_and_another_to_the_next_graph(kernels, inner, between):
    device = Device(inner, between)
    found = gaps(DevicePlan(device, kernels), device, len(kernels), sum(kernels))
    assert (found.inner_ns, found.between_ns) == (pytest.approx(inner), pytest.approx(between))


def test_an_execution_that_is_replayed_has_the_gaps_inside_of_it_alone():
    device = Device(inner=300, between=900)
    plan = DevicePlan(device, [2000, 6400, 1000])
    found = choose_clock(plan, device, EVENTS, groups([2000, 6400, 1000], 1600), flushes=False)
    assert [10000] * 3 == found.measured.series["device_ns"]
    assert (300.0, Gaps(300.0, 900.0)) == (found.bound_ns, found.gaps)
    assert "gaps: 0.30 us between kernels of a device graph, 0.90 us between two graphs" in (
        found.notes
    )


def test_the_graph_that_is_captured_for_the_gap_is_closed_and_leaves_the_plan_as_it_was():
    device = Device(inner=300, between=900)
    plan = DevicePlan(device, [2000, 6400])
    gaps(plan, device, 2, 8400)
    assert (1, 1, "captured") == (device.captures, device.closed, plan.results)


def test_where_no_more_can_be_captured_the_gap_is_the_mean_of_both():
    device = Device(inner=300, between=900, refuses=True)
    found = gaps(DevicePlan(device, [2000, 6400]), device, 2, 8400)
    assert Gaps(600.0, 600.0) == found


def test_after_a_flush_the_gaps_are_those_of_hot_kernels():
    queue = Queue([2000, 6400], 800)  # what the queue runs is hot
    cold = groups([2500, 7000], 1600)
    found = choose_clock(queue, queue, EVENTS, cold, flushes=True, hot_sums=[8400] * 3)
    assert ([10300] * 3, (FLUSHED,)) == (found.measured.series["device_ns"], found.notes)


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
    found = choose_clock(queue, queue, EVENTS, groups([1184], 0), flushes=False)
    assert ([1184] * 3, 32.0, (SINGLE,)) == (
        found.measured.series["device_ns"],
        found.bound_ns,
        found.notes,
    )


def test_between_several_kernels_lie_the_gaps_of_the_queue_not_of_the_records():
    queue = Queue([2000, 6400], 800)
    found = choose_clock(queue, queue, EVENTS, groups([2000, 6400], 1600), flushes=False)
    assert [9200] * 3 == found.measured.series["device_ns"]
    assert [10000] * 3 == found.measured.series["kernel_span_ns"]
    assert (800.0, (SEVERAL,), True) == (found.bound_ns, found.notes, found.replaces_events)


def test_after_a_flush_several_kernels_keep_their_events():
    queue = Queue([2000, 6400], 800)
    found = choose_clock(queue, queue, EVENTS, groups([2000, 6400], 1600), flushes=True)
    assert [9000] * 3 == found.measured.series["device_ns"]
    assert ((COLD,), False) == (found.notes, found.replaces_events)


@pytest.mark.parametrize(
    ("timer", "median_ns", "asked"),
    [
        ("cupti", 1_000_000, True),
        ("auto", 1_000_000, False),
        ("events", 1_000, False),
    ],
)
def test_only_records_that_will_be_taken_are_waited_for(timer, median_ns, asked):
    stream = SimpleNamespace(abilities=StreamAbilities(kernel_timer=timer))
    assert asked is asks_for_records(stream, [median_ns] * 3)
